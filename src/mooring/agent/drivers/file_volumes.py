"""Volumes as files of one directory: what all drivers of that kind share.

`volume-<id>` is the data, `.mooring/volume-<id>.json` says what it is: a raw file is never probed.
How big a volume is stands in its file alone, because QEMU may make it grow behind our back.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from mooring.agent import files, identities
from mooring.agent.drivers import damaged
from mooring.agent.drivers.base import (
    ExtendNeedsCompute,
    SourceImage,
    WithoutFence,
    check_content,
    check_reach,
    check_room,
    check_same,
    check_source,
    refuse_exported,
    require,
)
from mooring.agent.drivers.chains import Chain
from mooring.agent.drivers.promises import Promises
from mooring.agent.drivers.records import Record, Records
from mooring.agent.image_locks import is_written
from mooring.agent.pool_threads import PoolThreads
from mooring.agent.qemu_img import GIB, InUse, QemuImg, read_own_bytes
from mooring.agent.settings import PoolSettings
from mooring.agent_api.hosts import Pool
from mooring.agent_api.volumes import Holder, Holders, VolumeFile
from mooring.errors import Conflict, NotFound


class FileVolumes(WithoutFence, ABC):
    """Implements `VolumeDriver` on the files of `directory`.

    A subclass must say how a host reaches a file (`connect_info`). It may have a `directory` that
    comes with `setup` (a mount: make it there, then call this class's), other files for a volume
    (`active_path`, `files_of`) and another `storage_protocol`.
    """

    storage_protocol: ClassVar[str] = "local"

    def __init__(self, pool: PoolSettings, directory: Path, host: str, qemu_img: QemuImg) -> None:
        self._pool, self._directory, self._qemu_img = pool, directory, qemu_img
        self._threads = PoolThreads(pool.name)
        self._run = self._threads.run
        # Other hosts may have the same directory: what they are at must be left alone.
        self._host = host
        self._copies: dict[str, tuple[Path, Path]] = {}
        """By volume: what is being written, and what it is copied from."""
        self._records, self._promises = threading.Lock(), Promises()

    @abstractmethod
    def connect_info(self, volume: VolumeFile) -> dict[str, Any]:
        """Return connection_info for a host of the pool's.

        Runs in a thread, before the export is recorded, and again for each repetition.
        """

    @property
    def _paths(self) -> Records:
        return Records(self.directory, self._host)

    @property
    def directory(self) -> Path:
        """Where the volumes are."""
        return self._directory

    @property
    def pool(self) -> PoolSettings:
        return self._pool

    @property
    def hosts(self) -> list[str] | None:
        return list(self._pool.hosts) or None

    async def shows_locks(self) -> bool:
        """Return whether a lock that another host has on a file is seen on this one."""
        return True

    def path(self, volume_id: str) -> Path:
        """Return where a volume was made, or would be."""
        return self._paths.data_path(volume_id)

    def active_path(self, volume_id: str) -> Path:
        """Return the file that a guest opens and that grows, the top layer if there are several."""
        chain = self.chain_of(volume_id)
        return self.directory / chain.active.file if chain else self.path(volume_id)

    def chain_of(self, volume_id: str) -> Chain | None:
        """Return the files that a volume consists of, None when there is none."""
        record = self._paths.read(volume_id)
        return None if record is None else self._chain_in(volume_id, record)

    def keep_chain(self, volume_id: str, chain: Chain, *, spare: str = "") -> None:
        """Write down what files a volume consists of, and which one it does no more."""
        self._change_record(volume_id, lambda record: record.standing_on(chain, spare))

    def remove_spares(self, volume_id: str) -> None:
        """Remove the files that a volume's record calls spare, and none that its chain has."""
        self._change_record(volume_id, lambda record: self._paths.clear(volume_id, record))

    def files_of(self, volume_id: str) -> list[Path]:
        """Return all files that belong to a volume, the one it cannot be without first."""
        chain = self.chain_of(volume_id)
        names = reversed(chain.files) if chain else [self.path(volume_id).name]
        return [*(self.directory / name for name in names), self.record_path(volume_id)]

    def record_path(self, volume_id: str) -> Path:
        """Return where a volume's record is, or would be."""
        return self._paths.path(volume_id)

    async def setup(self) -> None:
        await self._threads.prepare(self._paths.prepare, self.directory)

    async def close(self) -> None:
        self._threads.close()

    async def stats(self) -> Pool:
        return await self._run(self._stats)

    async def volumes(self) -> list[VolumeFile]:
        return await self._run(self._volumes)

    async def find(self, volume_id: str) -> VolumeFile | None:
        return await self._run(lambda: self._find(volume_id))

    async def create(
        self,
        wanted: VolumeFile,
        source: SourceImage | None,
        operation_key: str,
        *,
        becomes: str = "",
    ) -> VolumeFile:
        if (known := await self.find(wanted.volume_id)) is not None:
            return check_same(known, wanted)
        check_source(wanted, source)
        pool = await self.stats()
        check_room(pool, self._pool, wanted.size_gib)
        await self._run(lambda: check_content(pool, source))
        record = await self._run(lambda: self._paths.plan(wanted.format, becomes, pool.name))
        await self._run(lambda: self._remove_partials(wanted.volume_id))
        written = files.partial(self.path(wanted.volume_id), operation_key, self._host)
        path = self.path(becomes or wanted.volume_id)
        try:
            await self._write(written, wanted, source, operation_key)
            await self._run(lambda: self._take_name(wanted.volume_id, record, written, path))
        finally:
            await self._run(lambda: written.unlink(missing_ok=True))
        return require(await self.find(wanted.volume_id), wanted.volume_id)

    async def delete(self, volume_id: str) -> None:
        try:
            known = await self.find(volume_id)
        except files.DamagedRecord:
            seen, (paths, host) = await self.shows_locks(), (self._paths, self._host)
            await self._run(lambda: damaged.remove(paths, volume_id, host, shows_locks=seen))
            return
        if known is not None:
            refuse_exported(known)

        def remove() -> None:
            self._remove_partials(volume_id)
            self.remove_spares(volume_id)
            for path in self.files_of(volume_id):
                path.unlink(missing_ok=True)

        await self._run(remove)

    async def extend(self, volume_id: str, size_gib: int, operation_key: str) -> VolumeFile:
        known = require(await self.find(volume_id), volume_id)
        if known.virtual_bytes >= size_gib * GIB:
            return known
        check_room(await self.stats(), self._pool, size_gib - known.size_gib)
        path = await self._run(lambda: self.active_path(volume_id))
        try:
            await self._qemu_img.resize(
                path, known.format, size_gib * GIB, operation_key=operation_key
            )
        except InUse as error:
            raise ExtendNeedsCompute(known) from error
        return require(await self.find(volume_id), volume_id)

    async def replace(self, volume_id: str, source: SourceImage, operation_key: str) -> VolumeFile:
        known = require(await self.find(volume_id), volume_id)
        refuse_exported(known)
        check_source(known, source)
        path, pool = await self._run(lambda: self.active_path(volume_id)), await self.stats()
        await self._run(lambda: check_content(pool, source))
        await self._run(lambda: self._remove_partials(volume_id))
        written = files.partial(path, operation_key, self._host)
        try:
            await self._rewrite(written, known, source, operation_key)
            await self._run(lambda: self._take_place(known, written, path))
        finally:
            await self._run(lambda: written.unlink(missing_ok=True))
        return require(await self.find(volume_id), volume_id)

    async def rename(self, volume_id: str, new_id: str) -> None:
        def rename() -> None:
            with self._records:
                self._paths.rename(volume_id, new_id)

        await self._run(rename)

    def _take_name(self, volume_id: str, record: Record, written: Path, path: Path) -> None:
        # Without it nobody could tell what the data are, which a guest may force to disk at once.
        self._paths.keep(volume_id, record)
        files.finish(written, path)

    def _take_place(self, known: VolumeFile, written: Path, path: Path) -> None:
        """Let a file take the place of a volume's active one, if that is as it was found.

        Raises Conflict where somebody else got the volume meanwhile; no export comes in between.
        """
        files.force(written)
        with self._records:
            found = require(self._find(known.volume_id), known.volume_id)
            refuse_exported(found)
            if found != known:
                said = f"Volume {known.volume_id} was changed meanwhile, and has what it had."
                raise Conflict(f"{said} Ask again.")
            files.finish(written, path)

    async def _rewrite(
        self, path: Path, known: VolumeFile, source: SourceImage, operation_key: str
    ) -> None:
        """Make what is to take the place of a volume's active file."""
        await self._write(path, known, source, operation_key)

    async def copied_percent(self, volume_id: str) -> int | None:
        if (copy := self._copies.get(volume_id)) is None:
            return None

        def measure() -> int | None:
            try:
                written, source = (path.stat().st_blocks for path in copy)
            except FileNotFoundError:
                return None
            return min(99, 100 * written // max(source, 1))

        return await self._run(measure)

    async def export(
        self, volume_id: str, attachment_id: str, connector: Mapping[str, Any]
    ) -> dict[str, Any]:
        def note() -> dict[str, Any]:
            volume = require(self._find(volume_id), volume_id)
            host = check_reach(self, volume_id, connector)
            info = self.connect_info(volume)
            self._set_export(volume_id, attachment_id, host)
            return info

        return await self._run(note)

    async def unexport(self, volume_id: str, attachment_id: str) -> None:
        await self._run(lambda: self._set_export(volume_id, attachment_id, None))

    async def holders(self, volume_id: str) -> Holders:
        shows_locks = await self.shows_locks()

        def look() -> Holders:
            record = self._paths.read(volume_id)
            if record is None:
                raise NotFound(f"Volume {volume_id} is not on this host.")
            chain = self._chain_in(volume_id, record)
            tops = [layer for layer in (chain.active, chain.pending) if layer is not None]
            told = [is_written(self.directory / layer.file) for layer in tops]
            # A lock that is seen is one; where they are not all seen, none says nothing.
            is_known = True in told or (shows_locks and None not in told)
            held = True in told if is_known else None
            shown = [Holder(attachment_id=key, host=at) for key, at in record.exports.items()]
            return Holders(held=held, holders=[] if held is False else shown)

        return await self._run(look)

    async def leftovers(self) -> list[str]:
        return await self._run(self._leftovers)

    async def _write(
        self, path: Path, wanted: VolumeFile, source: SourceImage | None, operation_key: str
    ) -> None:
        size_bytes = wanted.size_gib * GIB
        if source is None:
            await self._qemu_img.create(
                path, wanted.format, size_bytes, operation_key=operation_key
            )
            return
        await self._copy(wanted.volume_id, source, (path, wanted.format), operation_key)
        await self._qemu_img.resize(path, wanted.format, size_bytes, operation_key=operation_key)

    async def _copy(
        self, volume_id: str, source: SourceImage, target: tuple[Path, str], operation_key: str
    ) -> None:
        """Copy what a volume is made from, or what it is, so that `copied_percent` knows of it."""
        content = source.file()
        self._copies[volume_id] = (target[0], content[0])
        try:
            await self._qemu_img.convert(content, target, operation_key=operation_key)
        finally:
            # Two snapshots of a volume may be copied at a time.
            self._copies.pop(volume_id, None)

    def _remove_partials(self, volume_id: str) -> None:
        for path in {self.path(volume_id), self.active_path(volume_id)}:
            for left in files.partials(path, self._host):
                left.unlink(missing_ok=True)

    def _find(self, volume_id: str) -> VolumeFile | None:
        return found[0] if (found := self._see(volume_id)) is not None else None

    def _see(self, volume_id: str) -> tuple[VolumeFile, str] | None:
        """Return a volume and the name of the file that tells its size. Raises DamagedRecord."""
        record = self._paths.read(volume_id)
        if record is None:
            return None
        chain = self._chain_in(volume_id, record)
        active = chain.active
        try:
            virtual_bytes = read_own_bytes(self.directory / active.file, active.format)
        except FileNotFoundError:
            # Its data comes last and goes first: a record alone is a volume no more, or not yet.
            return None
        volume = VolumeFile(
            volume_id=volume_id,
            pool=self._pool.name,
            size_gib=virtual_bytes // GIB,
            format=active.format,
            virtual_bytes=virtual_bytes,
            exports=sorted(record.exports),
            snapshots=chain.snapshots,
            becomes=self._paths.new_id_of(volume_id, record),
            untaken_bytes=record.untaken_bytes(virtual_bytes),
        )
        return volume, active.file

    def _chain_in(self, volume_id: str, record: Record) -> Chain:
        return record.chain or Chain((self._paths.plain_layer(volume_id, record),))

    def _set_export(self, volume_id: str, attachment_id: str, host: str | None) -> None:
        self._change_record(volume_id, lambda record: record.exported(attachment_id, host))

    def _change_record(self, volume_id: str, change: Callable[[Record], Record]) -> None:
        """Change a record that is there; two calls about one volume do it one after the other."""
        with self._records:
            record = self._paths.read(volume_id)
            if record is not None and (changed := change(record)) != record:
                self._paths.keep(volume_id, changed)

    def _volumes(self) -> list[VolumeFile]:
        return [one[0] for volume_id in self._paths.ids() if (one := self._look(volume_id))]

    def _look(self, volume_id: str) -> tuple[VolumeFile, str] | None:
        return damaged.look(self._paths, volume_id, self._pool.name, self._see)

    def _stats(self) -> Pool:
        held = self._promises.read(self.directory, self._look)
        space = os.statvfs(self.directory)
        total = space.f_blocks * space.f_frsize / GIB
        reserve = total * self._pool.reserved_percent / 100
        return Pool(
            name=self._pool.name,
            driver=self._pool.driver,
            total_gib=round(total, 2),
            free_gib=round(max(0.0, space.f_bavail * space.f_frsize / GIB - reserve), 2),
            provisioned_gib=sum(held),
            volumes=len(held),
            reserved_percent=self._pool.reserved_percent,
            online_extend=True,
            storage_protocol=self.storage_protocol,
            hosts=self.hosts,
            # Each time: another directory may have been mounted here.
            identity=identities.read(self.directory / identities.RECORDS, self._host),
        )

    def _leftovers(self) -> list[str]:
        own = self.directory / identities.RECORDS
        known = {
            path
            for one in self._volumes()
            for path in damaged.all_of(self._paths, one.volume_id, self.files_of)
        }
        seen = {*self.directory.iterdir(), *own.iterdir()} - {own, own / identities.NAME}
        return sorted(str(path) for path in damaged.unclaimed(self._paths, seen - known))
