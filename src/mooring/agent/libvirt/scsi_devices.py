"""The controller of scsi disks in a domain's XML: a virtio-scsi one, at a place of its own.

It is plugged into no port, as all of these are for what comes while the guest runs.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

_CONTROLLER = "controller[@type='scsi']"
_SLOT = "0x10"
"""Of the root bus. libvirt fills it from the first slot on, with ports."""


def put_controller(devices: ET.Element) -> None:
    """See that there is a controller for what is on scsi."""
    if devices.find(_CONTROLLER) is not None:
        return
    controller = ET.SubElement(devices, "controller", type="scsi", index="0", model="virtio-scsi")
    place = {"domain": "0x0000", "bus": "0x00", "slot": _SLOT, "function": "0x0"}
    ET.SubElement(controller, "address", {"type": "pci", **place})


def drop_controller(devices: ET.Element) -> None:
    """Remove it, if it is there."""
    for controller in devices.findall(_CONTROLLER):
        devices.remove(controller)
