"""The disk that a guest in rescue boots from, in XML, and beside it which image it is made from.

Source: facts/compute.md 1.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from msgspec import Struct

from mooring.agent.libvirt import disk_sources
from mooring.agent.libvirt.xml_words import GUEST, child, parse, printable

if TYPE_CHECKING:
    from mooring.agent.rescues import RescuePlan

_ALIAS = "ua-rescue"
_IMAGE, _STABLE = "rescue", "rescue-stable"


class Rescue(Struct, frozen=True):
    """What the XML of a domain says of its rescue disk."""

    image_id: str
    device: str
    is_stable: bool


def is_rescue(disk: ET.Element) -> bool:
    """Whether a disk is the one of a rescue."""
    return disk.find(f"alias[@name='{_ALIAS}']") is not None


def find(domain: ET.Element) -> Rescue | None:
    """Return what a domain of ours boots from instead of its own disks, or None."""
    guest = child(domain, GUEST)
    for disk in filter(is_rescue, domain.findall("devices/disk")):
        device = f"/dev/{child(disk, 'target').get('dev', '')}"
        return Rescue(guest.get(_IMAGE, ""), device, guest.get(_STABLE) == "yes")
    return None


def read_image(xml: str) -> str:
    """Return the image that a guest in rescue runs from; "" for every other one."""
    found = find(parse(xml))
    return "" if found is None else found.image_id


def put(domain: ET.Element, plan: RescuePlan, device: str, *, direct: bool) -> None:
    """Give a definition the disk, which it has not yet, as the one thing that it boots from.

    `device` is its name. Where it is plugged in, `disk_addresses` says.
    """
    guest, devices = child(domain, GUEST), child(domain, "devices")
    guest.set(_IMAGE, printable(plan.image_id))
    guest.set(_STABLE, "yes" if plan.is_stable else "no")
    for disk in devices.findall("disk"):
        for boot in disk.findall("boot"):
            disk.remove(boot)
    devices.append(_build(plan, device, direct=direct))


def remove(domain: ET.Element) -> None:
    """Take the disk out of a definition. Nothing boots the guest then."""
    guest, devices = child(domain, GUEST), child(domain, "devices")
    for name in (_IMAGE, _STABLE):
        guest.attrib.pop(name, None)
    for disk in filter(is_rescue, devices.findall("disk")):
        devices.remove(disk)


def _build(plan: RescuePlan, device: str, *, direct: bool) -> ET.Element:
    disk = disk_sources.build(plan.source, direct=direct)
    disk.set("device", plan.device)
    ET.SubElement(disk, "target", dev=device.removeprefix("/dev/"), bus=plan.bus)
    if plan.device == "cdrom":
        ET.SubElement(disk, "readonly")
    ET.SubElement(disk, "alias", name=_ALIAS)
    ET.SubElement(disk, "boot", order="1")
    return disk
