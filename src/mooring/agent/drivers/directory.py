"""Volumes as files of one directory, for this host's own guests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mooring.agent.drivers.file_snapshots import FileSnapshots
from mooring.agent.qemu_img import QemuImg
from mooring.agent.settings import PoolSettings
from mooring.agent_api.volumes import VolumeFile


class DirectoryDriver(FileSnapshots):
    """A directory that no other host sees, or those that the pool's settings name."""

    def __init__(self, pool: PoolSettings, directory: Path, host: str, qemu_img: QemuImg) -> None:
        super().__init__(pool, directory, host, qemu_img)

    @property
    def hosts(self) -> list[str]:
        return sorted({self._host, *self.pool.hosts})

    def connect_info(self, volume: VolumeFile) -> dict[str, Any]:
        """Return the path of the file."""
        data = {
            "device_path": str(self.active_path(volume.volume_id)),
            "format": volume.format,
            "size_bytes": volume.virtual_bytes,
            "volume_id": volume.volume_id,
            "access_mode": "rw",
        }
        return {"driver_volume_type": "local", "data": data}
