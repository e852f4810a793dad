"""Disks of guests that come from another host: fetched, kept whatever dies meanwhile, checked.

`<name>.coming` is a disk on its way, in the directory that is to be the guest's, and `copy.json`
says how far it is: what it says is on disk, forced there before. A disk counts when all of it was
read back and is what was offered.
"""

from __future__ import annotations

import os
import re
from contextlib import aclosing
from pathlib import Path

import structlog
from msgspec import Struct
from msgspec.structs import replace

from mooring.agent import blocks, files
from mooring.agent.blocks import Measured, Piece, measure
from mooring.agent.disk_stream import fetch
from mooring.agent.images import ImageCache
from mooring.agent_api import verbs
from mooring.agent_api.copies import CopyProgress, Offer, OfferedDisk
from mooring.errors import Invalid, NoCapacity, Unavailable
from mooring.fence.threads import run_to_end
from mooring.probe import NoProbe, Probe

log = structlog.get_logger()
COMING = ".coming"
_RECORD = "copy.json"
# So much is sent again after a crash, at most.
_FORCE_BYTES = 16 * 1024**2
_DISKS = 8
_DISK_BYTES = 1 << 43
_NAME = re.compile(r"[a-z][a-z0-9.]{0,31}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
# What the agent itself may still have to write: journal, records, consoles.
_SPARE_BYTES = 64 * 1024**2


class _Part(Struct, frozen=True):
    """How far one disk is: all before an offset is on disk, and so much of it was sent."""

    offset: int = 0
    copied_bytes: int = 0
    is_whole: bool = False


class _Record(Struct, frozen=True):
    """What was asked for, how far each disk is, and whether all are the guest's by now."""

    disks: list[OfferedDisk]
    parts: list[_Part]
    is_taken: bool = False

    @property
    def progress(self) -> CopyProgress:
        """The same as others see it."""
        return CopyProgress(
            total_bytes=sum(disk.data_bytes for disk in self.disks),
            copied_bytes=sum(part.copied_bytes for part in self.parts),
            is_whole=self.is_taken,
        )

    @property
    def left_bytes(self) -> int:
        """What is still to be written."""
        return self.progress.total_bytes - self.progress.copied_bytes


class Copies:
    """The copies that come to one host, each under its guest's directory. For one event loop."""

    def __init__(self, directory: Path, images: ImageCache) -> None:
        self._directory, self._images = directory, images
        self._left: dict[str, int] = {}
        """What each copy that is under way still has to write, in bytes."""
        self.probe: Probe = NoProbe()

    def progress(self, server_id: str) -> CopyProgress | None:
        """Return how far a copy is; None when there is none."""
        if (record := self._read(server_id)) is None:
            return None
        progress = record.progress
        if (left := self._left.get(server_id)) is None:
            return progress
        return replace(progress, copied_bytes=progress.total_bytes - left)

    async def bring(self, server_id: str, offer: Offer) -> list[str]:
        """See that all that is offered is here, and return the disks' names.

        Raises Unavailable, NoCapacity and Invalid; what has come stays for the next time.
        """
        check_offer(offer)
        record = self._begin(server_id, offer.disks)
        if record.is_taken:
            return []
        self._left[server_id] = 0
        try:
            self._promise(server_id, record)
            for number in range(len(record.disks)):
                record = await self._bring(server_id, record, number, offer)
        finally:
            del self._left[server_id]
        return [disk.name for disk in record.disks]

    def coming(self, server_id: str, name: str) -> Path:
        """Return where a disk is while it comes."""
        return self._directory / server_id / f"{name}{COMING}"

    def note_taken(self, server_id: str) -> None:
        """Note that the disks have the names that a guest knows them by."""
        if (record := self._read(server_id)) is not None:
            self._write(server_id, replace(record, is_taken=True))

    def forget(self, server_id: str) -> None:
        """Forget a copy, and what has come of it that is no guest's yet."""
        own = self._directory / server_id
        for left in own.glob(f"*{COMING}"):
            left.unlink(missing_ok=True)
        (own / _RECORD).unlink(missing_ok=True)

    def _begin(self, server_id: str, disks: list[OfferedDisk]) -> _Record:
        """Return how far the copy of just these disks is; what came of others is removed."""
        known = self._read(server_id)
        if known is not None and known.disks == disks:
            return known
        self.forget(server_id)
        (self._directory / server_id).mkdir(mode=0o711, parents=True, exist_ok=True)
        record = _Record(disks, [_Part() for _ in disks])
        self._write(server_id, record)
        return record

    def _promise(self, server_id: str, record: _Record) -> None:
        """Count on the room for what is left. Raises NoCapacity when it is not there."""
        left = record.left_bytes
        check_room(self._directory, server_id, left, promised=sum(self._left.values()))
        self._left[server_id] = left

    async def _bring(self, server_id: str, record: _Record, number: int, offer: Offer) -> _Record:
        """See that one disk is here whole, and return the record that says so."""
        disk, part = record.disks[number], record.parts[number]
        if part.is_whole:
            return record
        path = self.coming(server_id, disk.name)
        if not await self._link_image(disk, path):
            record = await self._fetch(server_id, record, number, offer)
        if _differs(await measure(path), disk):
            self.forget(server_id)
            raise Unavailable(
                f"The disk {disk.name} of server {server_id} came damaged, and was thrown away. "
                "Ask again: all of it is fetched anew."
            )
        whole = _Part(disk.size_bytes, disk.data_bytes, is_whole=True)
        return await self._note(server_id, record, number, whole)

    async def _fetch(self, server_id: str, record: _Record, number: int, offer: Offer) -> _Record:
        """Fetch what is missing of a disk, and return the record that says so."""
        disk, path = record.disks[number], self.coming(server_id, record.disks[number].name)
        handle, is_new = await run_to_end(lambda: _open(path))
        part = noted = _Part() if is_new else record.parts[number]

        async def force() -> _Record:
            await run_to_end(lambda: os.fsync(handle))
            return await self._note(server_id, record, number, part)

        try:
            # What was not noted may be there or not: it is written anew.
            os.ftruncate(handle, part.offset)
            async with aclosing(fetch(offer, number, part.offset)) as pieces:
                async for piece in pieces:
                    part = _Part(piece.end, part.copied_bytes + len(piece.data))
                    if part.copied_bytes > disk.data_bytes:
                        raise Unavailable("More came of a disk than was offered. Ask again.")
                    await _put(handle, piece, path)
                    self._left[server_id] -= len(piece.data)
                    if part.copied_bytes - noted.copied_bytes >= _FORCE_BYTES:
                        record, noted = await force(), part
                        self.probe.at("agent/put_copy/forced")
            os.ftruncate(handle, disk.size_bytes)
            await run_to_end(lambda: os.fsync(handle))
        except Unavailable:
            await force()
            raise
        else:
            return record
        finally:
            os.close(handle)

    async def _link_image(self, disk: OfferedDisk, path: Path) -> bool:
        """Take a disk from the cache of images, if that has what reads the same."""
        image = self._images.use(disk.image_id) if disk.image_id else None
        if image is None or image.size_bytes != disk.size_bytes:
            return False
        cached = self._images.path(disk.image_id)
        try:
            if _differs(await measure(cached), disk):
                return False
            await run_to_end(lambda: _link(cached, path))
        except FileNotFoundError:
            # It has left the cache meanwhile.
            return False
        return True

    async def _note(self, server_id: str, record: _Record, number: int, part: _Part) -> _Record:
        """Note how far a disk is, and return the record that says so."""
        parts = [part if at == number else one for at, one in enumerate(record.parts)]
        noted = replace(record, parts=parts)
        # A disk that is busy with what has come takes its time, and others are to be heard.
        await run_to_end(lambda: self._write(server_id, noted))
        self._left[server_id] = noted.left_bytes
        return noted

    def _read(self, server_id: str) -> _Record | None:
        return files.read_record(self._directory / server_id / _RECORD, _Record, forced=True)

    def _write(self, server_id: str, record: _Record) -> None:
        files.write_record(self._directory / server_id / _RECORD, record, forced=True)


def check_room(directory: Path, server_id: str, wanted: int, *, promised: int = 0) -> None:
    """Raise NoCapacity when so many bytes more would fill the host."""
    space = os.statvfs(directory)
    free = space.f_bavail * space.f_frsize - promised - _SPARE_BYTES
    if wanted > free:
        raise NoCapacity(
            f"The disks of server {server_id} need {wanted} bytes, and this host has "
            f"{max(free, 0)} left for them. Make room, or choose another host."
        )


def check_offer(offer: Offer) -> None:
    """Raise Invalid for what no host would offer."""
    names = [disk.name for disk in offer.disks]
    makes_sense = len(set(names)) == len(names) <= _DISKS and all(map(_is_sound, offer.disks))
    if not makes_sense:
        raise Invalid("That is no offer of a host.")


def _is_sound(disk: OfferedDisk) -> bool:
    return (
        _NAME.fullmatch(disk.name) is not None
        and 0 <= disk.data_bytes <= disk.size_bytes <= _DISK_BYTES
        and _DIGEST.fullmatch(disk.digest) is not None
        and (not disk.image_id or verbs.are_ids([disk.image_id]))
    )


def _differs(found: Measured, wanted: OfferedDisk) -> bool:
    return (found.size_bytes, found.digest) != (wanted.size_bytes, wanted.digest)


def _open(path: Path) -> tuple[int, bool]:
    """Open a disk on its way, and tell whether it begins here.

    One that has another name too is an image of the cache: that is never written to.
    """
    if path.exists() and path.stat().st_nlink > 1:
        path.unlink()
    is_new = not path.exists()
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644), is_new


def _link(cached: Path, path: Path) -> None:
    path.unlink(missing_ok=True)
    path.hardlink_to(cached)


async def _put(handle: int, piece: Piece, path: Path) -> None:
    with files.full_disk_told(path):
        await run_to_end(lambda: blocks.write(handle, piece))
