"""Where tests have the pools of a host, and disks that are mounted there."""

from __future__ import annotations

from pathlib import Path

from mooring.agent.identities import RECORDS
from mooring.agent.known_storage import PoolPlace


def place(directory: Path, host: str = "h1") -> PoolPlace:
    """Return a pool's place; what its host knows of it lies beside the directory."""
    return PoolPlace(directory, host, directory.parent / f"{host}-{directory.name}.identity")


class Disk:
    """A disk of its own, mounted where a pool is; the test unmounts and mounts it."""

    def __init__(self, directory: Path) -> None:
        self.point, self._away = directory / "point", directory / "away"
        self.place = place(self.point)
        self.point.mkdir()

    def unmount(self) -> None:
        """Leave an empty mount point."""
        self.point.rename(self._away)
        self.point.mkdir()

    def mount(self) -> None:
        """Put the disk back over its mount point."""
        self.point.rmdir()
        self._away.rename(self.point)

    def replace(self) -> None:
        """Have another one there, which is a pool as well."""
        self.unmount()
        records = self.point / RECORDS
        records.mkdir()
        (records / "identity").write_text("another")
