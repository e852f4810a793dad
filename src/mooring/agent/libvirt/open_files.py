"""What a running guest's XML says of the files that its QEMU has open, and of jobs on them."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from msgspec import Struct

from mooring.agent.libvirt.domain_xml import all_disks, find_disks, read_disk
from mooring.agent.libvirt.swapped import parse_named
from mooring.agent.libvirt.xml_words import child, parse

_GUEST_AGENT = "org.qemu.guest_agent.0"


class OpenFile(Struct, frozen=True, kw_only=True):
    """One file of a disk. `index` is what libvirt calls it: `vdb[index]`."""

    path: str
    format: str
    index: int


class Mirror(Struct, frozen=True, kw_only=True):
    """The other file that QEMU copies a disk to, and whether it gets what the guest writes."""

    path: str
    format: str
    is_in_step: bool


def build_overlay(xml: str, volume_id: str, path: str) -> str:
    """Return what libvirt is told to switch a volume of a running guest to a qcow2 file."""
    domain = parse_named(xml)
    snapshot = ET.Element("domainsnapshot")
    disks = ET.SubElement(snapshot, "disks")
    # Also the one of a rescue: libvirt switches what it is not told of.
    for element in all_disks(domain):
        disk = read_disk(element)
        name = disk.device.removeprefix("/dev/")
        if disk.volume_id != volume_id:
            ET.SubElement(disks, "disk", name=name, snapshot="no")
            continue
        switched = ET.SubElement(disks, "disk", name=name, snapshot="external", type="file")
        ET.SubElement(switched, "driver", type="qcow2")
        ET.SubElement(switched, "source", file=path)
    ET.indent(snapshot)
    return ET.tostring(snapshot, encoding="unicode") + "\n"


def read_files(xml: str, volume_id: str) -> list[OpenFile]:
    """Return the files that a running guest's QEMU has open for a volume, from the top down."""
    domain = parse_named(xml)
    for element in find_disks(domain):
        if read_disk(element).volume_id == volume_id:
            return list(_read_files(element))
    return []


def read_mirror(xml: str, volume_id: str) -> Mirror | None:
    """Return the file that a volume of a running guest is copied to, or None."""
    for element in find_disks(parse_named(xml)):
        mirror = element.find("mirror")
        if mirror is None or read_disk(element).volume_id != volume_id:
            continue
        source = mirror.find("source")
        path = "" if source is None else source.get("file") or source.get("dev") or ""
        kind = mirror.find("format")
        disk_format = "" if kind is None else kind.get("type", "")
        return Mirror(path=path, format=disk_format, is_in_step=mirror.get("ready") == "yes")
    return None


def is_mirrored(xml: str, volume_id: str) -> bool:
    """Return whether a volume's job has copied all and waits to be told how to end."""
    mirror = read_mirror(xml, volume_id)
    return mirror is not None and mirror.is_in_step


def is_in_step(xml: str, device: str) -> bool:
    """Return whether the copy of a disk ("vdb") has all of it, and gets what the guest writes."""
    return any(
        element.find("mirror[@ready='yes']") is not None
        for element in find_disks(parse(xml))
        if read_disk(element).device == f"/dev/{device}"
    )


def has_guest_agent(xml: str) -> bool:
    """Return whether a guest's own agent answers, which can hold its file systems still."""
    domain = parse_named(xml)
    return any(
        target.get("name") == _GUEST_AGENT and target.get("state") == "connected"
        for target in domain.findall("devices/channel/target")
    )


def _read_files(disk: ET.Element) -> Iterator[OpenFile]:
    kind, layer = child(disk, "driver").get("type", ""), disk
    while (source := layer.find("source")) is not None:
        path = source.get("file") or source.get("dev") or ""
        index = source.get("index") or layer.get("index") or "0"
        yield OpenFile(path=path, format=kind, index=int(index))
        below = layer.find("backingStore")
        if below is None:
            return
        layer = below
        named = layer.find("format")
        kind = "" if named is None else named.get("type", "")
