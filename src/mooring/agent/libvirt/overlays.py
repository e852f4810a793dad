"""Overlays and merges of a domain's disks, in the guest's QEMU while it runs, else by qemu-img.

A job of QEMU outlives the agent: the next one finds it in libvirt and joins it. What is wanted is
compared with the files that QEMU has open, so each function may be repeated from any point.
Source: facts/compute.md 14.2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import libvirt
import structlog
from msgspec import Struct

from mooring.agent import overlays
from mooring.agent.libvirt import devices, domain_xml, inactive, open_files, states
from mooring.agent.limits import AGENT_MERGE_POLL_S
from mooring.agent.overlays import Layer
from mooring.agent.qemu_img import QemuImg
from mooring.agent.sources import FileSource, file_of
from mooring.agent.storage_failures import disk_failure_told
from mooring.agent_api.disks import GuestDisk
from mooring.agent_api.overlays import MergeRequest, check_name
from mooring.errors import Conflict, NotFound, Unavailable

T = TypeVar("T")
log = structlog.get_logger()
Next = Literal["done", "wait", "by qemu-img"]
_SECURE = int(libvirt.VIR_DOMAIN_XML_SECURE)
_SWITCH = (
    libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY
    | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REUSE_EXT
    | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA
    | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_ATOMIC
)
_QUIESCE = libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_QUIESCE


class Stand(Struct, frozen=True, kw_only=True):
    """How a disk stands. `job` is the kind of the job that runs on it, None without one."""

    device: str
    layers: list[Layer]
    live: bool = False
    indexes: dict[str, int] = {}
    job: int | None = None

    @property
    def active(self) -> Layer:
        """The file that the guest writes to."""
        return self.layers[0]

    @property
    def names(self) -> list[str]:
        """The files' names, from the top down."""
        return [layer.name for layer in self.layers]

    def target(self, name: str) -> str:
        """Return what libvirt calls one of the files."""
        return f"{self.device}[{self.indexes[name]}]"


class RunOn(Protocol):
    """Runs something blocking on a server's domain. Raises NotFound."""

    def __call__(self, server_id: str, fn: Callable[[Any], T]) -> Awaitable[T]:
        """Return what `fn` returns."""
        ...


class DomainOverlays:
    """Implements the part of `Hypervisor` that is about overlays."""

    def __init__(
        self,
        lock: Callable[[str], asyncio.Lock],
        run: RunOn,
        qemu_img: QemuImg,
        give: Callable[[Path], None],
    ) -> None:
        self._lock, self._run, self._qemu_img = lock, run, qemu_img
        self._give = give

    async def snapshot(self, server_id: str, volume_id: str, new_file: str) -> GuestDisk:
        """See `Hypervisor.snapshot_disk`."""
        check_name(new_file)
        async with self._lock(server_id):
            return await self._ask(
                server_id, volume_id, lambda one: _switch(one, volume_id, new_file, self._give)
            )

    async def take_back(
        self, server_id: str, volume_id: str, new_file: str, operation_key: str
    ) -> GuestDisk | None:
        """See `Hypervisor.take_back_snapshot`."""
        check_name(new_file)
        was_at_work = False
        while True:
            async with self._lock(server_id):
                try:
                    step = await self._ask(
                        server_id,
                        volume_id,
                        lambda one, again=was_at_work: _go_back(
                            one, volume_id, new_file, again=again
                        ),
                    )
                    if step == "by qemu-img":
                        await self._commit_stopped(server_id, volume_id, operation_key)
                    if step != "wait":
                        return await self._run(
                            server_id, lambda domain: states.show_disk(domain, volume_id)
                        )
                except NotFound:
                    return None
            was_at_work = True
            await asyncio.sleep(AGENT_MERGE_POLL_S)

    async def merge(
        self, server_id: str, volume_id: str, merge: MergeRequest, operation_key: str
    ) -> GuestDisk:
        """See `Hypervisor.merge_disk`."""
        was_at_work = False
        while True:
            async with self._lock(server_id):
                step = await self._ask(
                    server_id,
                    volume_id,
                    lambda domain, again=was_at_work: _merge(domain, volume_id, merge, again=again),
                )
                if step == "by qemu-img":
                    await self._merge_stopped(server_id, volume_id, merge, operation_key)
                if step != "wait":
                    return await self._run(
                        server_id, lambda domain: states.show_disk(domain, volume_id)
                    )
            was_at_work = True
            await asyncio.sleep(AGENT_MERGE_POLL_S)

    async def stop(self, server_id: str, volume_id: str) -> None:
        """See `Hypervisor.stop_merge`."""
        async with self._lock(server_id):
            try:
                await self._ask(server_id, volume_id, lambda domain: _stop(domain, volume_id))
            except NotFound:
                return

    async def _ask(self, server_id: str, volume_id: str, fn: Callable[[Any], T]) -> T:
        """Run what may read the volume's files. Raises NotFound, Unavailable: they are away."""
        with disk_failure_told(volume_id):
            return await self._run(server_id, fn)

    async def _commit_stopped(self, server_id: str, volume_id: str, operation_key: str) -> None:
        """Write a stopped guest's overlay into the file below, and let it use that again."""
        stand = await self._ask(server_id, volume_id, lambda domain: look(domain, volume_id))
        await self._qemu_img.commit(stand.active.path, operation_key=operation_key)
        below = stand.layers[1]
        await self._run(server_id, lambda domain: _follow(domain, volume_id, below))

    async def _merge_stopped(
        self, server_id: str, volume_id: str, merge: MergeRequest, operation_key: str
    ) -> None:
        stand = await self._ask(server_id, volume_id, lambda domain: look(domain, volume_id))
        by_name = {layer.name: layer for layer in stand.layers}
        wanted = by_name.get(merge.merge_target_file or merge.file_to_merge or "")
        backing = (wanted.name, wanted.format) if wanted else None
        upper, rename = stand.active, False
        if merge.merge_target_file is not None and merge.file_to_merge is not None:
            upper, rename = stand.layers[stand.names.index(merge.file_to_merge) - 1], True
            lower = by_name[merge.file_to_merge]
            await self._qemu_img.commit(lower.path, operation_key=operation_key)
        await self._qemu_img.rebase(upper.path, backing, rename=rename, operation_key=operation_key)


def look(domain: Any, volume_id: str) -> Stand:
    """Return how a disk stands: as QEMU has it open, or as its files say. Raises NotFound."""
    places = devices.read(domain)
    live = places.live.disk(volume_id) if places.live else None
    defined = live or places.config.disk(volume_id)
    if defined is None:
        raise NotFound(f"The guest of server {places.config.server_id} has no volume {volume_id}.")
    file = file_of(defined.source, "a snapshot or a merge")
    if live is None:
        layers = overlays.read_layers(Layer(Path(file.path), file.format))
        return Stand(device=defined.device.removeprefix("/dev/"), layers=layers)
    device = live.device.removeprefix("/dev/")
    # Before the files: those of a job that ends between the two are read as it leaves them.
    job: dict[str, int] = domain.blockJobInfo(device, 0)
    kind = job.get("type") if job else None
    if (xml := devices.read_live(domain)) is None:
        # It has ended meanwhile, so nobody has the files open.
        return look(domain, volume_id)
    files = open_files.read_files(xml, volume_id)
    layers = [Layer(Path(file.path), file.format) for file in files]
    indexes = {Path(file.path).name: file.index for file in files}
    return Stand(device=device, layers=layers, live=True, indexes=indexes, job=kind)


def _switch(domain: Any, volume_id: str, new_file: str, give: Callable[[Path], None]) -> GuestDisk:
    stand = look(domain, volume_id)
    active = stand.active
    if active.name != new_file:
        if new_file in stand.names:
            raise Conflict(
                f"The file {new_file} lies below {active.name} already. Nothing was changed; make "
                "a new file."
            )
        active = overlays.check_overlay(new_file, active)
        _end_job(domain, stand)
        if stand.live:
            give(active.path)
            _switch_running(domain, volume_id, active)
    _follow(domain, volume_id, active)
    return states.show_disk(domain, volume_id)


def _switch_running(domain: Any, volume_id: str, overlay: Layer) -> None:
    """Let QEMU write to an overlay; its guest holds still meanwhile if it can be asked to."""
    inactive.hold(domain)
    xml = domain.XMLDesc(0)
    wanted = open_files.build_overlay(xml, volume_id, str(overlay.path))
    if open_files.has_guest_agent(xml):
        try:
            domain.snapshotCreateXML(wanted, _SWITCH | _QUIESCE)
        except libvirt.libvirtError:
            # Most agents that fail to hold still are deaf; the snapshot is one of a pulled plug.
            log.info("a guest's agent did not hold still", domain=domain.name())
    if look(domain, volume_id).active != overlay:
        domain.snapshotCreateXML(wanted, _SWITCH)


def _go_back(domain: Any, volume_id: str, new_file: str, *, again: bool) -> Next:
    """Do the next thing that lets a guest write to the file below an overlay; `again` as below."""
    stand = look(domain, volume_id)
    if new_file not in stand.names:
        _follow(domain, volume_id, stand.active)
        return "done"
    if stand.active.name != new_file:
        raise Conflict(
            f"The guest writes to {stand.active.name}, above {new_file}; take that one back first."
        )
    if len(stand.layers) == 1:
        raise Conflict(f"There is nothing below {new_file} to go back to. Nothing was changed.")
    if not stand.live:
        return "by qemu-img"
    if stand.job == libvirt.VIR_DOMAIN_BLOCK_JOB_TYPE_ACTIVE_COMMIT:
        if open_files.is_mirrored(domain.XMLDesc(0), volume_id):
            domain.blockJobAbort(stand.device, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)
        return "wait"
    if again:
        raise Unavailable(
            f"What the guest wrote to {new_file} of volume {volume_id} was not all written to the "
            "file below; the guest goes on with both. Its storage may be out of room, and the log "
            "of its QEMU says why. Ask again."
        )
    _end_job(domain, stand)
    inactive.hold(domain)
    base = stand.target(stand.layers[1].name)
    flags = libvirt.VIR_DOMAIN_BLOCK_COMMIT_ACTIVE | libvirt.VIR_DOMAIN_BLOCK_COMMIT_RELATIVE
    domain.blockCommit(stand.device, base, None, 0, flags)
    return "wait"


def _merge(domain: Any, volume_id: str, merge: MergeRequest, *, again: bool) -> Next:
    """Do the next thing that merges files; `again`: a job was seen at work on it before."""
    stand = look(domain, volume_id)
    if stand.job == libvirt.VIR_DOMAIN_BLOCK_JOB_TYPE_ACTIVE_COMMIT:
        # One that nobody waits for any more: it never ends by itself.
        _end_job(domain, stand)
    elif stand.job is not None:
        return "wait"
    if overlays.check_merge(merge, stand.layers):
        return "done"
    if not stand.live:
        return "by qemu-img"
    if again:
        raise Unavailable(
            f"The merge of volume {volume_id} ended before its time; the disk reads as before. The "
            "log of its QEMU says why. Ask again."
        )
    inactive.hold(domain)
    if merge.merge_target_file is not None and merge.file_to_merge is not None:
        base, top = stand.target(merge.merge_target_file), stand.target(merge.file_to_merge)
        domain.blockCommit(stand.device, base, top, 0, libvirt.VIR_DOMAIN_BLOCK_COMMIT_RELATIVE)
    elif merge.file_to_merge is not None:
        base, flags = stand.target(merge.file_to_merge), libvirt.VIR_DOMAIN_BLOCK_REBASE_RELATIVE
        domain.blockRebase(stand.device, base, 0, flags)
    else:
        domain.blockRebase(stand.device, None, 0, 0)
    return "wait"


def _stop(domain: Any, volume_id: str) -> None:
    """End the job that runs on a disk; a guest that is off has none, so no file is read for it."""
    live = devices.read(domain).live
    if live is not None and live.disk(volume_id) is not None:
        _end_job(domain, look(domain, volume_id))


def _end_job(domain: Any, stand: Stand) -> None:
    """End the job that runs on a disk, if any; the disk reads as before."""
    if stand.job is None:
        return
    try:
        domain.blockJobAbort(stand.device, 0)
    except libvirt.libvirtError:
        # It may have ended by itself between the two calls.
        if domain.isActive() and domain.blockJobInfo(stand.device, 0):
            raise


def _follow(domain: Any, volume_id: str, active: Layer) -> None:
    """See that the next start uses the same file as the guest does now."""
    defined = devices.read(domain).config.disk(volume_id)
    if defined is None or defined.source == FileSource(str(active.path), active.format):
        return
    xml = domain.XMLDesc(devices.INACTIVE | _SECURE)
    moved = domain_xml.move_disk(xml, volume_id, str(active.path), active.format)
    domain.connect().defineXML(moved)
