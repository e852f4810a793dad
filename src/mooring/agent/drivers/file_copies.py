"""Snapshots of volumes that stay one file: whole copies beside it, each of one moment.

So it is with a volume that several guests may write to, as no guest shares an overlay. A reflink is
of one moment whoever writes. Any other copy is only when nobody has written meanwhile, which QEMU's
locks and the file's time of change tell.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from mooring.agent import files, reflinks
from mooring.agent.drivers.base import (
    SourceImage,
    check_content,
    not_of_one_moment,
    require,
    show_copy,
)
from mooring.agent.drivers.chains import Chain, Layer
from mooring.agent.drivers.file_volumes import FileVolumes
from mooring.agent.drivers.records import Record
from mooring.agent.image_locks import is_written
from mooring.agent.qemu_img import read_own_bytes
from mooring.agent.sources import FileSource
from mooring.agent_api.snapshots import SnapshotFile
from mooring.errors import NotFound

_Mark: TypeAlias = tuple[int, int, int]
"""Inode, size in bytes and time of change of a file, in ns."""


class FileCopies(FileVolumes):
    """`FileVolumes` with snapshots that are copies."""

    def check_snapshots(self) -> None:
        """Raise Invalid where the pool's settings forbid snapshots."""

    def dress_file(self, path: Path) -> None:
        """Give the new file of a snapshot the permissions that the pool's files have."""

    def change_chain(
        self, volume_id: str, change: Callable[[Chain], Chain], *, spare: str = ""
    ) -> None:
        """Change the chain as it stands in the record at this moment, as `keep_chain` writes it.

        Calls about two snapshots of a volume do not wait for each other.
        """

        def changed(record: Record) -> Record:
            return record.standing_on(change(self._chain_in(volume_id, record)), spare)

        self._change_record(volume_id, changed)

    async def copy_snapshot(
        self, volume_id: str, snapshot_id: str, operation_key: str
    ) -> SnapshotFile:
        chain = await self._run(lambda: self._chain(volume_id))
        require(await self.find(volume_id), volume_id)
        copy = chain.find_copy(snapshot_id)
        if copy is None:
            copy = await self._make_copy(volume_id, snapshot_id, chain, operation_key)
        return show_copy(volume_id, copy)

    async def _make_copy(
        self, volume_id: str, snapshot_id: str, chain: Chain, operation_key: str
    ) -> Layer:
        """Make a copy, whole or not at all: it has its name, and counts, once it is on disk."""
        self.check_snapshots()
        chain.require_plain(volume_id)
        active = chain.active
        path = self.directory / f"{self.path(volume_id).name}.{snapshot_id}"
        written = files.partial(path, operation_key, self._host)
        try:
            with files.full_disk_told(path):
                if not await self._run(lambda: self._clone(active, written)):
                    await self._copy_unwritten(volume_id, active, written, operation_key)
            await self._run(lambda: self.dress_file(written))
            size_bytes = await self._run(lambda: read_own_bytes(written, active.format))
            await self._run(lambda: files.finish(written, path))
        finally:
            await self._run(lambda: written.unlink(missing_ok=True))
        copy = Layer(path.name, active.format, snapshot_id, size_bytes)
        await self._run(lambda: self.change_chain(volume_id, lambda now: now.keep_copy(copy)))
        return copy

    def _clone(self, active: Layer, written: Path) -> bool:
        return reflinks.clone(self.directory / active.file, written)

    async def _copy_unwritten(
        self, volume_id: str, active: Layer, written: Path, operation_key: str
    ) -> None:
        """Copy a file that nobody writes to. Raises Conflict when somebody does, or has."""
        path, shows_locks = self.directory / active.file, await self.shows_locks()

        def look() -> _Mark:
            self._refuse_written(volume_id, path, shows_locks=shows_locks)
            return _mark(path)

        before, pool = await self._run(look), await self.stats()
        file = FileSource(str(path), active.format)
        source = SourceImage(f"volume {volume_id}", file, before[1], lasting=False)
        await self._run(lambda: check_content(pool, source))
        await self._copy(volume_id, source, (written, active.format), operation_key)
        if await self._run(look) != before:
            raise not_of_one_moment(volume_id, "was written to while it was copied")

    def _refuse_written(self, volume_id: str, path: Path, *, shows_locks: bool) -> None:
        """Raise Conflict while somebody may write to a volume's file."""
        told = is_written(path)
        if told:
            raise not_of_one_moment(volume_id, "is open in a guest")
        is_known = shows_locks and told is not None
        if not is_known and require(self._find(volume_id), volume_id).exports:
            raise not_of_one_moment(volume_id, "may be open in a guest, which is not shown here")

    def _chain(self, volume_id: str) -> Chain:
        if (chain := self.chain_of(volume_id)) is None:
            raise NotFound(f"Volume {volume_id} is not on this host.")
        return chain


def _mark(path: Path) -> _Mark:
    """Return what changes with a file; on NFS it is asked of the server by opening the file."""
    with path.open("rb") as file:
        seen = os.fstat(file.fileno())
    return seen.st_ino, seen.st_size, seen.st_mtime_ns
