"""The config drive in a domain's XML: a CD-ROM, so that no other disk has another name for it.

It is on a virtio-scsi controller, unless its image asks for another bus: kernels made for virtual
machines, Debian's for one, have no driver for the SATA controller of q35 (ADR 14).
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from mooring.agent.libvirt import disk_addresses
from mooring.agent.libvirt.xml_words import child, parse
from mooring.agent_api.config_drives import DriveBus

_ALIAS = "ua-config-drive"
_DEVICE = "sdaa"
"""Behind all letters that other disks may have. Guests call it sr0."""


def put(domain: ET.Element, path: str, bus: DriveBus = "scsi") -> None:
    """Give a definition a config drive, which it has not yet."""
    devices = child(domain, "devices")
    drive = ET.SubElement(devices, "disk", type="file", device="cdrom")
    ET.SubElement(drive, "driver", name="qemu", type="raw")
    ET.SubElement(drive, "source", file=path)
    ET.SubElement(drive, "target", dev=_DEVICE, bus=bus)
    ET.SubElement(drive, "readonly")
    ET.SubElement(drive, "alias", name=_ALIAS)


def rename(domain: ET.Element) -> None:
    """Give a config drive the name that it has today: an agent of before called it sda."""
    for drive in filter(is_drive, domain.findall("devices/disk")):
        target = child(drive, "target")
        if target.get("dev") != _DEVICE:
            target.set("dev", _DEVICE)
            for address in drive.findall("address"):
                drive.remove(address)


def is_drive(disk: ET.Element) -> bool:
    """Whether a disk is a config drive."""
    return disk.find(f"alias[@name='{_ALIAS}']") is not None


def find(domain: ET.Element) -> str:
    """Return the file of a domain's config drive; "" for none."""
    drives = filter(is_drive, domain.findall("devices/disk"))
    return next((child(drive, "source").get("file", "") for drive in drives), "")


def read(xml: str) -> str:
    """Return the same, of a definition as libvirt has it."""
    return find(parse(xml))


def add(xml: str, path: str) -> str | None:
    """Return a definition with a config drive; None for one that has it."""
    domain = parse(xml)
    if find(domain):
        return None
    put(domain, path)
    disk_addresses.give_all(domain)
    return ET.tostring(domain, encoding="unicode")


def move(domain: ET.Element, path: str) -> None:
    """Let a definition's config drive be another file."""
    for drive in filter(is_drive, domain.findall("devices/disk")):
        child(drive, "source").set("file", path)
