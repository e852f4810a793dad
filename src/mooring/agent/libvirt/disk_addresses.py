"""Where disks are plugged in, and what they are plugged into, in a domain's XML.

libvirt finds a place for a disk by its letters. On scsi and SATA these name controllers that a
guest does not have: there the places are given here, on the one controller that it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from mooring.agent.device_letters import number_of
from mooring.agent.disk_checks import check_places
from mooring.agent.libvirt import scsi_devices, usb_devices
from mooring.agent.libvirt.xml_words import GUEST, child, read_text
from mooring.agent_api.disks import PLACES_BY_BUS

if TYPE_CHECKING:
    from mooring.agent_api.disks import DiskBus

_READY = "bus"


def ready(domain: ET.Element, bus: DiskBus) -> None:
    """Let a guest have what disks on a bus are plugged into, also while it has none."""
    if bus != "virtio":
        child(domain, GUEST).set(_READY, bus)


def give_all(domain: ET.Element) -> None:
    """See that each disk has its place, and the guest what has these, and no more of it.

    Raises NoCapacity where a bus has too few.
    """
    devices = child(domain, "devices")
    disks = devices.findall("disk")
    buses = {child(disk, "target").get("bus", "") for disk in disks}
    buses.add(child(domain, GUEST).get(_READY, ""))
    for bus, controllers in (("scsi", scsi_devices), ("usb", usb_devices)):
        change = controllers.put_controller if bus in buses else controllers.drop_controller
        change(devices)
    # Units of SATA follow the letters, too: those that wait for a place get it in that order.
    for disk in sorted(disks, key=lambda one: number_of(child(one, "target").get("dev", ""))):
        give(disk, domain)


def give(disk: ET.Element, domain: ET.Element) -> None:
    """Give a disk its place in a guest. Raises NoCapacity; one that has its place keeps it."""
    target = child(disk, "target")
    bus, name = target.get("bus", ""), target.get("dev", "")
    targets = [(one, child(one, "target")) for one in domain.findall("devices/disk")]
    on_it = [one for one, its in targets if its.get("bus") == bus and its.get("dev") != name]
    check_places(read_text(domain, "uuid"), [bus] * (len(on_it) + 1))
    if disk.find("address") is not None:
        return
    if bus == "scsi":
        # Guests find their disks in the order of the targets: in that of the letters.
        _put(disk, target=number_of(name), unit=0)
    elif bus == "sata":
        _put(disk, target=0, unit=_free_unit(on_it))


def _free_unit(others: list[ET.Element]) -> int:
    taken = {place.get("unit") for other in others for place in other.findall("address")}
    return next(unit for unit in range(PLACES_BY_BUS["sata"]) if str(unit) not in taken)


def _put(disk: ET.Element, *, target: int, unit: int) -> None:
    place = {"controller": "0", "bus": "0", "target": str(target), "unit": str(unit)}
    ET.SubElement(disk, "address", {"type": "drive", **place})
