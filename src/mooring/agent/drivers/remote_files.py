"""Volumes as files on one share of a remote file system: what all drivers of that family have.

The share is mounted by os-brick when the pool is first used and stays so; one that is gone hides no
other pool and is tried again. Source: facts/block_storage.md 3.5, 10.2 and 11.4.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import structlog
from msgspec import Struct
from msgspec.structs import replace

from mooring.agent import files, limits
from mooring.agent.brick.requests import MountRequest
from mooring.agent.drivers.allocation import Allocator, is_full
from mooring.agent.drivers.base import (
    ExtendNeedsCompute,
    SourceImage,
    check_room,
    require,
)
from mooring.agent.drivers.file_snapshots import FileSnapshots
from mooring.agent.drivers.remote_cache import CACHED, CachePolicy, ShareCache
from mooring.agent.drivers.remote_options import Secure
from mooring.agent.identities import RECORDS
from mooring.agent.mounts import Mounts, Space, mount_point
from mooring.agent.qemu_img import GIB, QemuImg
from mooring.agent.run import Runner
from mooring.agent.settings import PoolSettings
from mooring.agent.sources import FileSource
from mooring.agent_api.hosts import Pool
from mooring.agent_api.volumes import VolumeFile
from mooring.errors import Invalid, MooringError, Unavailable

log = structlog.get_logger()
INDICATOR = ".cinderSecureEnvIndicator"
"""Upstream's name: a share that was set up by it goes on with what it decided."""
_OURS = {RECORDS, INDICATOR, "lost+found"}


class Array(Protocol):
    """What a vendor's array can do for a share that a mount cannot."""

    @property
    def clones(self) -> bool:
        """Whether it clones files by itself."""
        ...

    async def space(self) -> Space | None:
        """Return the size of the share, None: the mount's is as good. Raises Unavailable."""
        ...

    async def clone(self, source: Path, target: Path, *, operation_key: str) -> None:
        """Make a file of the share, absolute, from another one. Raises Unavailable."""
        ...

    async def close(self) -> None:
        """Let go."""
        ...


class Share(Struct, frozen=True, kw_only=True):
    """One share and how files are made on it."""

    mount: MountRequest
    options: str = ""
    """Mount options of this share alone, as upstream writes them: `-o NAME,NAME=VALUE`."""
    thick: bool = False
    """Raw volumes get their space when they are made."""
    snapshots: bool = False
    """Whether volumes may have snapshots, which are overlays on the share."""
    secure_operations: Secure = "auto"
    secure_permissions: Secure = "auto"


class Tools(Struct, frozen=True):
    """What a host gives to all its drivers."""

    host: str
    """The host's name."""
    qemu_img: QemuImg
    mounts: Mounts
    runner: Runner


class RemoteFiles(FileSnapshots):
    """Implements `VolumeDriver` on one share."""

    def __init__(
        self,
        pool: PoolSettings,
        share: Share,
        tools: Tools,
        *,
        array: Array | None = None,
        policy: CachePolicy | None = None,
    ) -> None:
        directory = mount_point(Path(share.mount.base), share.mount.export)
        super().__init__(pool, directory, tools.host, tools.qemu_img)
        self._share, self._mounts = share, tools.mounts
        self._allocator = Allocator(pool.name, tools.runner)
        self._array = array
        self._cache = ShareCache(tools.host, tools.qemu_img, self._threads, policy)
        self._prepared, self._fresh_until = False, 0.0
        self._preparing: asyncio.Task[None] | None = None
        self._failure, self._failed_until = "", 0.0
        self._mode = 0o666
        self._mounts.add_users(lambda: [self.directory])

    async def shows_locks(self) -> bool:
        return await self._mounts.shows_locks(self.directory)

    async def setup(self) -> None:
        self._prepared, self._fresh_until = False, 0.0
        try:
            # A server that is down must not keep the host from starting.
            await asyncio.wait_for(self._ready(), limits.AGENT_POOL_ANSWER_S)
        except (Unavailable, TimeoutError) as error:
            # The host's other pools and its guests have no part in it: each use tries again.
            log.warning("a pool cannot be used yet", pool=self.pool.name, reason=str(error))

    async def close(self) -> None:
        if self._preparing is not None:
            self._preparing.cancel()
            await asyncio.wait({self._preparing})
        if self._array is not None:
            await self._array.close()
        await super().close()

    async def stats(self) -> Pool:
        await self._ready()
        pool = replace(await super().stats(), storage_protocol=self._share.mount.kind)
        space = await self._array.space() if self._array is not None else None
        if space is None:
            return pool
        total = space.total_bytes / GIB
        free = space.free_bytes / GIB - total * self.pool.reserved_percent / 100
        return replace(pool, total_gib=round(total, 2), free_gib=round(max(0.0, free), 2))

    async def volumes(self) -> list[VolumeFile]:
        await self._ready()
        return await super().volumes()

    async def find(self, volume_id: str) -> VolumeFile | None:
        await self._ready()
        return await super().find(volume_id)

    async def create(
        self,
        wanted: VolumeFile,
        source: SourceImage | None,
        operation_key: str,
        *,
        becomes: str = "",
    ) -> VolumeFile:
        if self._share.thick and await self.find(wanted.volume_id) is None:
            self._check_space(await self.stats(), wanted.size_gib)
        return await super().create(wanted, source, operation_key, becomes=becomes)

    async def extend(self, volume_id: str, size_gib: int, operation_key: str) -> VolumeFile:
        known = require(await self.find(volume_id), volume_id)
        if known.virtual_bytes >= size_gib * GIB:
            if not known.exports:
                await self._take_tail(known, operation_key)
            return known
        pool, more_gib = await self.stats(), size_gib - known.size_gib
        check_room(pool, self.pool, more_gib)
        if self._share.thick:
            self._check_space(pool, more_gib)
        if known.exports and not await self.shows_locks():
            raise ExtendNeedsCompute(known)
        if not (self._share.thick and known.format == "raw"):
            return await super().extend(volume_id, size_gib, operation_key)
        thin_from = await self._run(lambda: self._note_tail(volume_id, known.virtual_bytes))
        try:
            grown = await super().extend(volume_id, size_gib, operation_key)
        except ExtendNeedsCompute:
            await self._run(lambda: self._set_tail(volume_id, thin_from))
            raise
        await self._take_tail(grown, operation_key)
        return grown

    async def export(
        self, volume_id: str, attachment_id: str, connector: Mapping[str, Any]
    ) -> dict[str, Any]:
        await self._ready()
        return await super().export(volume_id, attachment_id, connector)

    async def unexport(self, volume_id: str, attachment_id: str) -> None:
        await self._ready()
        await super().unexport(volume_id, attachment_id)

    async def leftovers(self) -> list[str]:
        await self._ready()
        found = await super().leftovers()
        return [path for path in found if not _is_known(Path(path).name)]

    def connect_info(self, volume: VolumeFile) -> dict[str, Any]:
        data = {
            "export": self._share.mount.export,
            "name": self.active_path(volume.volume_id).name,
            "options": self._share.options or None,
            "format": volume.format,
            "size_bytes": volume.virtual_bytes,
            "volume_id": volume.volume_id,
            "access_mode": "rw",
        }
        return {
            "driver_volume_type": self._share.mount.kind,
            "data": data,
            "mount_point_base": self._share.mount.base,
        }

    def check_snapshots(self) -> None:
        if not self._share.snapshots or self._share.secure_operations == "true":
            raise Invalid(
                f"Pool {self.pool.name} takes no snapshots: that needs nfs_snapshot_support, and "
                "nas_secure_file_operations not set to true. Nothing was changed; its operator can "
                "change the options.",
            )

    def dress_file(self, path: Path) -> None:
        path.chmod(self._mode)

    async def _ready(self) -> None:
        """See that the share is mounted, answers, and is set up. Raises Unavailable, Invalid.

        Whoever comes meanwhile waits for the same try, and nobody who gives up ends it.
        """
        now = time.monotonic()
        if now < self._fresh_until and self.directory in await self._mounts.mounted():
            return
        if now < self._failed_until:
            raise Unavailable(
                f"Pool {self.pool.name} did not answer a moment ago. Ask again in a minute.",
                private=self._failure,
            )
        if self._preparing is None or self._preparing.done():
            self._preparing = asyncio.ensure_future(self._prepare_share())
        await asyncio.shield(self._preparing)

    async def _prepare_share(self) -> None:
        began = time.monotonic()
        try:
            async with self._mounts.held(self._share.mount):
                if not self._prepared:
                    await super().setup()
                    await self._run(lambda: self._cache.prepare(self.directory))
                    await self._run(self._secure)
                    self._prepared = True
        except Unavailable as error:
            now = time.monotonic()
            # What failed at once may be asked again at once; what took long would add up.
            if now - began > limits.AGENT_POOL_ANSWER_S:
                self._failure, self._failed_until = str(error), now + limits.AGENT_MOUNT_RETRY_S
            raise
        self._fresh_until = time.monotonic() + limits.AGENT_MOUNT_FRESH_S

    async def _write(
        self, path: Path, wanted: VolumeFile, source: SourceImage | None, operation_key: str
    ) -> None:
        size_bytes = wanted.size_gib * GIB
        if source is not None and self._keeps(source):
            await self._write_clone(path, wanted, source, operation_key)
        elif source is None and wanted.format == "qcow2":
            await self._qemu_img.create(
                path, "qcow2", size_bytes, preallocation="metadata", operation_key=operation_key
            )
        else:
            await super()._write(path, wanted, source, operation_key)
        if self._share.thick and wanted.format == "raw":
            await self._allocator.take(path, (0, size_bytes), operation_key)
        await self._run(lambda: path.chmod(self._mode))

    def _keeps(self, source: SourceImage) -> bool:
        """Return whether a source is an image to keep for the array's clones.

        A file of this share, such as a layer of a snapshot, is read through its chain instead, and
        a volume of another pool is another one tomorrow.
        """
        is_elsewhere = source.lasting and source.file()[0].parent != self.directory
        return self._array is not None and self._array.clones and is_elsewhere

    async def _write_clone(
        self, path: Path, wanted: VolumeFile, source: SourceImage, operation_key: str
    ) -> None:
        """Let the array clone the image, which the share keeps; copy it if the array cannot.

        Each try has a name of its own: a clone of which nobody heard in time may still come, and
        must not come over what is copied in its place.
        """
        cached = await self._cache.keep(self.directory, source, wanted.format, operation_key)
        if self._array is None:
            return
        tried = path.with_name(f"{path.stem}.{uuid.uuid4().hex}{files.PARTIAL}")
        try:
            await self._array.clone(cached, tried, operation_key=operation_key)
            await self._run(lambda: tried.replace(path))
        except MooringError as error:
            log.warning("the array did not clone, so it is copied", reason=str(error))
            kept = replace(source, source=FileSource(str(cached), wanted.format))
            await super()._write(path, wanted, kept, operation_key)
            return
        finally:
            await self._run(lambda: tried.unlink(missing_ok=True))
        size_bytes = wanted.size_gib * GIB
        await self._qemu_img.resize(path, wanted.format, size_bytes, operation_key=operation_key)

    def _note_tail(self, volume_id: str, begin: int) -> int | None:
        """Write down that the space from `begin` on is still to be taken; return what was there.

        Whoever extends the volume again takes it, should this agent die before it has.
        """
        record = self._paths.read(volume_id)
        known = record.thin_from if record else None
        self._set_tail(volume_id, begin if known is None else known)
        return known

    def _set_tail(self, volume_id: str, begin: int | None) -> None:
        self._change_record(volume_id, lambda record: replace(record, thin_from=begin))

    async def _take_tail(self, grown: VolumeFile, operation_key: str) -> None:
        """Take the space that an extension has still to get, if the file system lets it be taken.

        What was there before stays untouched. Where the file system cannot take space by itself,
        as NFS below 4.2, that of a volume that a host has stays to be taken: a guest may start
        meanwhile, and what it writes would be written over.
        """
        volume_id, beside = grown.volume_id, bool(grown.exports)
        tail = await self._run(lambda: self._find_tail(volume_id))
        if tail is None:
            return
        path, span = tail
        is_taken = span[0] >= span[1] or await self._allocator.take(
            path, span, operation_key, beside_guests=beside
        )
        if is_taken:
            await self._run(lambda: self._set_tail(volume_id, None))
        else:
            log.warning(
                "a thick volume that a host has got no space for what it grew by",
                volume=volume_id,
                reason="its file system takes no space by itself",
                advice="mount its share by NFS 4.2, or extend it again when no server has it",
            )

    def _find_tail(self, volume_id: str) -> tuple[Path, tuple[int, int]] | None:
        """Return the file that has still to get space, and from where to where; None for none.

        That is the lowest one. Once it has an overlay it keeps its size, which is a snapshot's,
        however the volume grows; one that was merged into its overlay has none to get.
        """
        record = self._paths.read(volume_id)
        if record is None or record.thin_from is None:
            return None
        lowest = self._chain_in(volume_id, record).layers[0]
        path = self.directory / lowest.file
        # Of no other format is the size of the file that of the disk, nor the offset a place in it.
        size_bytes = path.stat().st_size if lowest.format == "raw" else 0
        return path, (record.thin_from, size_bytes)

    def _check_space(self, pool: Pool, more_gib: int) -> None:
        if pool.free_gib < more_gib:
            raise is_full(pool.name, private=f"{pool.free_gib} GiB are free, {more_gib} wanted")

    def _secure(self) -> None:
        """Decide what secure means here, as upstream's drivers do. Raises Invalid."""
        indicator = self.directory / INDICATOR
        is_ours = indicator.exists()
        if not is_ours and all(path.name in _OURS for path in self.directory.iterdir()):
            indicator.touch(mode=0o640)
            is_ours = True
        if self._share.secure_operations == "true" and self._is_root_there():
            raise Invalid(
                f"Pool {self.pool.name} has nas_secure_file_operations, and its share gives this "
                "agent the rights of root. Export the share with root_squash, run the agent as an "
                "ordinary user, or set the option to false."
            )
        wanted = self._share.secure_permissions
        if wanted == "true" or (wanted == "auto" and is_ours):
            self._mode = 0o660

    def _is_root_there(self) -> bool:
        """Return whether a file that this agent makes belongs to root."""
        # Without a name, so that nothing is left of it when this agent is killed.
        with tempfile.TemporaryFile(dir=self.directory / RECORDS) as file:
            return os.fstat(file.fileno()).st_uid == 0


def _is_known(name: str) -> bool:
    return name in _OURS or (name.startswith(CACHED) and not name.endswith(files.PARTIAL))
