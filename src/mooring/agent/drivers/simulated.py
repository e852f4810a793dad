"""Volumes without storage: a ledger of what was made and who may reach it, in a small file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from mooring.agent import simulated_pool
from mooring.agent.drivers.base import (
    ExtendNeedsCompute,
    SourceImage,
    WithoutFence,
    check_reach,
    check_room,
    check_same,
    check_source,
    refuse_exported,
    require,
)
from mooring.agent.drivers.simulated_snapshots import SimulatedSnapshots
from mooring.agent.knobs import Knobs
from mooring.agent.pool_threads import failure_told
from mooring.agent.qemu_img import GIB
from mooring.agent.settings import PoolSettings
from mooring.agent.simulated_pool import SELECT
from mooring.agent.simulated_qcow2 import write_empty
from mooring.agent_api.captures import DiskFormat
from mooring.agent_api.hosts import Pool
from mooring.agent_api.volumes import Holder, Holders, VolumeFile
from mooring.errors import Conflict
from mooring.fence.threads import run_to_end

DEFAULT_GIB = 10_240


class Exported(Struct, frozen=True):
    """One span of time in which a host could reach a volume. Unix times; `until` None: still."""

    volume_id: str
    attachment_id: str
    host: str
    since: float
    until: float | None


class SimulatedDriver(SimulatedSnapshots, WithoutFence):
    """Implements `VolumeDriver`.

    `knobs` points: find, volumes, stats, create, delete, extend, replace, rename, capture, export,
    unexport, snapshot, merge.

    Every host may be exported to, unless the pool names its hosts. A running guest with a
    volume holds its lock, unless the pool's settings say that the storage grows it all the same.
    """

    def __init__(self, pool: PoolSettings, file: Path) -> None:
        self._pool = pool
        self._file = file
        self._total_gib = pool.total_gib or DEFAULT_GIB
        self._open: sqlite3.Connection | None = None
        self.knobs = Knobs()

    @property
    def pool(self) -> PoolSettings:
        return self._pool

    @property
    def hosts(self) -> list[str] | None:
        return list(self._pool.hosts) or None

    async def setup(self) -> None:
        self._open = simulated_pool.open_pool(self._file)

    async def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    async def stats(self) -> Pool:
        await self._at("stats")
        volumes, provisioned = simulated_pool.count(self._db)
        reserve = self._total_gib * self._pool.reserved_percent / 100
        return Pool(
            name=self._pool.name,
            driver="simulated",
            total_gib=self._total_gib,
            free_gib=max(0.0, self._total_gib - reserve - provisioned),
            provisioned_gib=provisioned,
            volumes=volumes,
            reserved_percent=self._pool.reserved_percent,
            online_extend=True,
            hosts=self.hosts,
            storage_protocol="iscsi" if self._pool.shared_targets else "simulated",
            identity=simulated_pool.identity(self._db),
        )

    async def volumes(self) -> list[VolumeFile]:
        await self._at("volumes")
        rows = self._db.execute(f"{SELECT} ORDER BY id").fetchall()
        return [self._show(row[0], row[1]) for row in rows]

    async def find(self, volume_id: str) -> VolumeFile | None:
        await self._at("find")
        row = self._db.execute(f"{SELECT} WHERE id = ?", (volume_id,)).fetchone()
        return None if row is None else self._show(row[0], row[1])

    async def create(
        self,
        wanted: VolumeFile,
        source: SourceImage | None,
        operation_key: str,
        *,
        becomes: str = "",
    ) -> VolumeFile:
        await self._at("create")
        if (known := await self.find(wanted.volume_id)) is not None:
            return check_same(known, wanted)
        check_source(wanted, source)
        check_room(await self.stats(), self._pool, wanted.size_gib)
        if becomes and await self.find(becomes) is not None:
            raise Conflict(f"Pool {self._pool.name} has a volume {becomes}. Nothing was made.")
        image_id = source.image_id if source else ""
        row = (wanted.volume_id, wanted.size_gib, wanted.format, image_id)
        simulated_pool.add(self._db, row, becomes)
        return require(await self.find(wanted.volume_id), wanted.volume_id)

    async def delete(self, volume_id: str) -> None:
        await self._at("delete")
        if (known := await self.find(volume_id)) is not None:
            refuse_exported(known)
        simulated_pool.forget(self._db, volume_id)

    async def extend(self, volume_id: str, size_gib: int, operation_key: str) -> VolumeFile:
        del operation_key
        await self._at("extend")
        known = require(await self.find(volume_id), volume_id)
        if known.virtual_bytes >= size_gib * GIB:
            return known
        check_room(await self.stats(), self._pool, size_gib - known.size_gib)
        alone = self._pool.online_extend == "storage"
        if not alone and simulated_pool.is_locked(self._db, volume_id):
            raise ExtendNeedsCompute(known)
        simulated_pool.grow_in(self._db, volume_id, size_gib * GIB)
        return require(await self.find(volume_id), volume_id)

    async def replace(self, volume_id: str, source: SourceImage, operation_key: str) -> VolumeFile:
        del operation_key
        await self._at("replace")
        known = require(await self.find(volume_id), volume_id)
        refuse_exported(known)
        check_source(known, source)
        if pending := simulated_pool.chain_of(self._db, volume_id).pending:
            raise Conflict(f"Snapshot {pending.snapshot_id} of {volume_id} has not ended.")
        changed = "UPDATE volumes SET image_id = ? WHERE id = ?"
        self._db.execute(changed, (source.image_id, volume_id))
        return known

    async def rename(self, volume_id: str, new_id: str) -> None:
        await self._at("rename")
        simulated_pool.rename(self._db, volume_id, new_id)

    async def copied_percent(self, volume_id: str) -> int | None:
        del volume_id
        return None

    async def capture(
        self,
        volume_id: str,
        target: tuple[Path, DiskFormat],
        operation_key: str,
        snapshot_id: str = "",
    ) -> None:
        del operation_key
        await self._at("capture")
        if snapshot_id:
            source = await self.snapshot_source(volume_id, snapshot_id)
        else:
            source = await self.volume_source(volume_id)
        path, disk_format = target
        await run_to_end(lambda: write_empty(path, disk_format, source.virtual_bytes))

    def device_path(self, volume_id: str) -> str:
        """Return the path by which simulated guests reach a volume."""
        return simulated_pool.path_of(self._db, self._file, volume_id)

    def content(self, volume_id: str) -> str:
        """Return the image whose content a volume has; "" for none."""
        query = "SELECT image_id FROM volumes WHERE id = ?"
        return self._db.execute(query, (volume_id,)).fetchone()[0]

    async def export(
        self, volume_id: str, attachment_id: str, connector: Mapping[str, Any]
    ) -> dict[str, Any]:
        await self._at("export")
        volume = require(await self.find(volume_id), volume_id)
        host = check_reach(self, volume_id, connector)
        if attachment_id not in volume.exports:
            self._db.execute(
                "INSERT INTO exports VALUES (?, ?, ?, ?, NULL)",
                (volume_id, attachment_id, host, time.time()),
            )
        data = {
            "device_path": self.device_path(volume_id),
            "format": volume.format,
            "size_bytes": volume.virtual_bytes,
            "volume_id": volume_id,
            "access_mode": "rw",
        }
        if self._pool.shared_targets:
            data["shared_targets"] = True
        return {"driver_volume_type": "simulated", "data": data}

    async def unexport(self, volume_id: str, attachment_id: str) -> None:
        await self._at("unexport")
        self._db.execute(
            "UPDATE exports SET until = ? WHERE volume_id = ? AND attachment_id = ? "
            "AND until IS NULL",
            (time.time(), volume_id, attachment_id),
        )

    async def holders(self, volume_id: str) -> Holders:
        require(await self.find(volume_id), volume_id)
        if not self.shows_locks:
            return Holders(held=None, holders=self._exported(volume_id))
        if not simulated_pool.is_open(self._db, volume_id):
            return Holders(held=False)
        return Holders(held=True, holders=self._exported(volume_id))

    def _exported(self, volume_id: str) -> list[Holder]:
        query = (
            "SELECT attachment_id, host FROM exports WHERE volume_id = ? AND until IS NULL "
            "ORDER BY attachment_id"
        )
        found = self._db.execute(query, (volume_id,)).fetchall()
        return [Holder(attachment_id=a, host=h) for a, h in found]

    async def leftovers(self) -> list[str]:
        return []

    def ledger(self) -> list[Exported]:
        """Return which host could reach which volume, and when."""
        rows = self._db.execute("SELECT * FROM exports ORDER BY since").fetchall()
        return [Exported(*row) for row in rows]

    async def _at(self, point: str) -> None:
        with failure_told(self._pool.name):
            await self.knobs.at(point)

    @property
    def _db(self) -> sqlite3.Connection:
        if self._open is None:
            raise sqlite3.ProgrammingError("the simulated pool is not open")
        return self._open

    def _show(self, volume_id: str, virtual_bytes: int) -> VolumeFile:
        query = (
            "SELECT attachment_id FROM exports WHERE volume_id = ? AND until IS NULL "
            "ORDER BY attachment_id"
        )
        chain = simulated_pool.chain_of(self._db, volume_id)
        return VolumeFile(
            volume_id=volume_id,
            pool=self._pool.name,
            size_gib=virtual_bytes // GIB,
            format=chain.active.format,
            virtual_bytes=virtual_bytes,
            exports=[row[0] for row in self._db.execute(query, (volume_id,))],
            snapshots=chain.snapshots,
            becomes=simulated_pool.new_id_of(self._db, volume_id),
        )
