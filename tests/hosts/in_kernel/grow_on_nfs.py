"""Runs in the test kernel: two disks on NFS 4.2 grow under a real guest that writes to them.

Its argument is the directory that tests/hosts/test_nfs_kernel.py has filled: a guest that was put
to sleep while it wrote, and its disks. The second argument is the mounted share.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.hosts.plain_guest import Guest, booted, disk_options
from tests.hosts.written import BLOCK, read_written

GIB = 1 << 30
DISKS = {"raw": "vdb", "qcow2": "vdc"}
"""For each format, the name that the guest gives the disk."""


def main(left: Path, share: Path) -> None:
    """Wake the guest on the share, and grow both disks under it."""
    for disk_format in DISKS:
        subprocess.run(["cp", "--sparse=always", left / disk_format, share], check=True)
    root = Path(shutil.copy(left / "root.qcow2", "/run/root.qcow2"))
    options = [word for one in DISKS for word in disk_options(one, share / one, one)]
    wake = ["-incoming", f"exec:cat {left / 'state'}"]
    with booted(root, Path("/run/control"), *options, *wake, first="writer has written") as guest:
        say("the guest is awake and writes")
        for disk_format in DISKS:
            refuse_by_lock(share / disk_format, disk_format)
            grow(guest, share / disk_format, disk_format)
        guest.order("quit")
        guest.process.wait(60)
    for disk_format in DISKS:
        written = read_written(share / disk_format, disk_format, GIB, Path("/run"))
        say(f"{disk_format}: {written}")
        assert written.before >= 8
        assert written.after >= 1


def refuse_by_lock(disk: Path, disk_format: str) -> None:
    """See that qemu-img may not touch what QEMU has open, though another process asks."""
    command = ["qemu-img", "resize", "-f", disk_format, str(disk), "2G"]
    environment = {**os.environ, "LC_ALL": "C"}
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 1, refused
    missed = re.search('Failed to get "(write|resize)" lock', refused.stderr)
    assert missed, refused
    say(f"{disk_format}: qemu-img is refused, for want of the lock {missed[1]}")


def grow(guest: Guest, disk: Path, disk_format: str) -> None:
    """Let QEMU grow a disk, and wait until the guest sees it and writes behind its old end."""
    name = DISKS[disk_format]
    guest.order("block_resize", device=disk_format, size=2 * GIB)
    guest.hear(f"disk {name} {2 * GIB} bytes serial={disk_format}")
    guest.hear(f"{name} writer goes on at block {GIB // BLOCK}")
    guest.hear_anew(f"{name} writer has written")
    say(f"{disk_format}: the guest sees {2 * GIB} bytes and writes on")


def say(words: str) -> None:
    """Tell the test outside."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
