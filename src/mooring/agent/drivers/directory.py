"""Volumes as files of one directory, for this host's own guests.

`volume-<id>` is the data, `.mooring/volume-<id>.json` says what it is: a raw file is never probed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mooring.agent import files
from mooring.agent.drivers.base import (
    SourceImage,
    check_room,
    check_same,
    check_source,
    refuse_exported,
    require,
)
from mooring.agent.qemu_img import GIB, QemuImg
from mooring.agent.settings import PoolSettings
from mooring.agent_api.hosts import Pool
from mooring.agent_api.volumes import VolumeFile
from mooring.errors import Invalid, NoCapacity, Unavailable
from mooring.fence.threads import run_to_end

RECORDS = ".mooring"
PREFIX = "volume-"


class _Record(Struct, frozen=True):
    """What a file is, and the hosts that it is exported to, by attachment."""

    size_gib: int
    format: str
    exports: dict[str, str] = {}


class DirectoryDriver:
    """Implements `VolumeDriver` on one directory, which no other host sees."""

    def __init__(self, pool: PoolSettings, directory: Path, host: str, qemu_img: QemuImg) -> None:
        self._pool, self._directory, self._host = pool, directory, host
        self._qemu_img = qemu_img

    @property
    def pool(self) -> PoolSettings:
        return self._pool

    async def setup(self) -> None:
        try:
            await run_to_end(self._prepare)
        except OSError as error:
            raise Unavailable(
                f"Pool {self._pool.name} cannot use {self._directory}: {error.strerror}. See to "
                "the directory and start the agent again.",
                private=str(error),
            ) from error

    async def close(self) -> None:
        return

    async def stats(self) -> Pool:
        return await run_to_end(self._stats)

    async def volumes(self) -> list[VolumeFile]:
        return await run_to_end(self._volumes)

    async def find(self, volume_id: str) -> VolumeFile | None:
        return self._find(volume_id)

    async def create(
        self, wanted: VolumeFile, source: SourceImage | None, operation_key: str
    ) -> VolumeFile:
        if (known := self._find(wanted.volume_id)) is not None:
            return check_same(known, wanted)
        check_source(wanted, source)
        pool = await self.stats()
        check_room(pool, self._pool, wanted)
        _check_content(pool, source)
        path = self.path(wanted.volume_id)
        self._remove_partials(wanted.volume_id)
        written = files.partial(path, operation_key)
        try:
            await self._write(written, wanted, source, operation_key)
            record = _Record(wanted.size_gib, wanted.format)
            files.write_record(self._record_path(wanted.volume_id), record)
            await run_to_end(lambda: files.finish(written, path))
        finally:
            written.unlink(missing_ok=True)
        return wanted

    async def delete(self, volume_id: str) -> None:
        if (known := self._find(volume_id)) is not None:
            refuse_exported(known)
        self._remove_partials(volume_id)
        self.path(volume_id).unlink(missing_ok=True)
        self._record_path(volume_id).unlink(missing_ok=True)

    async def export(
        self, volume_id: str, attachment_id: str, connector: Mapping[str, Any]
    ) -> dict[str, Any]:
        volume = require(self._find(volume_id), volume_id)
        if connector.get("host") != self._host:
            raise Invalid(
                f"Volume {volume_id} lies in a directory of host {self._host}, and host "
                f"{connector.get('host')} cannot reach it. Use a server on {self._host}."
            )
        self._set_export(volume_id, attachment_id, self._host)
        data = {
            "device_path": str(self.path(volume_id)),
            "format": volume.format,
            "size_bytes": volume.size_gib * GIB,
            "volume_id": volume_id,
            "access_mode": "rw",
        }
        return {"driver_volume_type": "local", "data": data}

    async def unexport(self, volume_id: str, attachment_id: str) -> None:
        if self._find(volume_id) is None:
            return
        self._set_export(volume_id, attachment_id, None)

    async def leftovers(self) -> list[str]:
        return await run_to_end(self._leftovers)

    async def _write(
        self, path: Path, wanted: VolumeFile, source: SourceImage | None, operation_key: str
    ) -> None:
        size_bytes = wanted.size_gib * GIB
        if source is None:
            await self._qemu_img.create(
                path, wanted.format, size_bytes, operation_key=operation_key
            )
            return
        await self._qemu_img.convert(
            (source.path, source.format), (path, wanted.format), operation_key=operation_key
        )
        await self._qemu_img.resize(path, wanted.format, size_bytes, operation_key=operation_key)

    def _prepare(self) -> None:
        self._directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        (self._directory / RECORDS).mkdir(mode=0o700, exist_ok=True)
        for directory in (self._directory, self._directory / RECORDS):
            for left in directory.glob(f"{PREFIX}*{files.PARTIAL}"):
                left.unlink(missing_ok=True)

    def path(self, volume_id: str) -> Path:
        """Return where a volume is, or would be."""
        return self._directory / f"{PREFIX}{volume_id}"

    def _record_path(self, volume_id: str) -> Path:
        return self._directory / RECORDS / f"{PREFIX}{volume_id}.json"

    def _remove_partials(self, volume_id: str) -> None:
        for left in files.partials(self.path(volume_id)):
            left.unlink(missing_ok=True)

    def _find(self, volume_id: str) -> VolumeFile | None:
        record = files.read_record(self._record_path(volume_id), _Record)
        if record is None or not self.path(volume_id).is_file():
            return None
        return VolumeFile(
            volume_id=volume_id,
            pool=self._pool.name,
            size_gib=record.size_gib,
            format=record.format,
            exports=sorted(record.exports),
        )

    def _set_export(self, volume_id: str, attachment_id: str, host: str | None) -> None:
        path = self._record_path(volume_id)
        record = files.read_record(path, _Record)
        if record is None or record.exports.get(attachment_id) == host:
            return
        exports = {key: value for key, value in record.exports.items() if key != attachment_id}
        if host is not None:
            exports[attachment_id] = host
        files.write_record(path, replace(record, exports=exports))

    def _volumes(self) -> list[VolumeFile]:
        names = sorted(path.stem for path in (self._directory / RECORDS).glob(f"{PREFIX}*.json"))
        found = (self._find(name.removeprefix(PREFIX)) for name in names)
        return [volume for volume in found if volume is not None]

    def _stats(self) -> Pool:
        held = self._volumes()
        space = os.statvfs(self._directory)
        total = space.f_blocks * space.f_frsize / GIB
        reserve = total * self._pool.reserved_percent / 100
        return Pool(
            name=self._pool.name,
            driver="directory",
            total_gib=round(total, 2),
            free_gib=round(max(0.0, space.f_bavail * space.f_frsize / GIB - reserve), 2),
            provisioned_gib=sum(volume.size_gib for volume in held),
            volumes=len(held),
            reserved_percent=self._pool.reserved_percent,
            multiattach=self._pool.format == "raw",
        )

    def _leftovers(self) -> list[str]:
        held = {volume.volume_id for volume in self._volumes()}
        known = {self.path(one) for one in held} | {self._record_path(one) for one in held}
        seen = [*self._directory.iterdir(), *(self._directory / RECORDS).iterdir()]
        return sorted(str(path) for path in seen if path.name != RECORDS and path not in known)


def _check_content(pool: Pool, source: SourceImage | None) -> None:
    """Raise NoCapacity when a copy could not end: better not to begin it."""
    if source is None or source.path.stat().st_blocks * 512 <= pool.free_gib * GIB:
        return
    raise NoCapacity(
        f"Pool {pool.name} has no room for the content of image {source.image_id}: "
        f"{pool.free_gib:.1f} GiB are free. Delete volumes or add storage."
    )
