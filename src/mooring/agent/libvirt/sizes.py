"""Disks that grow under a guest. What is not async blocks: it is work for a thread.

The domain's state is read anew each time: a guest may stop, or start, between two calls.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import libvirt

from mooring.agent.guest_mirrors import is_copied
from mooring.agent.hypervisor import grown_size, no_disk
from mooring.agent.libvirt import devices, inactive, open_files
from mooring.agent.libvirt.domain_xml import DefinedDisk
from mooring.agent.qemu_img import QemuImg, read_own_bytes
from mooring.agent.sources import file_of
from mooring.agent.storage_failures import disk_failure_told
from mooring.agent_api.disks import DiskSize
from mooring.errors import Invalid, Unavailable
from mooring.fence.threads import run_to_end

_BYTES = int(libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)


def read(domain: Any, volume_id: str) -> DiskSize:
    """Return how big a disk is for its guest, and its image. Raises NotFound, Unavailable."""
    places = devices.read(domain)
    side = places.live or places.config
    disk = _require(side.disk(volume_id), domain, volume_id)
    image_bytes = _read_image(disk)
    if places.live is None:
        return DiskSize(guest_bytes=image_bytes, image_bytes=image_bytes)
    guest_bytes = domain.blockInfo(disk.device.removeprefix("/dev/"))[0]
    return DiskSize(guest_bytes=guest_bytes, image_bytes=image_bytes)


def find_at_rest(domain: Any, volume_id: str) -> DefinedDisk | None:
    """Return the disk of a guest that is off, None when it is on. Raises NotFound."""
    places = devices.read(domain)
    return None if places.live else _require(places.config.disk(volume_id), domain, volume_id)


def resize_live(domain: Any, volume_id: str, size_bytes: int) -> DiskSize | None:
    """Let QEMU grow a disk's image and tell its guest; None when there is no QEMU any more.

    QEMU tells the guest also when the image has that size already, or more. Raises NotFound,
    Invalid, Conflict: it is copied.
    """
    places = devices.read(domain)
    if places.live is None:
        return None
    disk = _require(places.live.disk(volume_id), domain, volume_id)
    if disk.read_only:
        raise Invalid(f"The guest may only read volume {volume_id}, so it cannot make it grow.")
    if open_files.read_mirror(domain.XMLDesc(0), volume_id) is not None:
        raise is_copied(domain.UUIDString(), volume_id)
    wanted = grown_size(size_bytes, _read_image(disk))
    target = disk.device.removeprefix("/dev/")
    try:
        inactive.hold(domain)
        domain.blockResize(target, wanted, _BYTES)
        guest_bytes = domain.blockInfo(target)[0]
    except libvirt.libvirtError:
        # The guest may have ended in the middle: then its image is looked at and grown as a file.
        if not domain.isActive():
            return None
        raise
    size = DiskSize(guest_bytes=guest_bytes, image_bytes=_read_image(disk))
    if min(size.guest_bytes, size.image_bytes) < wanted:
        raise Unavailable(
            f"QEMU took volume {volume_id} for grown, but it is not. Ask again.", private=str(size)
        )
    return size


def tell(domain: Any) -> None:
    """Have QEMU tell a guest of its disks: they may have grown while it was suspended.

    But for those that it may only read, or others write to: QEMU changes the size of neither.
    """
    live = devices.read(domain).live
    for disk in live.volumes if live else ():
        if not disk.read_only and not disk.shareable:
            target = disk.device.removeprefix("/dev/")
            domain.blockResize(target, domain.blockInfo(target)[0], _BYTES)


async def resize_at_rest(qemu_img: QemuImg, disk: DefinedDisk, size_bytes: int) -> DiskSize:
    """Grow the image of a guest that is off. Raises InUse when it has just been started.

    Also Unavailable: it cannot be read.
    """
    file = file_of(disk.source, "growing")
    image_bytes = await run_to_end(lambda: _read_image(disk))
    wanted = grown_size(size_bytes, image_bytes)
    if image_bytes < wanted:
        await qemu_img.resize(Path(file.path), file.format, wanted)
        image_bytes = await run_to_end(lambda: _read_image(disk))
    return DiskSize(guest_bytes=image_bytes, image_bytes=image_bytes)


def _read_image(disk: DefinedDisk) -> int:
    file = file_of(disk.source, "reading or changing its size")
    with disk_failure_told(disk.volume_id):
        return read_own_bytes(Path(file.path), file.format)


def _require(disk: DefinedDisk | None, domain: Any, volume_id: str) -> DefinedDisk:
    if disk is None:
        raise no_disk(domain.UUIDString(), volume_id)
    return disk
