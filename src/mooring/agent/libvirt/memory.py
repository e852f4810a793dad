"""The memory of guests, saved to files by libvirt and read back. Blocking.

What libvirt saves names the guest's disks as they were then. They are named anew before the guest
goes on: its volumes were connected again meanwhile, and may lie elsewhere.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from mooring.agent.guest_power import check_room, no_standstill, not_in_definition
from mooring.agent.libvirt import (
    copy_starts,
    devices,
    disk_sources,
    domain_xml,
    inactive,
    power,
    sizes,
    states,
)
from mooring.agent.libvirt.domain_xml import DefinedDisk
from mooring.agent.libvirt.swapped import parse_named
from mooring.agent.libvirt.xml_words import child, parse

_ALIVE = frozenset({"running", "paused"})
_KIB = 1 << 10


def pause(domain: Any) -> None:
    """Let a guest stand still. Raises Conflict for one that is off."""
    state = states.state_of(domain)
    if state not in _ALIVE:
        raise no_standstill(domain.UUIDString(), state, "paused")
    # What stands still for its user goes on for nobody else.
    copy_starts.settle(domain)
    if states.state_of(domain) == "running":
        domain.suspend()


def unpause(domain: Any) -> None:
    """Let a guest that stands still run on. Raises Conflict for one that is off."""
    state = states.state_of(domain)
    if state not in _ALIVE:
        raise no_standstill(domain.UUIDString(), state, "unpaused")
    power.start(domain)


def prepare(domain: Any, directory: Path) -> None:
    """See that a guest's memory can be written to a directory.

    Raises Conflict for a guest that is off, NoCapacity.
    """
    state, server_id = states.state_of(domain), domain.UUIDString()
    if state in _ALIVE:
        drop(domain)
        check_room(server_id, domain.maxMemory() * _KIB, _read_free(directory))
        # An emulator that hangs is found out now: it is given much more time to save its memory.
        _await_answer(domain)
    elif state != "suspended":
        raise no_standstill(server_id, state, "suspended")


def save(domain: Any, directory: Path) -> None:
    """Have libvirt write a guest's memory to its directory, and end its emulator."""
    if states.state_of(domain) in _ALIVE:
        inactive.hold(domain)
        domain.managedSave(libvirt.VIR_DOMAIN_SAVE_RUNNING)
    _write_through(directory / f"{domain.name()}.save")


def restore(domain: Any) -> None:
    """Let a guest run on from its saved memory. Raises Conflict when there is none."""
    state = states.state_of(domain)
    if state in _ALIVE:
        # It was let go on before, by an agent that did not come to its end.
        power.start(domain)
        drop(domain)
    elif state == "suspended":
        saved = domain.managedSaveGetXMLDesc(libvirt.VIR_DOMAIN_SAVE_IMAGE_XML_SECURE)
        domain.managedSaveDefineXML(reconnect(saved, devices.read(domain).config.volumes))
        domain.create()
    else:
        raise no_standstill(domain.UUIDString(), state, "resumed")
    sizes.tell(domain)


def drop(domain: Any) -> None:
    """Remove the memory that libvirt saved of a guest, if there is any and none is being saved."""
    if not domain.hasManagedSaveImage(0):
        return
    is_saving = domain.isActive() and domain.jobInfo()[0] != libvirt.VIR_DOMAIN_JOB_NONE
    if not is_saving:
        domain.managedSaveRemove(0)


def reconnect(xml: str, volumes: list[DefinedDisk]) -> str:
    """Return the definition of a guest with its volumes where they are now, all else as it was.

    Raises Conflict for a volume that it is not to have any more: somebody else may by now.
    """
    domain, now = parse(xml), {disk.volume_id: disk for disk in volumes}
    named = [domain_xml.read_disk(one) for one in domain_xml.find_disks(parse_named(xml))]
    if lost := sorted({disk.volume_id for disk in named} - {*now, ""}):
        raise not_in_definition(child(domain, "uuid").text or "", lost)
    for element, known in zip(domain_xml.find_disks(domain), named, strict=True):
        volume = now.get(known.volume_id)
        if volume is None:
            continue
        there = disk_sources.build(volume.source, direct=False)
        element.set("type", there.get("type", ""))
        child(element, "driver").set("type", child(there, "driver").get("type", ""))
        old = child(element, "source")
        element.insert(list(element).index(old), child(there, "source"))
        element.remove(old)
        # The files below are those of the one that is there now.
        for chain in element.findall("backingStore"):
            element.remove(chain)
    return ET.tostring(domain, encoding="unicode")


def _await_answer(domain: Any) -> None:
    """Have a guest's emulator say how big a disk is."""
    live = devices.read(domain).live
    for disk in live.disks[:1] if live else ():
        domain.blockInfo(disk.device.removeprefix("/dev/"))


def _read_free(directory: Path) -> int:
    """Return how many bytes a file in a directory may have, which is made with the first one."""
    there = next(path for path in (directory, *directory.parents) if os.access(path, os.F_OK))
    space = os.statvfs(there)
    return space.f_bavail * space.f_frsize


def _write_through(path: Path) -> None:
    """See that a file is on its disk: from now on there is nothing else of the guest's memory."""
    if not os.access(path, os.R_OK):
        # A daemon keeps its files from an agent that is not root.
        os.sync()
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
