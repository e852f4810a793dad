"""Ends a host of the tests for certain: also the fence command of their clouds.

Its one word is the host's directory. It ends once nothing of the host is left.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from mooring.lab.residents import end_residents, find_residents

NAMESPACE, AGENT = "namespace", "agent.pid"
"""What the directory of a host has: where its namespace is, and which process its agent is."""


def cut_power(root: Path, *, spares_guests: bool = False) -> None:
    """Let every process of a host die at once, or all but its guests."""
    with suppress(ProcessLookupError):
        os.kill(int((root / AGENT).read_text("ascii")), signal.SIGKILL)
    there = find_residents(Path((root / NAMESPACE).read_text("utf-8")))
    dying = [one for one in there if not (spares_guests and one.is_guest)]
    asyncio.run(end_residents(dying, signal.SIGKILL))


if __name__ == "__main__":
    cut_power(Path(sys.argv[1]))
