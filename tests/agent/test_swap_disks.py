"""The files of swap disks, which a guest puts its memory in."""

from __future__ import annotations

import stat
from pathlib import Path

from mooring.agent import swap_disks

MIB = 1024**2


def test_nobody_else_reads_what_a_guest_puts_aside(tmp_path: Path) -> None:
    made = swap_disks.make(tmp_path / "own", 64 * MIB, "operation")
    status = made.path.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_size) == (0o600, 64 * MIB)
