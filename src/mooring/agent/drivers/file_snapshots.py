"""Snapshots of volumes that are files: overlays over a file of the same directory, or copies of it.

The files are changed here while nobody has the volume, and by its hypervisor while a guest does;
then this only prepares, and records what is done. Every step may be repeated after a crash: a file
is removed when the record no longer has it in the chain. Source: facts/block_storage.md 11.4.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from mooring import qcow2
from mooring.agent import files
from mooring.agent.drivers.base import (
    SourceImage,
    not_merged,
    refuse_exported,
    refuse_switched,
    require,
    show_copy,
)
from mooring.agent.drivers.chains import OVERLAY_FORMAT, Chain, Layer
from mooring.agent.drivers.file_copies import FileCopies
from mooring.agent.image_locks import is_written
from mooring.agent.sources import FileSource
from mooring.agent_api.captures import DiskFormat
from mooring.agent_api.snapshots import Holder, SnapshotFile
from mooring.agent_api.volumes import VolumeFile
from mooring.errors import Conflict, NotFound


class FileSnapshots(FileCopies):
    """`FileVolumes` with snapshots."""

    async def snapshot(self, volume_id: str, snapshot_id: str) -> SnapshotFile | None:
        chain = await self._run(lambda: self.chain_of(volume_id))
        if chain is None or snapshot_id not in chain.snapshots:
            return None
        if (copy := chain.find_copy(snapshot_id)) is not None:
            return show_copy(volume_id, copy)
        if chain.is_pending(snapshot_id):
            return await self._show_pending(volume_id, chain)
        return await self._run(lambda: self._show(volume_id, snapshot_id, chain))

    async def prepare_snapshot(
        self, volume_id: str, snapshot_id: str, operation_key: str
    ) -> SnapshotFile:
        known = require(await self.find(volume_id), volume_id)
        chain = await self._run(lambda: self._chain(volume_id))
        if snapshot_id not in chain.snapshots:
            await self._make_overlay(known, snapshot_id, operation_key)
        return await self._get(volume_id, snapshot_id)

    async def take_snapshot(
        self, volume_id: str, snapshot_id: str, operation_key: str
    ) -> SnapshotFile:
        known = require(await self.find(volume_id), volume_id)
        chain = await self._run(lambda: self._chain(volume_id))
        if snapshot_id not in chain.snapshots:
            refuse_exported(known)
            chain = await self._make_overlay(known, snapshot_id, operation_key)
        if chain.is_pending(snapshot_id):
            await self._run(lambda: self.keep_chain(volume_id, chain.take(snapshot_id)))
        return await self._get(volume_id, snapshot_id)

    async def delete_snapshot(
        self, volume_id: str, snapshot_id: str, operation_key: str, *, released: bool = False
    ) -> None:
        chain = await self._run(lambda: self.chain_of(volume_id))
        if chain is None:
            return
        if (copy := chain.find_copy(snapshot_id)) is not None:
            file = copy.file

            def forget(now: Chain) -> Chain:
                return now.forget_copy(snapshot_id)

            await self._run(lambda: self.change_chain(volume_id, forget, spare=file))
        elif chain.is_pending(snapshot_id):
            refuse_switched(volume_id, await self._holder(volume_id, chain), released=released)
            await self._run(lambda: self.keep_chain(volume_id, chain.forget_pending()))
        elif chain.find(snapshot_id) is not None:
            refuse_exported(require(await self.find(volume_id), volume_id))
            await self._merge(volume_id, snapshot_id, operation_key)
        await self._run(lambda: self._remove_strays(volume_id, snapshot_id))

    async def revert(self, volume_id: str, snapshot_id: str, operation_key: str) -> VolumeFile:
        known = require(await self.find(volume_id), volume_id)
        refuse_exported(known)
        chain = await self._run(lambda: self._chain(volume_id))
        chain.require_newest(snapshot_id)
        if chain.find_copy(snapshot_id) is not None:
            source = await self.snapshot_source(volume_id, snapshot_id)
            return await self.replace(volume_id, source, operation_key)
        at = chain.place(snapshot_id)
        await self._run(lambda: self._check_headers(chain))
        # It takes the place of the one with what was written since, under the same name.
        layer, below = chain.layers[at], chain.layers[at - 1]
        await self._write_overlay(layer, below, known, operation_key, is_active=True)
        return require(await self.find(volume_id), volume_id)

    async def record_merge(self, volume_id: str, snapshot_id: str) -> None:
        def record() -> None:
            chain = self.chain_of(volume_id)
            if chain is None or chain.find(snapshot_id) is None:
                # It may have been recorded by a call that came no further.
                self.remove_spares(volume_id)
                return
            if not self._is_merged(chain, snapshot_id):
                raise not_merged(volume_id, snapshot_id)
            merged, spare = chain.merge(snapshot_id)
            self.keep_chain(volume_id, merged, spare=spare.file)
            self.remove_spares(volume_id)

        await self._run(record)

    async def snapshot_source(self, volume_id: str, snapshot_id: str) -> SourceImage:
        def find() -> SourceImage:
            chain = self._chain(volume_id)
            self._check_headers(chain)
            layer, size_bytes = chain.find_content(snapshot_id)
            file = FileSource(str(self.directory / layer.file), layer.format)
            return SourceImage(f"snapshot {snapshot_id}", file, size_bytes)

        return await self._run(find)

    async def volume_source(self, volume_id: str) -> SourceImage:
        known = require(await self.find(volume_id), volume_id)
        refuse_exported(known)

        def find() -> SourceImage:
            chain = self._chain(volume_id)
            self._check_headers(chain)
            file = FileSource(str(self.directory / chain.active.file), chain.active.format)
            return SourceImage(f"volume {volume_id}", file, known.virtual_bytes, lasting=False)

        return await self._run(find)

    async def capture(
        self,
        volume_id: str,
        target: tuple[Path, DiskFormat],
        operation_key: str,
        snapshot_id: str = "",
    ) -> None:
        if snapshot_id:
            source = await self.snapshot_source(volume_id, snapshot_id)
        else:
            source = await self.volume_source(volume_id)
        await self._copy(volume_id, source, target, operation_key)

    async def _rewrite(
        self, path: Path, known: VolumeFile, source: SourceImage, operation_key: str
    ) -> None:
        """Make a new active file; of a volume with snapshots one that hides all that lies below.

        What the image leaves empty must not show the bytes of the snapshots, so the copy is made
        alone and put on the file below afterwards, which fills in what reads as zeros.
        """
        chain = await self._run(lambda: self._chain(known.volume_id))
        if chain.pending is not None:
            raise Conflict(
                f"Snapshot {chain.pending.snapshot_id} of volume {known.volume_id} has not ended; "
                "nothing was changed. Delete it first.",
            )
        if len(chain.layers) == 1:
            await super()._rewrite(path, known, source, operation_key)
            return
        await self._run(lambda: self._check_headers(chain))
        below = chain.layers[-2]
        await self._copy(known.volume_id, source, (path, OVERLAY_FORMAT), operation_key)
        await self._qemu_img.resize(
            path, OVERLAY_FORMAT, known.virtual_bytes, operation_key=operation_key
        )
        await self._qemu_img.rebase(path, (below.file, below.format), operation_key=operation_key)
        await self._run(lambda: self.dress_file(path))

    async def _make_overlay(self, known: VolumeFile, snapshot_id: str, operation_key: str) -> Chain:
        self.check_snapshots()
        chain = await self._run(lambda: self._chain(known.volume_id))
        name = f"{self.path(known.volume_id).name}.{snapshot_id}"
        layer = Layer(name, OVERLAY_FORMAT, snapshot_id, known.virtual_bytes)
        prepared = chain.prepare(layer)
        await self._write_overlay(layer, chain.active, known, operation_key)
        await self._run(lambda: self.keep_chain(known.volume_id, prepared))
        return prepared

    async def _write_overlay(
        self,
        layer: Layer,
        below: Layer,
        known: VolumeFile,
        operation_key: str,
        *,
        is_active: bool = False,
    ) -> None:
        """Make an empty overlay over a file, whole or not at all; also one in the active's place.

        Raises Conflict when that one was given to somebody meanwhile.
        """
        path = self.directory / layer.file
        finish = partial(self._take_place, known) if is_active else files.finish
        written = files.partial(path, operation_key, self._host)
        try:
            await self._qemu_img.create(
                written,
                OVERLAY_FORMAT,
                known.virtual_bytes,
                backing=(below.file, below.format),
                operation_key=operation_key,
            )
            await self._run(lambda: self.dress_file(written))
            await self._run(lambda: finish(written, path))
        finally:
            await self._run(lambda: written.unlink(missing_ok=True))

    async def _merge(self, volume_id: str, snapshot_id: str, operation_key: str) -> None:
        """Bring what the overlay holds into the file below, and let the one above stand on that."""
        chain = await self._run(lambda: self._chain(volume_id))
        at = chain.place(snapshot_id)
        await self._run(lambda: self._check_headers(chain, but_above=at))
        top, below = chain.layers[at], chain.layers[at - 1]
        above = chain.layers[at + 1] if at + 1 < len(chain.layers) else None
        if not await self._run(lambda: self._is_merged(chain, snapshot_id) and above is not None):
            await self._qemu_img.commit(self.directory / top.file, operation_key=operation_key)
        if above is not None:
            await self._qemu_img.rebase(
                self.directory / above.file,
                (below.file, below.format),
                rename=True,
                operation_key=operation_key,
            )
        merged, spare = chain.commit(snapshot_id)
        await self._run(lambda: files.force(self.directory / below.file))
        # After a guest's merge that file has another snapshot's name.
        await self._run(lambda: self.keep_chain(volume_id, merged, spare=spare.file))

    async def _get(self, volume_id: str, snapshot_id: str) -> SnapshotFile:
        found = await self.snapshot(volume_id, snapshot_id)
        if found is None:
            raise NotFound(f"Volume {volume_id} has no snapshot {snapshot_id} on this host.")
        return found

    async def _show_pending(self, volume_id: str, chain: Chain) -> SnapshotFile:
        pending = chain.pending or chain.active
        return SnapshotFile(
            volume_id=volume_id,
            snapshot_id=pending.snapshot_id,
            state="prepared",
            file=pending.file,
            size_bytes=pending.size_bytes,
            held=await self._holder(volume_id, chain),
        )

    def _show(self, volume_id: str, snapshot_id: str, chain: Chain) -> SnapshotFile:
        at = chain.place(snapshot_id)
        return SnapshotFile(
            volume_id=volume_id,
            snapshot_id=snapshot_id,
            state="taken",
            file=chain.layers[at].file,
            size_bytes=chain.layers[at].size_bytes,
            merge=chain.plan(snapshot_id),
            merged=self._is_merged(chain, snapshot_id),
        )

    async def _holder(self, volume_id: str, chain: Chain) -> Holder:
        """Return which file a QEMU has open to write to, told by the locks on the files.

        Where not all locks are seen, one that is not there is no news of a volume that is exported.
        """
        shows_locks = await self.shows_locks()
        pending, active = chain.pending or chain.active, chain.active

        def look() -> Holder:
            switched = is_written(self.directory / pending.file)
            stayed = is_written(self.directory / active.file)
            if switched:
                return "overlay"
            if stayed:
                return "below"
            is_known = shows_locks and switched is not None and stayed is not None
            known = self._find(volume_id)
            return "nobody" if is_known or known is None or not known.exports else "unknown"

        return await self._run(look)

    def _is_merged(self, chain: Chain, snapshot_id: str) -> bool:
        """Whether the files of a snapshot are merged, as the header of the one above tells."""
        plan, at = chain.plan(snapshot_id), chain.place(snapshot_id)
        if plan.merge_target_file is None:
            return self._backing_of(chain.active) == (plan.file_to_merge or "")
        return self._backing_of(chain.layers[at + 1]) == plan.merge_target_file

    def _backing_of(self, layer: Layer) -> str:
        backing = qcow2.read_header(self.directory / layer.file).backing
        return Path(backing).name if backing else ""

    def _check_headers(self, chain: Chain, *, but_above: int | None = None) -> None:
        """Raise Conflict unless each file stands on the one that the record says.

        A file that names another would make us read that. `but_above` is the place of an overlay
        that is being merged: the file above may stand on the one below it by now.
        """
        for at in range(1, len(chain.layers)):
            header = qcow2.read_header(self.directory / chain.layers[at].file)
            allowed = {chain.layers[at - 1].file}
            if but_above is not None and at == but_above + 1:
                allowed.add(chain.layers[at - 2].file)
            if header.backing not in allowed:
                raise Conflict(
                    f"The file {chain.layers[at].file} does not stand on {min(allowed)}, as it was "
                    "made. Nothing was changed; see who has written to the pool's directory.",
                    private=header.backing,
                )

    def _remove_strays(self, volume_id: str, snapshot_id: str) -> None:
        self.remove_spares(volume_id)
        chain = self._chain(volume_id)
        path = self.directory / f"{self.path(volume_id).name}.{snapshot_id}"
        for left in files.partials(path, self._host):
            left.unlink(missing_ok=True)
        if path.name not in chain.files:
            path.unlink(missing_ok=True)
