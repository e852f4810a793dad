"""Volumes that take the place of others: copied by the guest's own QEMU, which then switches.

QEMU writes to both volumes at once when they are in step (`SYNCHRONOUS_WRITES`), so either is whole
whatever dies. That is what makes it safe to change the definition first: a guest that ends between
that and the switch starts with the new volume, and has lost nothing.
Source: facts/compute.md 14.2 and facts/real_hosts.md 3.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from mooring.agent.guest_mirrors import (
    check_equal,
    copy_ended,
    guest_is_off,
    is_shared,
    is_switched,
)
from mooring.agent.hypervisor import DiskPlan, no_disk
from mooring.agent.libvirt import (
    copy_ends,
    copy_starts,
    devices,
    disk_sources,
    open_files,
    states,
    swapped,
)
from mooring.agent.libvirt.captures import LibvirtCaptures
from mooring.agent.libvirt.copy_ends import target_of
from mooring.agent.libvirt.devices import Places
from mooring.agent.libvirt.domain_xml import DefinedDisk
from mooring.agent.libvirt.swapped import Swap
from mooring.agent.qemu_img import read_own_bytes
from mooring.agent.sources import FileSource, file_of
from mooring.agent.storage_failures import disk_failure_told
from mooring.agent_api.disks import GuestDisk
from mooring.agent_api.mirrors import Mirroring
from mooring.errors import Conflict, NotFound
from mooring.probe import Passing, passing_in

_COPY = libvirt.VIR_DOMAIN_BLOCK_JOB_TYPE_COPY
# libvirt forgets such a job with its guest, which a definition that is kept asks for.
_FLAGS = (
    libvirt.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT
    | libvirt.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB
    | libvirt.VIR_DOMAIN_BLOCK_COPY_SYNCHRONOUS_WRITES
)
_PIVOT = libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT


class LibvirtMirrors(LibvirtCaptures):
    """A part of `LibvirtHypervisor`."""

    async def mirror_disk(self, server_id: str, volume_id: str, new: DiskPlan) -> None:
        async with self._lock(server_id):
            passing = passing_in(self.probe, "mirror_disk")
            await self._with(server_id, lambda domain: _begin(domain, volume_id, new, passing))

    async def mirroring(self, server_id: str, volume_id: str) -> Mirroring:
        return await self._with(server_id, lambda domain: _show(domain, volume_id))

    async def stop_mirror(self, server_id: str, volume_id: str, attachment_id: str) -> None:
        async with self._lock(server_id):
            try:
                await self._with(server_id, lambda domain: _stop(domain, volume_id, attachment_id))
            except NotFound:
                return

    async def switch_disk(self, server_id: str, volume_id: str, new: DiskPlan) -> GuestDisk:
        async with self._lock(server_id):
            return await self._with(server_id, lambda domain: _switch(domain, volume_id, new))

    async def _end_mirrors(self, server_id: str, volume_id: str, attachment_id: str) -> None:
        """End every copy from or to a volume that is to go. Raises NotFound without a guest."""
        async with self._lock(server_id):
            await self._with(server_id, lambda domain: _end_all(domain, volume_id, attachment_id))


def _begin(domain: Any, volume_id: str, new: DiskPlan, passing: Passing) -> None:
    copy_starts.settle(domain)
    live = _find_live(domain, volume_id)
    server_id, device = domain.UUIDString(), target_of(live)
    if live.shareable:
        raise is_shared(server_id, volume_id)
    file_of(live.source, "a swap")
    file = file_of(new.source, "a swap")
    mirror = open_files.read_mirror(domain.XMLDesc(0), volume_id)
    if mirror is not None and mirror.path != file.path:
        raise Conflict(
            f"Volume {volume_id} of server {server_id} is copied already. It was not swapped; ask "
            "again when that is over.",
            busy=True,
        )
    if mirror is not None:
        if swapped.find_pending(domain.XMLDesc(0), device):
            return
        # It was given up before it had begun, and may miss what the guest wrote since.
        copy_ends.end_job(domain, device)
    with disk_failure_told(new.volume_id):
        new_bytes = read_own_bytes(Path(file.path), file.format)
    check_equal(new.volume_id, new_bytes, domain.blockInfo(device)[0])
    swap = Swap(alias="", volume_id=new.volume_id, attachment_id=new.attachment_id, file=file.path)
    swapped.begin(domain, device, swap)
    target = _write_target(file)
    try:
        begin_copy = partial(domain.blockCopy, device, target, None, _FLAGS)
        copy_starts.begin(domain, device, begin_copy, passing)
    except (libvirt.libvirtError, Conflict):
        if domain.isActive():
            swapped.forget(domain, device)
        raise


def _show(domain: Any, volume_id: str) -> Mirroring:
    live = _find_live(domain, volume_id)
    # Before the XML: of a job that ends between the two nothing is believed.
    job = domain.blockJobInfo(target_of(live), 0)
    if not job or job["type"] != _COPY:
        raise copy_ended(domain.UUIDString(), volume_id)
    return Mirroring(
        copied_bytes=job["cur"],
        size_bytes=job["end"],
        in_step=open_files.is_mirrored(domain.XMLDesc(0), volume_id),
    )


def _stop(domain: Any, volume_id: str, attachment_id: str) -> None:
    places = devices.read(domain)
    if _has(places, attachment_id):
        raise is_switched(domain.UUIDString(), volume_id)
    live = places.live.disk(volume_id) if places.live else None
    if live is not None:
        copy_ends.end(domain, live)


def _switch(domain: Any, volume_id: str, new: DiskPlan) -> GuestDisk:
    places = devices.read(domain)
    if not _has(places, new.attachment_id):
        live = places.live.disk(volume_id) if places.live else None
        if live is None or not _is_in_step(domain, live, new):
            if live is not None:
                copy_ends.end(domain, live)
            raise copy_ended(domain.UUIDString(), volume_id)
        copy_ends.redefine(domain, volume_id, new)
        domain.blockJobAbort(target_of(live), _PIVOT)
    if places.live is not None:
        swapped.settle(domain, new.volume_id)
    return states.show_disk(domain, new.volume_id)


def _end_all(domain: Any, volume_id: str, attachment_id: str) -> None:
    live = devices.read(domain).live
    for disk in live.volumes if live else ():
        swap = swapped.find_pending(domain.XMLDesc(0), target_of(disk))
        if swap is None:
            # Whichever volume the copy was to, which was given up before it had begun.
            copy_ends.end_job(domain, target_of(disk))
        if swap is None or swap.attachment_id == disk.attachment_id:
            continue
        leaves = _is(disk, volume_id, attachment_id)
        if leaves and _finish(domain, disk, swap):
            continue
        if leaves or _is(swap, volume_id, attachment_id):
            copy_ends.end(domain, disk)


def _is(disk: DefinedDisk | Swap, volume_id: str, attachment_id: str) -> bool:
    return disk.volume_id == volume_id and attachment_id in {"", disk.attachment_id}


def _finish(domain: Any, live: DefinedDisk, swap: Swap) -> bool:
    """Let a guest that is to lose the old volume go on with the new one, if both are in step."""
    mirror = open_files.read_mirror(domain.XMLDesc(0), live.volume_id)
    if mirror is None or mirror.path != swap.file or not mirror.is_in_step:
        return False
    source = FileSource(path=mirror.path, format=mirror.format)
    plan = DiskPlan(volume_id=swap.volume_id, attachment_id=swap.attachment_id, source=source)
    if not devices.read(domain).config.disk(swap.volume_id, swap.attachment_id):
        copy_ends.redefine(domain, live.volume_id, plan)
    domain.blockJobAbort(target_of(live), _PIVOT)
    swapped.settle(domain, swap.volume_id)
    return True


def _has(places: Places, attachment_id: str) -> bool:
    """Return whether a guest has a volume by an attachment, or is off and will have it."""
    side = places.live or places.config
    return any(disk.attachment_id == attachment_id for disk in side.volumes)


def _is_in_step(domain: Any, live: DefinedDisk, new: DiskPlan) -> bool:
    mirror = open_files.read_mirror(domain.XMLDesc(0), live.volume_id)
    path = file_of(new.source, "a swap").path
    return mirror is not None and mirror.path == path and mirror.is_in_step


def _find_live(domain: Any, volume_id: str) -> DefinedDisk:
    places = devices.read(domain)
    if places.live is None:
        raise guest_is_off(domain.UUIDString(), volume_id)
    if (found := places.live.disk(volume_id)) is None:
        raise no_disk(domain.UUIDString(), volume_id)
    return found


def _write_target(file: FileSource) -> str:
    element = disk_sources.build(file, direct=devices.opens_directly(file))
    return ET.tostring(element, encoding="unicode")
