"""Volumes as files of one directory, for this host's own guests."""

from __future__ import annotations

from typing import Any

from mooring.agent.drivers.file_snapshots import FileSnapshots
from mooring.agent.known_storage import KnownStorage, PoolPlace
from mooring.agent.qemu_img import QemuImg
from mooring.agent.settings import PoolSettings
from mooring.agent_api.volumes import VolumeFile


class DirectoryDriver(FileSnapshots):
    """A directory that no other host sees, or those that the pool's settings name.

    It is used only while it is the storage that its host knows.
    """

    def __init__(self, pool: PoolSettings, place: PoolPlace, qemu_img: QemuImg) -> None:
        super().__init__(pool, place.path, place.host, qemu_img)
        self._known = KnownStorage(pool.name, place, self._threads, super().setup)
        self._run = self._known.run

    async def setup(self) -> None:
        await self._known.setup()

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
