"""The disks that a guest starts with: its volumes, and what it boots from.

The names of disks are those of the definition. In which order a guest finds them is decided by
where they are plugged in, which libvirt chooses by their names for those that have no place yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from mooring.agent.device_letters import first_device
from mooring.agent.device_names import assign_devices, choose_device, name_root, name_swap
from mooring.agent.libvirt import (
    disk_addresses,
    domain_xml,
    drive_devices,
    network_devices,
    rescue_devices,
    serial_devices,
)
from mooring.agent.libvirt.xml_words import GUEST, child, parse
from mooring.agent.rescues import BESIDE_DISKS, no_name
from mooring.errors import NoCapacity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.agent.hypervisor import DiskPlan
    from mooring.agent.rescues import RescuePlan


def replace_volumes(xml: str, disks: tuple[DiskPlan, ...], *, direct: bool) -> str:
    """Return a definition with exactly these volumes beside its own disks; it boots as before."""
    domain = parse(xml)
    network_devices.restrict(domain)
    serial_devices.open_up(domain)
    rescue = rescue_devices.find(domain)
    first = rescue.device if rescue is not None and not rescue.is_stable else ""
    _replace(domain, disks, direct=direct, first=first)
    if rescue is not None:
        for element in domain_xml.find_disks(domain):
            _set_boot(element, boots=False)
    disk_addresses.give_all(domain)
    return ET.tostring(domain, encoding="unicode")


def replace_start(
    xml: str, disks: tuple[DiskPlan, ...], rescue: RescuePlan | None, *, direct: bool
) -> str:
    """Return a definition with exactly these volumes, which boots from this, else from its own.

    Raises NoCapacity when no name is left for the disk of a rescue.
    """
    domain = parse(xml)
    network_devices.restrict(domain)
    serial_devices.open_up(domain)
    rescue_devices.remove(domain)
    first = first_device(rescue.bus) if rescue is not None and not rescue.is_stable else ""
    names = _replace(domain, disks, direct=direct, first=first)
    if rescue is not None:
        device = first or _name_last(rescue, names)
        if device is None:
            raise NoCapacity(no_name(child(domain, GUEST).get("name", "")))
        rescue_devices.put(domain, rescue, device, direct=direct)
    disk_addresses.give_all(domain)
    return ET.tostring(domain, encoding="unicode")


def _name_last(rescue: RescuePlan, names: Sequence[str]) -> str | None:
    """Return the name of a rescue disk behind a guest's own disks, None when none is left."""
    return choose_device("", {*names}) if rescue.bus == "virtio" else BESIDE_DISKS


def _replace(
    domain: ET.Element, disks: Sequence[DiskPlan], *, direct: bool, first: str
) -> list[str]:
    """Put volumes in the place of those that a definition has; return the names of all disks."""
    drive_devices.rename(domain)
    devices = child(domain, "devices")
    there = [(one, domain_xml.read_disk(one)) for one in domain_xml.find_disks(domain)]
    own_root = next((known for _, known in there if known.is_root), None)
    own = None if own_root is None else own_root.bus
    root, swap = name_root(disks, own, first=first), ""
    for element, known in there:
        if known.is_swap:
            swap = name_swap(disks, known.bus, root=root, first=first)
            _rename(element, swap)
        elif known.is_root:
            _rename(element, root)
            _set_boot(element, boots=True)
        else:
            devices.remove(element)
    assigned = assign_devices(disks, own=own, first=first, swap=swap)
    for plan, device in zip(disks, assigned, strict=True):
        devices.append(domain_xml.disk_element(plan, device, direct=direct))
    return [name for name in (root, swap, *assigned) if name]


def _rename(element: ET.Element, device: str) -> None:
    """Give a disk on the host another name; it is plugged in anew then, as its name says."""
    target, name = child(element, "target"), device.removeprefix("/dev/")
    if target.get("dev") == name:
        return
    target.set("dev", name)
    for address in element.findall("address"):
        element.remove(address)


def _set_boot(element: ET.Element, *, boots: bool) -> None:
    for boot in element.findall("boot"):
        element.remove(boot)
    if boots:
        ET.SubElement(element, "boot", order="1")
