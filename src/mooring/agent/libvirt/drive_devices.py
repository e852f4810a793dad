"""The config drive in a domain's XML: a CD-ROM, so that no other disk has another name for it.

It is on a virtio-scsi controller: kernels made for virtual machines, Debian's for one, have no
driver for the SATA controller of q35 (ADR 14). The controller is plugged into no port, as all of
these are for what comes while the guest runs.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from mooring.agent.libvirt.xml_words import child, parse

_ALIAS = "ua-config-drive"
_CONTROLLER = "controller[@type='scsi']"
_SLOT = "0x10"
"""Of the root bus. libvirt fills it from the first slot on, with ports."""


def put(domain: ET.Element, path: str) -> None:
    """Give a definition a config drive, which it has not yet."""
    devices = child(domain, "devices")
    put_controller(devices)
    drive = ET.SubElement(devices, "disk", type="file", device="cdrom")
    ET.SubElement(drive, "driver", name="qemu", type="raw")
    ET.SubElement(drive, "source", file=path)
    ET.SubElement(drive, "target", dev="sda", bus="scsi")
    ET.SubElement(drive, "readonly")
    ET.SubElement(drive, "alias", name=_ALIAS)


def put_controller(devices: ET.Element) -> None:
    """See that there is a controller for what is on scsi."""
    if devices.find(_CONTROLLER) is not None:
        return
    controller = ET.SubElement(devices, "controller", type="scsi", index="0", model="virtio-scsi")
    place = {"domain": "0x0000", "bus": "0x00", "slot": _SLOT, "function": "0x0"}
    ET.SubElement(controller, "address", {"type": "pci", **place})


def drop_controller(devices: ET.Element) -> None:
    """Remove the controller of scsi, unless something is on it."""
    controller = devices.find(_CONTROLLER)
    if controller is not None and devices.find("disk/target[@bus='scsi']") is None:
        devices.remove(controller)


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
    return ET.tostring(domain, encoding="unicode")


def move(domain: ET.Element, path: str) -> None:
    """Let a definition's config drive be another file."""
    for drive in filter(is_drive, domain.findall("devices/disk")):
        child(drive, "source").set("file", path)
