"""Disks of running guests whose volume was swapped: what they are called from then on.

A running guest keeps the serial number and the alias of a disk for as long as it runs, whatever
file it writes to. So its own XML remembers beside them which volume a disk is to be, or is: the
definition that the next start uses has the new serial number and alias, and needs no note.

    <disk alias="ua-OLD" volume="..." attachment="..." file="..."/>

`file` is there as long as the disk may be on either volume: it is the new one once QEMU has that
file open, and till then what the disk was before. A note names its disk by the alias, which is an
attachment's and no other disk's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree as ET

import libvirt
from msgspec import Struct
from msgspec.structs import replace

from mooring.agent.libvirt.xml_words import child, parse
from mooring.errors import NotFound

ATTACHMENT_ALIAS = "ua-"
_SWAPS = "urn:mooring:swaps:1"
_KEY = "swaps"
_LIVE = int(libvirt.VIR_DOMAIN_AFFECT_LIVE)

ET.register_namespace(_KEY, _SWAPS)


class Swap(Struct, frozen=True, kw_only=True):
    """What a disk of a running guest is, or is to be: then it has the `file` of the new volume."""

    alias: str
    volume_id: str
    attachment_id: str
    file: str = ""


def parse_named(xml: str) -> ET.Element:
    """Return the XML of a domain in which each disk has the name of the volume that it is."""
    domain = parse(xml)
    swaps = _read(domain)
    for disk in domain.findall("devices/disk") if swaps else ():
        alias, file = _alias_of(disk), _file_of(disk)
        for swap in sorted(swaps, key=lambda one: bool(one.file)):
            if swap.alias == alias and swap.file in {"", file}:
                child(disk, "serial").text = swap.volume_id
                child(disk, "alias").set("name", f"{ATTACHMENT_ALIAS}{swap.attachment_id}")
    return domain


def find_pending(xml: str, device: str) -> Swap | None:
    """Return what a disk ("vdb") is to be, or is already without being settled."""
    domain = parse(xml)
    alias = _find_alias(domain, device)
    return next((one for one in _read(domain) if one.alias == alias and one.file), None)


def begin(domain: Any, device: str, swap: Swap) -> None:
    """Remember which volume a disk is once QEMU has its file open; the alias is filled in.

    Raises NotFound without the disk.
    """
    known = parse(domain.XMLDesc(0))
    if (alias := _find_alias(known, device)) is None:
        raise NotFound(
            f"The guest of server {domain.UUIDString()} has let go of its disk {device}; nothing "
            f"of it was copied to volume {swap.volume_id}. See which volumes the server has."
        )
    swap = replace(swap, alias=alias)
    _write(domain, [*_without_pending(_read(known), swap.alias), swap])


def settle(domain: Any, volume_id: str) -> None:
    """Remember that a disk is this volume from now on, whatever files it gets later."""
    swaps = _read(parse(domain.XMLDesc(0)))
    for swap in swaps:
        if swap.file and swap.volume_id == volume_id:
            left = [one for one in swaps if one.alias != swap.alias]
            _write(domain, [*left, replace(swap, file="")])
            return


def forget(domain: Any, device: str) -> None:
    """Remember no more what a disk was to be: its copy has ended, and it is what it was."""
    known = parse(domain.XMLDesc(0))
    _write(domain, _without_pending(_read(known), _find_alias(known, device)))


def prune(domain: Any) -> None:
    """Remember nothing of disks that a running guest has let go of."""
    if not domain.isActive():
        return
    known = parse(domain.XMLDesc(0))
    there, swaps = {_alias_of(disk) for disk in known.findall("devices/disk")}, _read(known)
    left = [swap for swap in swaps if swap.alias in there]
    if left != swaps:
        _write(domain, left)


def move(domain: ET.Element, disk: ET.Element, attachment_id: str) -> None:
    """Let a disk, in XML for another host, be there by another attachment."""
    alias, wanted = child(disk, "alias"), f"{ATTACHMENT_ALIAS}{attachment_id}"
    for note in _notes(domain):
        if note.get("alias") == alias.get("name"):
            note.attrib.update(alias=wanted, attachment=attachment_id)
    alias.set("name", wanted)


def _without_pending(swaps: Iterable[Swap], alias: str | None) -> list[Swap]:
    return [one for one in swaps if one.alias != alias or not one.file]


def _read(domain: ET.Element) -> list[Swap]:
    return [
        Swap(
            alias=note.get("alias", ""),
            volume_id=note.get("volume", ""),
            attachment_id=note.get("attachment", ""),
            file=note.get("file", ""),
        )
        for note in _notes(domain)
    ]


def _notes(domain: ET.Element) -> list[ET.Element]:
    swaps = domain.find(f"metadata/{{{_SWAPS}}}{_KEY}")
    return [] if swaps is None else list(swaps)


def _write(domain: Any, swaps: Iterable[Swap]) -> None:
    root = ET.Element(_KEY)
    for swap in swaps:
        names = {"alias": swap.alias, "volume": swap.volume_id, "attachment": swap.attachment_id}
        ET.SubElement(root, "disk", names | ({"file": swap.file} if swap.file else {}))
    written = ET.tostring(root, encoding="unicode") if len(root) else None
    kind = libvirt.VIR_DOMAIN_METADATA_ELEMENT
    domain.setMetadata(kind, written, _KEY, _SWAPS, _LIVE)


def _find_alias(domain: ET.Element, device: str) -> str | None:
    """Return the alias of a disk, None of one that the guest has let go of."""
    disks = domain.findall("devices/disk")
    named = (_alias_of(disk) for disk in disks if child(disk, "target").get("dev") == device)
    return next(named, None)


def _alias_of(disk: ET.Element) -> str:
    alias = disk.find("alias")
    return "" if alias is None else alias.get("name", "")


def _file_of(disk: ET.Element) -> str:
    source = disk.find("source")
    return "" if source is None else source.get("file") or source.get("dev") or ""
