"""The disks that a guest starts with: its volumes, and what it boots from.

The names of disks are those of the definition. In which order a guest finds them is decided by
where they are plugged in, which libvirt chooses by their names for those that have no place yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from mooring.agent.device_names import assign_devices, choose_device, name_swap, root_device
from mooring.agent.libvirt import domain_xml, network_devices, rescue_devices, serial_devices
from mooring.agent.libvirt.xml_words import GUEST, child, parse
from mooring.agent.rescues import no_name
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
    _replace(domain, disks, direct=direct, is_second=rescue is not None and not rescue.is_stable)
    if rescue is not None:
        for element in domain_xml.find_disks(domain):
            _set_boot(element, boots=False)
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
    is_second = rescue is not None and not rescue.is_stable
    names = _replace(domain, disks, direct=direct, is_second=is_second)
    if rescue is None:
        return ET.tostring(domain, encoding="unicode")
    device = root_device() if is_second else choose_device("", {*names})
    if device is None and rescue.bus == "virtio":
        raise NoCapacity(no_name(child(domain, GUEST).get("name", "")))
    rescue_devices.put(domain, rescue, device or "", direct=direct)
    return ET.tostring(domain, encoding="unicode")


def _replace(
    domain: ET.Element, disks: Sequence[DiskPlan], *, direct: bool, is_second: bool
) -> list[str]:
    """Put volumes in the place of those that a definition has; return the names of all disks."""
    devices, given = child(domain, "devices"), tuple(disks)
    root, swap = "", ""
    for element in domain_xml.find_disks(domain):
        known = domain_xml.read_disk(element)
        if known.volume_id:
            devices.remove(element)
        elif known.is_swap:
            swap = name_swap(given, is_second=is_second)
            _rename(element, swap)
        else:
            root = root_device(is_second=is_second)
            _rename(element, root)
            _set_boot(element, boots=True)
    assigned = assign_devices(given, has_root=bool(root), is_second=is_second, swap=swap)
    for plan, device in zip(given, assigned, strict=True):
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
