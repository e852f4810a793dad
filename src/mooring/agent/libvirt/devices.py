"""Disks plugged into and out of a domain. Blocking: each function is work for a thread.

A disk is in up to two places, the running guest and the definition for its next start. Both are
looked at before and after, so each function may be repeated from any point.
"""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import libvirt
from msgspec import Struct
from msgspec.structs import replace

from mooring.agent.device_names import choose_device
from mooring.agent.disk_checks import check_attachment, check_disks, check_hot
from mooring.agent.hypervisor import DiskPlan, share_in_use
from mooring.agent.libvirt import disk_addresses, domain_xml, share_devices, swapped
from mooring.agent.libvirt.domain_xml import DefinedDisk, Definition
from mooring.agent.libvirt.xml_words import parse
from mooring.agent.sources import FileSource, Source
from mooring.agent_api.disks import prefix_of
from mooring.errors import Bug, NoCapacity

LIVE = int(libvirt.VIR_DOMAIN_AFFECT_LIVE)
CONFIG = int(libvirt.VIR_DOMAIN_AFFECT_CONFIG)
INACTIVE = int(libvirt.VIR_DOMAIN_XML_INACTIVE)
_SECURE = int(libvirt.VIR_DOMAIN_XML_SECURE)
# libvirt's words for a request that is still with the guest.
_PENDING = "in the process of unplug"


class Places(Struct, frozen=True):
    """A domain's two sides; without a running guest there is no live one."""

    config: Definition
    live: Definition | None

    @property
    def taken(self) -> set[str]:
        """The device names that either side uses."""
        sides = [self.config, self.live] if self.live else [self.config]
        rescues = {side.rescue.device for side in sides if side.rescue}
        return rescues | {disk.device for side in sides for disk in side.disks}


def read(domain: Any) -> Places:
    """Return both sides. Raises Bug for a domain that is not ours."""
    config = domain_xml.read_domain(domain.XMLDesc(INACTIVE))
    live = read_live(domain)
    if config is None:
        raise Bug(f"The domain {domain.name()} is none of Mooring's.")
    return Places(config, domain_xml.read_domain(live) if live else None)


def read_live(domain: Any) -> str | None:
    """Return the XML of the running guest, None for one that is off.

    Of one that is off libvirt answers the definition, also where it ran a moment ago: what it says
    itself tells the two apart.
    """
    xml: str = domain.XMLDesc(0)
    return xml if domain_xml.is_live(xml) else None


def plug(domain: Any, server_id: str, disk: DiskPlan, *, direct: bool) -> str:
    """Give a disk to both sides that lack it; return its device name.

    Raises Conflict when either has the volume by another attachment.
    """
    check_disks(disk)
    places = read(domain)
    in_config = places.config.disk(disk.volume_id)
    in_live = places.live.disk(disk.volume_id) if places.live else None
    known = in_live or in_config
    for one in (in_live, in_config):
        if one is not None:
            check_attachment(server_id, disk.volume_id, one.attachment_id, disk.attachment_id)
    device = known.device if known else choose_device(disk.device, places.taken, disk.bus)
    if device is None:
        raise NoCapacity(f"The guest has disks at all letters from {prefix_of(disk.bus)}a on.")
    flags = 0 if in_config else CONFIG
    if places.live is not None and in_live is None:
        check_hot(server_id, disk.volume_id, disk.bus)
        flags |= LIVE
    if flags:
        domain.attachDeviceFlags(_placed(domain, disk, device, direct=direct), flags)
    return device


def ask_to_let_go(domain: Any, volume_id: str, attachment_id: str = "") -> bool:
    """Ask the running guest for a disk; return whether it is gone from it. May take 5 s."""
    places = read(domain)
    held = places.live.disk(volume_id, attachment_id) if places.live else None
    if held is None:
        return True
    check_hot(domain.UUIDString(), volume_id, held.bus)
    try:
        domain.detachDeviceFlags(_named(held), LIVE)
    except libvirt.libvirtError as error:
        gone = error.get_error_code() == libvirt.VIR_ERR_DEVICE_MISSING
        ended = error.get_error_code() == libvirt.VIR_ERR_OPERATION_INVALID
        if not gone and not ended and _PENDING not in str(error):
            raise
    return is_gone(domain, volume_id, attachment_id)


def is_gone(domain: Any, volume_id: str, attachment_id: str = "") -> bool:
    """Return whether the running guest has let go of a disk."""
    live = read(domain).live
    return live is None or live.disk(volume_id, attachment_id) is None


def forget(domain: Any, volume_id: str, attachment_id: str = "") -> None:
    """Take a disk out of the definition."""
    defined = read(domain).config.disk(volume_id, attachment_id)
    if defined is not None:
        domain.detachDeviceFlags(_named(defined), CONFIG)


def give_back(domain: Any, volume_id: str) -> bool:
    """Give a running guest a disk that its definition has and it lacks; return whether it did."""
    if not domain.isActive():
        return False
    places = read(domain)
    defined = places.config.disk(volume_id)
    if defined is None or places.live is None:
        return False
    # Of a volume that is to take the place of another, that one's disk is there.
    if defined.device in {disk.device for disk in places.live.disks}:
        return False
    swapped.prune(domain)
    direct = opens_directly(defined.source)
    plan = replace(plan_of(defined), boot_index=defined.boot_index)
    domain.attachDeviceFlags(_placed(domain, plan, defined.device, direct=direct), LIVE)
    return True


def without_share(domain: Any, server_id: str, share_id: str) -> str | None:
    """Return the definition without a share, None when it has none of it.

    Raises Conflict when the running guest has the share.
    """
    places = read(domain)
    if places.live is not None and any(one.share_id == share_id for one in places.live.shares):
        raise share_in_use(server_id, share_id)
    left = [one for one in places.config.shares if one.share_id != share_id]
    if left == places.config.shares:
        return None
    return share_devices.replace(domain.XMLDesc(INACTIVE | _SECURE), left)


def opens_directly(*sources: Source) -> bool:
    """Return whether all files can be opened past the page cache; not so on tmpfs, for one."""
    import os

    for source in sources:
        if not isinstance(source, FileSource):
            continue
        try:
            os.close(os.open(source.path, os.O_RDONLY | os.O_DIRECT))
        except OSError:
            return False
    return True


def _placed(domain: Any, disk: DiskPlan, device: str, *, direct: bool) -> str:
    """Return the XML by which a disk is plugged in. Raises NoCapacity: its bus has no place."""
    element = domain_xml.disk_element(disk, device, direct=direct)
    disk_addresses.give(element, parse(domain.XMLDesc(INACTIVE)))
    return ET.tostring(element, encoding="unicode")


def _named(disk: DefinedDisk) -> str:
    """Return the XML by which libvirt finds a disk: its target."""
    return domain_xml.build_disk(plan_of(disk), disk.device, direct=False)


def plan_of(disk: DefinedDisk) -> DiskPlan:
    """Return what makes a disk as it is defined, but for its place among the others."""
    return DiskPlan(
        volume_id=disk.volume_id,
        attachment_id=disk.attachment_id,
        source=disk.source,
        read_only=disk.read_only,
        shareable=disk.shareable,
        bus=disk.bus,
    )
