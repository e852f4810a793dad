"""Copies inside QEMU that are ended: each disk is what it was, now and at the next start.

libvirt neither saves the memory of a guest whose QEMU copies a disk nor sends it to another host.
What a saga copies holds its server meanwhile, so a copy that is met then is one of which nobody
waits for the end: its saga was given up, by a reset say. Of a root disk's capture whoever made it
takes what the guest left, once that is off. Blocking: each function is work for a thread.
"""

from __future__ import annotations

from typing import Any

import libvirt

from mooring.agent.hypervisor import DiskPlan
from mooring.agent.libvirt import copy_starts, devices, domain_xml, swapped
from mooring.agent.libvirt.domain_xml import DefinedDisk

_COPIES = frozenset(
    {
        libvirt.VIR_DOMAIN_BLOCK_JOB_TYPE_COPY,
        # Of an overlay that is taken back: without whoever asked for it, it never ends by itself.
        libvirt.VIR_DOMAIN_BLOCK_JOB_TYPE_ACTIVE_COMMIT,
    }
)
_SECURE = int(libvirt.VIR_DOMAIN_XML_SECURE)


def end_all(domain: Any) -> None:
    """End every copy of a guest's disks that nobody waits for; nothing for one that is off."""
    if not domain.isActive():
        return
    copy_starts.settle(domain)
    xml = domain.XMLDesc(0)
    for disk in map(domain_xml.read_disk, domain_xml.find_disks(swapped.parse_named(xml))):
        swap = swapped.find_pending(domain.XMLDesc(0), target_of(disk))
        # One that has switched by now is left to what notes that.
        if swap is None or swap.attachment_id != disk.attachment_id:
            end(domain, disk)


def end(domain: Any, live: DefinedDisk) -> None:
    """End the copy of a disk, if any: it is what it was, now and at the next start."""
    device = target_of(live)
    copy_starts.settle(domain)
    # By the job: of a copy that was given up nothing is noted, and QEMU may have the file open yet.
    end_job(domain, device)
    swap = swapped.find_pending(domain.XMLDesc(0), device)
    if swap is None:
        return
    if devices.read(domain).config.disk(swap.volume_id, swap.attachment_id):
        redefine(domain, swap.volume_id, devices.plan_of(live))
    swapped.forget(domain, device)


def end_job(domain: Any, device: str) -> None:
    """End what copies a disk ("vdb"), if anything does."""
    job = domain.blockJobInfo(device, 0)
    if job and job["type"] in _COPIES:
        try:
            domain.blockJobAbort(device, 0)
        except libvirt.libvirtError:
            # It may have ended by itself between the two calls.
            if domain.isActive() and domain.blockJobInfo(device, 0):
                raise


def redefine(domain: Any, volume_id: str, new: DiskPlan) -> None:
    """Let the next start have another volume in the place of one."""
    xml = domain.XMLDesc(devices.INACTIVE | _SECURE)
    direct = devices.opens_directly(new.source)
    domain.connect().defineXML(domain_xml.replace_disk(xml, volume_id, new, direct=direct))


def target_of(disk: DefinedDisk) -> str:
    """Return what libvirt calls a disk."""
    return disk.device.removeprefix("/dev/")
