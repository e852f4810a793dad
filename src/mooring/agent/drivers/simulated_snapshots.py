"""Snapshots of simulated volumes: chains of files that nobody ever wrote."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod

from mooring.agent import simulated_headers as headers
from mooring.agent import simulated_pool
from mooring.agent.drivers.base import (
    SourceImage,
    not_merged,
    not_of_one_moment,
    refuse_exported,
    refuse_switched,
    require,
    show_copy,
)
from mooring.agent.drivers.chains import OVERLAY_FORMAT, Chain, Layer
from mooring.agent.knobs import Knobs
from mooring.agent.sources import FileSource
from mooring.agent_api.snapshots import Holder, SnapshotFile
from mooring.agent_api.volumes import VolumeFile
from mooring.errors import NotFound


class SimulatedSnapshots(ABC):
    """The part of `SimulatedDriver` that is about snapshots.

    `knobs` points: snapshot, merge, revert.
    """

    knobs: Knobs
    shows_locks = True
    """False: as on a share that shows no locks of other hosts, where all guests are."""
    reflinks = True
    """False: as on a file system that copies no file of which somebody has written meanwhile."""

    @abstractmethod
    async def _at(self, point: str) -> None:
        """Pass a point of `knobs`; one that fails there is told as real storage's failure."""

    @property
    @abstractmethod
    def _db(self) -> sqlite3.Connection: ...

    @abstractmethod
    async def find(self, volume_id: str) -> VolumeFile | None:
        """Return a volume, or None."""

    async def snapshot(self, volume_id: str, snapshot_id: str) -> SnapshotFile | None:
        chain = simulated_pool.chain_of(self._db, volume_id)
        if snapshot_id not in chain.snapshots:
            return None
        if (copy := chain.find_copy(snapshot_id)) is not None:
            return show_copy(volume_id, copy)
        is_pending, at = chain.is_pending(snapshot_id), chain.find(snapshot_id)
        layer = chain.layers[at] if at is not None else chain.pending or chain.active
        return SnapshotFile(
            volume_id=volume_id,
            snapshot_id=snapshot_id,
            state="prepared" if is_pending else "taken",
            file=layer.file,
            size_bytes=layer.size_bytes,
            merge=None if is_pending else chain.plan(snapshot_id),
            merged=None if is_pending else headers.is_merged(self._db, volume_id, snapshot_id),
            held=await self._holder(volume_id, chain) if is_pending else "unknown",
        )

    async def prepare_snapshot(
        self, volume_id: str, snapshot_id: str, operation_key: str
    ) -> SnapshotFile:
        del operation_key
        await self._at("snapshot")
        known = require(await self.find(volume_id), volume_id)
        chain = simulated_pool.chain_of(self._db, volume_id)
        if snapshot_id not in chain.snapshots:
            self._keep(volume_id, self._prepare(known, snapshot_id, chain))
        return await self._get(volume_id, snapshot_id)

    async def take_snapshot(
        self, volume_id: str, snapshot_id: str, operation_key: str
    ) -> SnapshotFile:
        del operation_key
        await self._at("snapshot")
        known = require(await self.find(volume_id), volume_id)
        chain = simulated_pool.chain_of(self._db, volume_id)
        if snapshot_id not in chain.snapshots:
            refuse_exported(known)
            chain = self._prepare(known, snapshot_id, chain)
        if chain.is_pending(snapshot_id):
            self._keep(volume_id, chain.take(snapshot_id))
        return await self._get(volume_id, snapshot_id)

    async def copy_snapshot(
        self, volume_id: str, snapshot_id: str, operation_key: str
    ) -> SnapshotFile:
        del operation_key
        await self._at("snapshot")
        known = require(await self.find(volume_id), volume_id)
        chain = simulated_pool.chain_of(self._db, volume_id)
        if (copy := chain.find_copy(snapshot_id)) is None:
            chain.require_plain(volume_id)
            if not self.reflinks:
                self._refuse_written(known)
            file = f"{simulated_pool.PREFIX}{volume_id}.{snapshot_id}"
            copy = Layer(file, chain.active.format, snapshot_id, known.virtual_bytes)
            self._keep(volume_id, chain.keep_copy(copy))
        return show_copy(volume_id, copy)

    async def delete_snapshot(
        self, volume_id: str, snapshot_id: str, operation_key: str, *, released: bool = False
    ) -> None:
        del operation_key
        await self._at("merge")
        chain = simulated_pool.chain_of(self._db, volume_id)
        if chain.find_copy(snapshot_id) is not None:
            self._keep(volume_id, chain.forget_copy(snapshot_id))
        elif chain.is_pending(snapshot_id):
            refuse_switched(volume_id, await self._holder(volume_id, chain), released=released)
            self._keep(volume_id, chain.forget_pending())
        elif (at := chain.find(snapshot_id)) is not None:
            refuse_exported(require(await self.find(volume_id), volume_id))
            headers.commit(self._db, volume_id, chain, at)
            self._keep(volume_id, chain.commit(snapshot_id)[0])

    async def revert(self, volume_id: str, snapshot_id: str, operation_key: str) -> VolumeFile:
        del operation_key
        await self._at("revert")
        known = require(await self.find(volume_id), volume_id)
        refuse_exported(known)
        simulated_pool.chain_of(self._db, volume_id).require_newest(snapshot_id)
        return known

    async def record_merge(self, volume_id: str, snapshot_id: str) -> None:
        await self._at("merge")
        chain = simulated_pool.chain_of(self._db, volume_id)
        if chain.find(snapshot_id) is None:
            return
        if not headers.is_merged(self._db, volume_id, snapshot_id):
            raise not_merged(volume_id, snapshot_id)
        merged, gone = chain.merge(snapshot_id)
        self._keep(volume_id, merged)
        headers.drop(self._db, volume_id, gone.file)

    async def snapshot_source(self, volume_id: str, snapshot_id: str) -> SourceImage:
        chain = simulated_pool.chain_of(self._db, volume_id)
        file, size_bytes = chain.find_content(snapshot_id)
        name = f"snapshot {snapshot_id}"
        return SourceImage(name, FileSource(file.file, file.format), size_bytes)

    async def volume_source(self, volume_id: str) -> SourceImage:
        known = require(await self.find(volume_id), volume_id)
        refuse_exported(known)
        active = simulated_pool.chain_of(self._db, volume_id).active
        file = FileSource(active.file, active.format)
        return SourceImage(f"volume {volume_id}", file, known.virtual_bytes, lasting=False)

    async def _get(self, volume_id: str, snapshot_id: str) -> SnapshotFile:
        if (found := await self.snapshot(volume_id, snapshot_id)) is None:
            raise NotFound(f"Volume {volume_id} has no snapshot {snapshot_id} on this host.")
        return found

    def _prepare(self, known: VolumeFile, snapshot_id: str, chain: Chain) -> Chain:
        """Return the chain with an overlay ready, made anew. Raises Conflict, Invalid."""
        prepared = chain.prepare(layer := _overlay(known, snapshot_id))
        headers.drop(self._db, known.volume_id, layer.file)
        return prepared

    def _refuse_written(self, known: VolumeFile) -> None:
        """Raise Conflict while a guest may write to a volume's file."""
        if self.shows_locks and simulated_pool.is_open(self._db, known.volume_id):
            raise not_of_one_moment(known.volume_id, "is open in a guest")
        if known.exports and not self.shows_locks:
            why = "may be open in a guest, which is not shown here"
            raise not_of_one_moment(known.volume_id, why)

    def _keep(self, volume_id: str, chain: Chain) -> None:
        simulated_pool.keep_chain(self._db, volume_id, chain)

    async def _holder(self, volume_id: str, chain: Chain) -> Holder:
        """Return which file a running guest has open, as the locks on real files would tell."""
        if not self.shows_locks:
            known = await self.find(volume_id)
            return "unknown" if known is not None and known.exports else "nobody"
        file = simulated_pool.find_open_file(self._db, volume_id)
        if not file:
            return "nobody"
        return "overlay" if chain.pending is not None and file == chain.pending.file else "below"


def _overlay(known: VolumeFile, snapshot_id: str) -> Layer:
    file = f"{simulated_pool.PREFIX}{known.volume_id}.{snapshot_id}"
    return Layer(file, OVERLAY_FORMAT, snapshot_id, known.virtual_bytes)
