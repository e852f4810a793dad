"""Volumes as files of one directory, for this host's own guests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mooring.agent.drivers.file_snapshots import FileSnapshots
from mooring.agent.qemu_img import QemuImg
from mooring.agent.settings import PoolSettings
from mooring.agent_api.volumes import VolumeFile
from mooring.errors import Invalid


class DirectoryDriver(FileSnapshots):
    """A directory that no other host sees."""

    def __init__(self, pool: PoolSettings, directory: Path, host: str, qemu_img: QemuImg) -> None:
        super().__init__(pool, directory, host, qemu_img)

    def connect_info(self, volume: VolumeFile, connector: Mapping[str, Any]) -> dict[str, Any]:
        """Return the path of the file. Raises Invalid for another host."""
        if connector.get("host") != self._host:
            raise Invalid(
                f"Volume {volume.volume_id} lies in a directory of host {self._host}, and host "
                f"{connector.get('host')} cannot reach it. Use a server on {self._host}."
            )
        data = {
            "device_path": str(self.active_path(volume.volume_id)),
            "format": volume.format,
            "size_bytes": volume.virtual_bytes,
            "volume_id": volume.volume_id,
            "access_mode": "rw",
        }
        return {"driver_volume_type": "local", "data": data}
