"""Shares in a domain's XML: virtiofs devices, and the shared memory that these need.

Which share a tag is stands beside the devices, in what of the domain is ours. Source:
facts/compute.md 7.5 and facts/distributed_storage.md 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from mooring.agent.device_names import PORTS
from mooring.agent.libvirt.xml_words import GUEST, NAMESPACE, child, parse, printable
from mooring.agent.page_sizes import read_page_size
from mooring.agent.virtiofsd import find_virtiofsd
from mooring.agent_api.guest_shares import GuestShare

_SHARE = f"{{{NAMESPACE}}}share"
_DEVICES = "devices/filesystem"
_OWN_PORTS = "devices/controller[@model='pcie-root-port']"


def put(domain: ET.Element, shares: Sequence[GuestShare]) -> None:
    """Give a definition exactly these shares; memory is shared as long as it has any."""
    guest, devices = child(domain, GUEST), child(domain, "devices")
    for element in domain.findall(_DEVICES):
        devices.remove(element)
    for element in guest.findall(_SHARE):
        guest.remove(element)
    for backing in domain.findall("memoryBacking"):
        domain.remove(backing)
    for share in shares:
        ET.SubElement(guest, _SHARE, {"id": share.share_id, "tag": share.tag})
        devices.append(_device(share))
    if shares:
        domain.append(_shared_memory(guest.get("pages", "")))
    _set_ports(domain, PORTS + len(shares))


def replace(xml: str, shares: Sequence[GuestShare]) -> str:
    """Return a definition with exactly these shares, everything else as it was."""
    domain = parse(xml)
    put(domain, shares)
    return ET.tostring(domain, encoding="unicode")


def read(domain: ET.Element) -> list[GuestShare]:
    """Return the shares of a domain that is ours."""
    ids = {one.get("tag", ""): one.get("id", "") for one in domain.findall(f"{GUEST}/{_SHARE}")}
    return [
        GuestShare(share_id=ids.get(tag, ""), tag=tag, path=path)
        for tag, path in map(_read_device, domain.findall(_DEVICES))
    ]


def _device(share: GuestShare) -> ET.Element:
    # As upstream: files keep the owners that the guest gives them.
    element = ET.Element("filesystem", type="mount", accessmode="passthrough")
    ET.SubElement(element, "driver", type="virtiofs")
    if program := find_virtiofsd():
        ET.SubElement(element, "binary", path=program)
    ET.SubElement(element, "source", dir=share.path)
    ET.SubElement(element, "target", dir=printable(share.tag))
    return element


def _read_device(element: ET.Element) -> tuple[str, str]:
    return child(element, "target").get("dir", ""), child(element, "source").get("dir", "")


def _shared_memory(pages: str) -> ET.Element:
    backing = ET.Element("memoryBacking")
    size_kib = read_page_size(pages)
    if size_kib >= 0:
        huge = ET.SubElement(backing, "hugepages")
        if size_kib:
            ET.SubElement(huge, "page", size=str(size_kib), unit="KiB")
    ET.SubElement(backing, "source", type="memfd")
    ET.SubElement(backing, "access", mode="shared")
    return backing


def _set_ports(domain: ET.Element, wanted: int) -> None:
    """Have so many ports, that shares take none from disks. None goes: what is in one stays."""
    devices, known = child(domain, "devices"), domain.findall(_OWN_PORTS)
    last = list(devices).index(known[-1])
    for index in range(len(known) + 1, wanted + 1):
        port = ET.Element("controller", type="pci", index=str(index), model="pcie-root-port")
        devices.insert(last + index - len(known), port)
