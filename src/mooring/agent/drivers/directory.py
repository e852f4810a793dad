"""Volumes as files of one directory, for this host's own guests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import structlog

from mooring.agent.drivers import identities
from mooring.agent.drivers.file_snapshots import FileSnapshots
from mooring.agent.drivers.known_storage import KnownStorage
from mooring.agent.drivers.records import RECORDS
from mooring.agent.qemu_img import QemuImg
from mooring.agent.settings import PoolSettings
from mooring.agent_api.volumes import VolumeFile
from mooring.errors import Unavailable

log = structlog.get_logger()
T = TypeVar("T")


class DirectoryDriver(FileSnapshots):
    """A directory that no other host sees, or those that the pool's settings name.

    Its file system may be mounted late, or go: what was the pool once is used again once it is
    back, and nothing else in its place. What it was stands in the file `known`.
    """

    def __init__(
        self, pool: PoolSettings, directory: Path, host: str, qemu_img: QemuImg, known: Path
    ) -> None:
        super().__init__(pool, directory, host, qemu_img)
        self._known = KnownStorage(pool.name, known)
        self._preparing, self._is_prepared = threading.Lock(), False
        self._run = self._run_there

    async def setup(self) -> None:
        self._is_prepared = False
        await self._threads.prepare(self._try, self.directory)

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

    async def _run_there(self, fn: Callable[[], T]) -> T:
        """Do a piece of blocking work where the pool is what it was. Raises Unavailable."""

        def work() -> T:
            self._require_there()
            return fn()

        return await self._threads.run(work)

    def _try(self) -> None:
        self._known.recall()
        try:
            self._require_there()
        except Unavailable as error:
            # The host's other pools and its guests have no part in it: each use looks again.
            log.warning("a pool cannot be used yet", pool=self.pool.name, reason=str(error))

    def _require_there(self) -> None:
        records = self.directory / RECORDS
        self._known.require(records)
        if self._is_prepared:
            return
        with self._preparing:
            if not self._is_prepared:
                self._paths.prepare()
                self._known.keep(identities.read(records, self._host))
                self._is_prepared = True
