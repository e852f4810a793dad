"""The files of a simulated guest, kept on its disk, and the commands that see them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

_SECTOR_BYTES = 512


class GuestFiles:
    """Names of files in the last sector of a disk; a sector of zeros has none."""

    def __init__(self, disk: Path) -> None:
        self._disk = disk

    def names(self) -> list[str]:
        with self._disk.open("rb") as disk:
            disk.seek(-_SECTOR_BYTES, 2)
            return disk.read().rstrip(b"\0").decode("ascii", "replace").split("\n")[1:]

    def add(self, name: str) -> None:
        content = "".join(f"\n{one}" for one in [*self.names(), name]).encode("ascii")
        with self._disk.open("r+b") as disk:
            disk.seek(-_SECTOR_BYTES, 2)
            disk.write(content.ljust(_SECTOR_BYTES, b"\0"))


def run_command(words: Sequence[str], files: GuestFiles) -> tuple[int, str]:
    """Do what a guest's shell would do; return the exit status and what goes to standard error."""
    match words:
        case ["touch", name]:
            files.add(name)
            return 0, ""
        case ["cat", name] if name not in files.names():
            return 1, f"cat: {name}: No such file or directory\n"
        case ["cat", _]:
            return 0, ""
        case _:
            return 127, f"{shlex.join(words)}: this guest cannot do that\n"
