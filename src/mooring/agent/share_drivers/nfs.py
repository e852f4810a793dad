"""Shares given away by NFS-Ganesha, each a file system of its own (ADR 11).

Ganesha and the agent are in one mount namespace, and the agent is root. Ganesha exports a directory
inside the share's file system, which is there only while that is mounted: so an unmounted share is
never taken for an empty one.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import structlog
from msgspec.structs import replace

from mooring.agent.identities import RECORDS
from mooring.agent.known_storage import KnownStorage, PoolPlace
from mooring.agent.pool_threads import PoolThreads
from mooring.agent.qemu_img import GIB
from mooring.agent.run import Programs
from mooring.agent.settings import SharePoolSettings
from mooring.agent.share_drivers.base import (
    Grant,
    check_client_is_free,
    check_room,
    check_same,
    check_source_fits,
    refuse_with_snapshots,
    require,
    require_snapshot,
)
from mooring.agent.share_drivers.btrfs_images import BtrfsImages, Damaged
from mooring.agent.share_drivers.ganesha import Export, Ganesha
from mooring.agent.share_drivers.options import NfsShareOptions
from mooring.agent.share_drivers.records import KeptRule, Record, Records
from mooring.agent.share_drivers.restoring import Restoring
from mooring.agent.turns import Turns
from mooring.agent_api.shares import (
    ExportLocation,
    HostedShare,
    Protocol,
    SharePool,
    ShareSnapshotName,
)
from mooring.errors import NoCapacity, NotFound, Unavailable

log = structlog.get_logger()
_EXPORTS = "exports"


class NfsShares:
    """Implements `ShareDriver`."""

    def __init__(
        self,
        pool: SharePoolSettings,
        options: NfsShareOptions,
        place: PoolPlace,
        programs: Programs,
    ) -> None:
        directory = place.path
        self._pool, self._options, self._directory = pool, options, directory
        self._threads = PoolThreads(pool.name)
        self._storage = KnownStorage(pool.name, place, self._threads, self._prepare)
        self._run = self._storage.run
        self._images = BtrfsImages(directory, programs, self._threads)
        self._ganesha = Ganesha(options.bus, directory / _EXPORTS, programs, self._threads)
        self._records = Records(directory / RECORDS)
        self._numbering = asyncio.Lock()
        self._turns = Turns()
        """By share: what is given away again is what its verbs have left."""
        self._restoring = Restoring(pool.name, self._check, self._restore)

    @property
    def pool(self) -> SharePoolSettings:
        return self._pool

    @property
    def protocol(self) -> Protocol:
        return "NFS"

    def data(self, share_id: str) -> Path:
        """Return what clients see of a share."""
        return self._images.data(share_id)

    async def setup(self) -> None:
        await self._restoring.end()
        await self._storage.setup()

    async def close(self) -> None:
        await self._restoring.end()
        self._threads.close()

    async def stats(self) -> SharePool:
        found = await self._run(self._stats)
        await self._ganesha.check()
        return found

    async def shares(self) -> list[HostedShare]:
        found = [await self._look(one) for one in await self._run(self._known)]
        return [share for share in found if share is not None]

    async def find(self, share_id: str) -> HostedShare | None:
        return await self._find(share_id, measured=True)

    async def create(
        self, share_id: str, size_gb: int, source: ShareSnapshotName | None, operation_key: str
    ) -> list[ExportLocation]:
        if (known := await self._find(share_id, measured=False)) is not None:
            check_same(known, size_gb)
        else:
            await self._check_source(source, size_gb)
            check_room(await self._run(self._stats), self._pool, size_gb)
            await self._number(share_id, size_gb)
            names = None if source is None else (source.share, source.snapshot)
            await self._images.make(share_id, size_gb, names, operation_key)
        await self._give(share_id)
        return self._exports(share_id)

    async def delete(self, share_id: str) -> None:
        async with self._turns.take(share_id):
            record = await self._run(lambda: self._records.whole(share_id))
            if record is None and not await self._run(lambda: self._has(share_id)):
                return
            await self._check_snapshots(share_id, record)
            if record is None:
                record = await self._run(lambda: self._make_up(share_id))
            self._restoring.settle(share_id)
            await self._ganesha.remove(share_id, record.number)
            await self._images.remove(share_id)
            await self._run(lambda: self._records.forget(share_id))

    async def resize(self, share_id: str, size_gb: int, operation_key: str) -> None:
        del operation_key
        known = require(await self._find(share_id, measured=False), share_id)
        if size_gb > known.size_gb:
            check_room(await self._run(self._stats), self._pool, size_gb - known.size_gb)
        await self._images.mount(share_id)
        await self._images.resize(share_id, size_gb)

        def write(record: Record) -> Record:
            return replace(record, size_gb=size_gb)

        await self._run(lambda: self._records.change(share_id, write))

    async def grant(self, share_id: str, grant: Grant) -> str | None:
        known, rule = require(await self._find(share_id, measured=False), share_id), grant.rule
        check_client_is_free(known.rules, rule)
        kept = KeptRule(rule.type, rule.to, rule.level)
        await self._run(lambda: self._records.keep_rule(share_id, rule.rule_id, kept))
        await self._give(share_id)
        return None

    async def revoke(self, share_id: str, rule_id: str) -> None:
        changed = await self._run(lambda: self._records.keep_rule(share_id, rule_id, None))
        # Also when it was struck before: Ganesha may not have heard of that.
        if changed is not None and await self._run(self._images.image(share_id).exists):
            await self._give(share_id)

    async def take_snapshot(self, share_id: str, snapshot_id: str) -> None:
        known = require(await self._find(share_id, measured=False), share_id)

        def write(record: Record) -> Record:
            return replace(record, snapshots={**record.snapshots, snapshot_id: known.size_gb})

        if snapshot_id not in known.snapshots:
            await self._run(lambda: self._records.change(share_id, write))
            await self._images.take_snapshot(share_id, snapshot_id)

    async def delete_snapshot(self, share_id: str, snapshot_id: str) -> None:
        if (known := await self._find(share_id, measured=False)) is None:
            return
        if snapshot_id in known.snapshots:
            await self._images.delete_snapshot(share_id, snapshot_id)

        def strike(record: Record) -> Record:
            left = {key: size for key, size in record.snapshots.items() if key != snapshot_id}
            return replace(record, snapshots=left)

        await self._run(lambda: self._records.change(share_id, strike))

    async def leftovers(self) -> list[str]:
        def look() -> list[str]:
            known = set(self._records.ids())
            return self._images.leftovers(known) + self._ganesha.leftovers(known)

        return await self._run(look)

    async def _prepare(self) -> None:
        def prepare() -> None:
            self._directory.mkdir(mode=0o711, parents=True, exist_ok=True)
            self._records.prepare()
            self._ganesha.prepare()

        await self._threads.prepare(prepare, self._directory)
        await self._images.prepare()
        # Beside all else: a Ganesha that hangs would keep the host from serving for minutes.
        await self._restoring.begin(await self._threads.run(self._images.ids))

    async def _check(self) -> None:
        """Raise Unavailable while the storage is not the pool's, or Ganesha does not answer."""
        await self._storage.require()
        await self._ganesha.check()

    async def _restore(self, share_id: str) -> None:
        """Have a share mounted and given away, as it was before this machine or agent ended."""
        if await self._run(self._images.image(share_id).exists):
            await self._give(share_id, again=True)

    async def _check_snapshots(self, share_id: str, record: Record | None) -> None:
        """Raise Conflict while a share has snapshots. They are noted before they are taken."""
        if record is not None and not record.snapshots:
            return
        if not await self._run(self._images.image(share_id).exists):
            return
        try:
            await self._images.mount(share_id)
        except Damaged as error:
            if record is not None:
                raise
            # Neither its record nor its file can be read: nothing is left to ask.
            log.warning("a damaged share is deleted", share=share_id, reason=str(error))
            return
        refuse_with_snapshots(share_id, await self._images.snapshots(share_id))

    def _has(self, share_id: str) -> bool:
        """Return whether anything of a share is here, whole or not. Blocking."""
        number, image = self._ganesha.number_of(share_id), self._images.image(share_id)
        return bool(number) or image.exists() or self._records.has(share_id)

    def _make_up(self, share_id: str) -> Record:
        """Write a record of what is to be deleted and has none that can be read. Blocking.

        Ganesha's file goes first, and a second try has to know the number as well.
        """
        record = Record(0, number=self._ganesha.number_of(share_id))
        self._records.keep(share_id, record)
        return record

    async def _check_source(self, source: ShareSnapshotName | None, size_gb: int) -> None:
        if source is None:
            return
        of = require_snapshot(await self._find(source.share, measured=False), source)
        record = await self._record(source.share)
        check_source_fits(source, record.snapshots.get(source.snapshot, of.size_gb), size_gb)

    async def _number(self, share_id: str, size_gb: int) -> None:
        """Write a record of a share that is about to be made, with a number for its export."""
        first, last = self._options.export_ids

        def write() -> None:
            known = (self._records.whole(one) for one in self._records.ids() if one != share_id)
            taken = {record.number for record in known if record is not None}
            # Of a damaged record the number stands with Ganesha alone.
            others = (one for one in self._ganesha.shares() if one != share_id)
            taken |= {self._ganesha.number_of(one) for one in others}
            free = next((one for one in range(first, last + 1) if one not in taken), None)
            if free is None:
                raise NoCapacity(
                    f"Pool {self._pool.name} has no number left for another export. Nothing was "
                    "made; delete shares, or widen its export_ids."
                )
            self._records.keep(share_id, Record(size_gb, number=free))

        async with self._numbering:
            await self._run(write)

    async def _record(self, share_id: str) -> Record:
        record = await self._run(lambda: self._records.find(share_id))
        if record is None:
            raise Unavailable(f"Share {share_id} has lost its record. See to the pool's directory.")
        return record

    async def _give(self, share_id: str, *, again: bool = False) -> None:
        """Have a share mounted and given away by its record; `again` unless that is done by now."""
        async with self._turns.take(share_id):
            if again and not self._restoring.is_left(share_id):
                return
            record = await self._record(share_id)
            await self._images.mount(share_id)
            path, pseudo = self.data(share_id), self._pseudo(share_id)
            await self._ganesha.put(share_id, Export(record.number, pseudo, path, record.rules))
            self._restoring.settle(share_id)

    async def _look(self, share_id: str) -> HostedShare | None:
        """Return a share for a list; one that cannot be read says so, and hides no other."""
        try:
            return await self._find(share_id, measured=False)
        except Unavailable as error:
            return HostedShare(
                share_id=share_id,
                pool=self._pool.name,
                protocol=self.protocol,
                size_gb=await self._run(lambda: self._size_gb(share_id)),
                exports=self._exports(share_id),
                problem=error.public,
            )

    async def _find(self, share_id: str, *, measured: bool) -> HostedShare | None:
        def look() -> Record | None:
            # Its file comes last and goes first: a record alone is no share.
            there = self._images.image(share_id).exists()
            return self._records.find(share_id) if there else None

        if (record := await self._run(look)) is None:
            return None
        try:
            await self._images.mount(share_id)
        except NotFound:
            # It went meanwhile.
            return None
        space = await self._images.space(share_id) if measured else None
        return HostedShare(
            share_id=share_id,
            pool=self._pool.name,
            protocol=self.protocol,
            size_gb=space.size_bytes // GIB if space else record.size_gb,
            used_bytes=space.used_bytes if space else None,
            exports=self._exports(share_id),
            rules=record.shown(),
            snapshots=await self._images.snapshots(share_id),
            problem=self._restoring.problem(share_id),
        )

    def _known(self) -> list[str]:
        return [one for one in self._images.ids() if self._records.has(one)]

    def _size_gb(self, share_id: str) -> int:
        """Return how big a share is, by its file when its record is damaged. Blocking."""
        if (record := self._records.whole(share_id)) is not None:
            return record.size_gb
        image = self._images.image(share_id)
        return image.stat().st_size // GIB if image.exists() else 0

    def _stats(self) -> SharePool:
        held = [self._size_gb(one) for one in self._known()]
        space = os.statvfs(self._directory)
        total = space.f_blocks * space.f_frsize / GIB
        reserve = total * self._pool.reserved_percent / 100
        return SharePool(
            name=self._pool.name,
            driver=self._pool.driver,
            protocol=self.protocol,
            total_gib=round(total, 2),
            free_gib=round(max(0.0, space.f_bavail * space.f_frsize / GIB - reserve), 2),
            provisioned_gib=sum(held),
            shares=len(held),
            reserved_percent=self._pool.reserved_percent,
            oversubscription=self._pool.oversubscription,
            snapshots=True,
            from_snapshot=True,
        )

    def _pseudo(self, share_id: str) -> str:
        return f"/shares/{share_id}"

    def _exports(self, share_id: str) -> list[ExportLocation]:
        address = self._options.address
        server = f"[{address}]" if ":" in address else address
        return [ExportLocation(f"{server}:{self._pseudo(share_id)}")]
