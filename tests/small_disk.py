"""A disk of few MiB for a test to fill."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import Struct

from tests import scratch

KIB = 1 << 10


class SmallDisk(Struct, frozen=True):
    """The disk, by where it is mounted."""

    directory: Path

    @property
    def _filler(self) -> Path:
        return self.directory / "filler"

    def fill(self, but_kib: int = 0) -> None:
        """Leave so much room."""
        space = os.statvfs(self.directory)
        with self._filler.open("wb") as file:
            taken_bytes = space.f_bavail * space.f_frsize - but_kib * KIB
            os.posix_fallocate(file.fileno(), 0, taken_bytes)
        left = os.statvfs(self.directory)
        assert left.f_bavail * left.f_frsize == but_kib * KIB

    def make_room(self) -> None:
        """Take away what fills it."""
        self._filler.unlink()


@contextmanager
def mounted(size_mib: int) -> Generator[SmallDisk]:
    """Mount one, where every user may look in, and unmount it at the end. Skips without root."""
    held = scratch.make("mooring-small-")
    held.chmod(0o755)
    # Below the directory that is locked: what is mounted over that one has no lock.
    where = held / "disk"
    where.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "none", str(where)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting takes root")
    try:
        yield SmallDisk(where)
    finally:
        subprocess.run(["umount", str(where)], check=True)
