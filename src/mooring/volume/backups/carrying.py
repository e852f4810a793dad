"""Carrying a volume's data between its host and the store of backups.

The host has copied the volume beside its storage, or takes the backup in as it takes an image; what
goes between is read and written piece by piece, and never whole in memory.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from mooring.agent_api.images import ImageSpec
from mooring.errors import Conflict, Invalid, MooringError
from mooring.fence.threads import run_to_end
from mooring.limits import IMAGE_BYTES
from mooring.saga import ownership
from mooring.volume.backups import backup_rows
from mooring.volume.backups.pieces import Cutter
from mooring.volume.backups.stores.base import ZEROS, Manifest, Piece

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mooring.agent_api.captures import Capture, DiskFormat
    from mooring.agent_api.client import AgentClient
    from mooring.saga.define import Run
    from mooring.volume.backups.stores.base import BackupStore
    from mooring.volume.service import Volume

FORMAT: DiskFormat = "qcow2"
"""What the copy of a volume is: what the volume never wrote has no place in it."""


async def store_capture(
    run: Run[Volume], agent: AgentClient, volume_id: str, backup_id: str, parent_id: str = ""
) -> Manifest:
    """Store what a host has copied of a volume, or what of it is not stored yet.

    With a parent, what that one has is not stored again. Raises Conflict where there is no copy any
    more, or no sound parent; NoCapacity.
    """
    made = await agent.show_volume_capture(volume_id, backup_id)
    if made is None or not made.is_whole:
        raise Conflict(
            f"Host {agent.name} has no copy of volume {volume_id} any more. The backup was not "
            "made; ask for another one."
        )
    if made.size_bytes > IMAGE_BYTES:
        raise Invalid(
            f"Volume {volume_id} has {made.size_bytes} bytes of data, and a backup has "
            f"{IMAGE_BYTES} at most: it could not be restored. Nothing was kept."
        )
    store = run.service.backups
    known = await store.find_manifest(backup_id)
    if known is not None and known.sha256 == made.sha256:
        return known
    storing = _Storing(backup_id, await _places_in(run, parent_id))
    await run.service.store.write(lambda tx: ownership.require_lease(tx, run))
    await store.begin(backup_id)
    await storing.store(run, agent.read_volume_capture(volume_id, made), made)
    manifest = Manifest(
        backup_id=backup_id,
        disk_format=FORMAT,
        size_bytes=made.size_bytes,
        sha256=made.sha256,
        pieces=storing.pieces,
        sources=tuple(storing.sources),
    )
    await store.put_manifest(manifest)
    return manifest


async def _find_manifest(run: Run[Volume], backup_id: str) -> Manifest | None:
    """Return what a backup consists of, wherever its data lie. Raises Conflict: damaged."""
    place = await run.service.store.read(lambda tx: backup_rows.find_place(tx, backup_id))
    return await run.service.backups.find_manifest(place) if place else None


async def _places_in(run: Run[Volume], parent_id: str) -> dict[str, str]:
    """Return, by digest, which backup stores what a parent has. Raises Conflict.

    What is missing there, as after a disk failed, is stored anew.
    """
    if not parent_id:
        return {}
    manifest = await _find_manifest(run, parent_id)
    if manifest is None:
        raise Conflict(
            f"The data of backup {parent_id}, which this one was to build on, are not there, or "
            "not whole. Nothing was kept; ask for a full backup."
        )
    places = await run_to_end(manifest.places)
    store = run.service.backups
    there = {place: await store.find_pieces(place) for place in {*places.values()}}
    return {digest: place for digest, place in places.items() if digest in there[place]}


class _Storing:
    """A backup that is being stored: the pieces so far, and the backups that have some of them."""

    def __init__(self, backup_id: str, elsewhere: dict[str, str]) -> None:
        self._backup_id, self._elsewhere = backup_id, elsewhere
        self.pieces: list[Piece] = []
        self.sources: dict[str, int] = {}

    async def store(self, run: Run[Volume], data: AsyncIterator[bytes], made: Capture) -> None:
        """Store what is not stored elsewhere."""
        cutter, told, done_bytes = Cutter(), 0, 0
        async for portion in data:
            for piece in await run_to_end(lambda of=portion: cutter.take(of)):
                await self._put(run, piece)
            done_bytes += len(portion)
            if (percent := 100 * done_bytes // made.size_bytes) > told:
                told = percent
                await run.progress(percent)
        for piece in cutter.rest():
            await self._put(run, piece)

    async def _put(self, run: Run[Volume], piece: bytes) -> None:
        digest, source = await run_to_end(lambda: _digest_of(piece)), 0
        if place := self._elsewhere.get(digest):
            source = self.sources.setdefault(place, len(self.sources) + 1)
        elif digest != ZEROS:
            await run.service.backups.put_piece(self._backup_id, digest, piece)
        self.pieces.append(Piece(len(piece), digest, source))


async def bring(run: Run[Volume], agent: AgentClient, backup_id: str, image_id: str) -> None:
    """Have a host take a backup in as an image of its cache, every piece of it checked.

    Raises Conflict for a backup that is damaged or gone, what `AgentClient.put_image` does.
    """
    manifest = await _find_manifest(run, backup_id)
    if manifest is None:
        raise _damaged(backup_id, "it is not there, or not whole")
    spec = ImageSpec(
        disk_format=manifest.disk_format,
        size_bytes=manifest.size_bytes,
        os_hash_algo="sha256",
        os_hash_value=manifest.sha256,
        for_operation=True,
        begins_at=await agent.arrived_bytes(image_id),
    )
    reading = _Reading(run.service.backups, backup_id, manifest)
    try:
        await agent.put_image(
            image_id, spec, reading.chunks(run, spec.begins_at), operation=run.operation
        )
    except MooringError as error:
        if reading.failure is None:
            raise
        # The host knows only that the data came to no end.
        raise reading.failure from error


class _Reading:
    """A backup that is being read; `failure` is why it came to no end."""

    def __init__(self, store: BackupStore, backup_id: str, manifest: Manifest) -> None:
        self._store, self._backup_id, self._manifest = store, backup_id, manifest
        self.failure: MooringError | None = None

    async def chunks(self, run: Run[Volume], begins_at: int) -> AsyncIterator[bytes]:
        """Yield the data after so many bytes."""
        told, done_bytes = 0, 0
        for number, piece in enumerate(self._manifest.pieces):
            done_bytes += piece.size_bytes
            if done_bytes <= begins_at:
                continue
            left = done_bytes - begins_at
            yield (await self._read(number, piece))[-left:]
            if (percent := 100 * done_bytes // self._manifest.size_bytes) > told:
                told = percent
                await run.progress(percent)

    async def _read(self, number: int, piece: Piece) -> bytes:
        try:
            return await self._check(number, piece)
        except MooringError as error:
            self.failure = error
            raise

    async def _check(self, number: int, piece: Piece) -> bytes:
        if piece.sha256 == ZEROS:
            return bytes(piece.size_bytes)
        backup_id, place = self._backup_id, self._manifest.place_of(piece)
        data = await self._store.find_piece(place, piece.sha256)
        if data is None:
            raise _damaged(backup_id, f"piece {number} is missing")
        if await run_to_end(lambda: hashlib.sha256(data).hexdigest()) != piece.sha256:
            raise _damaged(backup_id, f"piece {number} is not what was stored")
        return data


def _digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest() if data.strip(b"\0") else ZEROS


def _damaged(backup_id: str, why: str) -> Conflict:
    return Conflict(
        f"The data of backup {backup_id} are damaged: {why}. They were not used; restore another "
        "backup."
    )
