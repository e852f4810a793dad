"""Stands in for `mount.nfs SERVER:PATH DIRECTORY -o OPTIONS`: binds the directory that is named.

For kernels without NFS. It is put in the place of the real one in a mount namespace alone.
"""

from __future__ import annotations

import subprocess
import sys


def main() -> int:
    """Mount it, and return how that ended."""
    export, point = sys.argv[1:3]
    source = export.partition(":")[2]
    return subprocess.run(["mount", "-i", "--bind", "--", source, point], check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
