"""The USB controller in a domain's XML, which a guest has only if something is, or may come on it.

It has a place of its own on the root bus, as the one of scsi has: ports are for what comes later.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from mooring.agent_api.disks import PLACES_BY_BUS

_CONTROLLER = "controller[@type='usb']"
_SLOT = "0x11"


def put_controller(devices: ET.Element) -> None:
    """Give a guest a controller in the place of none."""
    _replace(devices, "qemu-xhci")


def drop_controller(devices: ET.Element) -> None:
    """Let a guest have none again."""
    _replace(devices, "none")


def _replace(devices: ET.Element, model: str) -> None:
    """Let a definition have one controller, of this model; one that has it stays as it is."""
    known = devices.findall(_CONTROLLER)
    if [one.get("model") for one in known] == [model]:
        return
    for one in known:
        devices.remove(one)
    controller = ET.SubElement(devices, "controller", type="usb", index="0", model=model)
    if model != "none":
        controller.set("ports", str(PLACES_BY_BUS["usb"]))
        place = {"domain": "0x0000", "bus": "0x00", "slot": _SLOT, "function": "0x0"}
        ET.SubElement(controller, "address", {"type": "pci", **place})
