"""Domain XML, written and read in this one place.

A disk says who it is by itself, so that nothing beside it can be out of step: its serial number is
the volume's id, its alias the attachment's, its boot order the boot index.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, cast
from xml.etree import ElementTree as ET

from msgspec import Struct
from msgspec.structs import replace

from mooring.agent.device_letters import first_device
from mooring.agent.device_names import PORTS, assign_devices, name_root, name_swap
from mooring.agent.hypervisor import DiskPlan, GuestPlan
from mooring.agent.libvirt import (
    disk_addresses,
    disk_sources,
    drive_devices,
    network_devices,
    rescue_devices,
    serial_devices,
    share_devices,
)
from mooring.agent.libvirt.rescue_devices import Rescue
from mooring.agent.libvirt.swapped import ATTACHMENT_ALIAS, move, parse_named
from mooring.agent.libvirt.xml_words import (
    GUEST,
    NAMESPACE,
    add_text,
    child,
    parse,
    per_mib,
    printable,
    read_text,
)
from mooring.agent.sources import Source
from mooring.agent_api.disks import DiskBus
from mooring.agent_api.guest_shares import GuestShare
from mooring.agent_api.moves import Arrival

NAME_PREFIX = "mooring-"
_ROOT_ALIAS, _SWAP_ALIAS = "ua-root", "ua-swap"


class Machine(Struct, frozen=True, kw_only=True):
    """What the host lends to every guest."""

    domain_type: Literal["kvm", "qemu"]
    console: Path
    """The file that logs the serial console."""
    drive: Path = Path()
    """The file of the config drive, of a guest that has one."""
    direct: bool = True
    """Whether disk files can be opened past the page cache (not on tmpfs, for one)."""


class DefinedDisk(Struct, frozen=True, kw_only=True):
    """One disk of a definition; the root and the swap disk on the host have no volume."""

    device: str
    source: Source
    volume_id: str = ""
    attachment_id: str = ""
    boot_index: int | None = None
    read_only: bool = False
    shareable: bool = False
    is_root: bool = False
    """Whether it is the root disk on the host."""
    is_swap: bool = False
    """Whether it is the swap disk on the host."""
    bus: DiskBus = "virtio"


class Definition(Struct, frozen=True, kw_only=True):
    """What a domain's XML says of a guest."""

    server_id: str
    name: str
    vcpus: int
    memory_mib: int
    image_id: str
    metadata: dict[str, str]
    disks: list[DefinedDisk]
    shares: list[GuestShare] = []
    has_drive: bool = False
    rescue: Rescue | None = None
    swap_mib: int = 0

    def disk(self, volume_id: str, attachment_id: str = "") -> DefinedDisk | None:
        """Return the disk that is a volume, by any attachment or by the one named, or None."""
        named = (disk for disk in self.disks if disk.volume_id == volume_id)
        return next((disk for disk in named if attachment_id in {"", disk.attachment_id}), None)

    @property
    def volumes(self) -> list[DefinedDisk]:
        """Return the disks that are volumes."""
        return [disk for disk in self.disks if disk.volume_id]

    @property
    def root_device(self) -> str:
        """Return the device that the guest boots from."""
        if self.rescue is not None:
            return self.rescue.device
        order = sorted(
            (disk.boot_index, disk.device) for disk in self.disks if disk.boot_index is not None
        )
        return order[0][1] if order else first_device("virtio")


def domain_name(server_id: str) -> str:
    """Return what libvirt calls a server's domain."""
    return f"{NAME_PREFIX}{server_id}"


def build_domain(plan: GuestPlan, machine: Machine) -> str:
    """Return the XML of a whole guest."""
    domain = ET.Element("domain", type=machine.domain_type)
    add_text(domain, "name", domain_name(plan.server_id))
    add_text(domain, "uuid", plan.server_id)
    add_text(domain, "title", printable(plan.name))
    domain.append(_metadata(plan))
    add_text(domain, "memory", str(plan.memory_mib), unit="MiB")
    add_text(domain, "vcpu", str(plan.vcpus))
    system = ET.SubElement(domain, "os")
    add_text(system, "type", "hvm", arch="x86_64", machine="q35")
    ET.SubElement(system, "bios", useserial="no")
    features = ET.SubElement(domain, "features")
    ET.SubElement(features, "acpi")
    ET.SubElement(features, "apic")
    domain.append(_cpu(machine))
    ET.SubElement(domain, "clock", offset="utc")
    for event, action in (("poweroff", "destroy"), ("reboot", "restart"), ("crash", "destroy")):
        add_text(domain, f"on_{event}", action)
    domain.append(_devices(plan, machine))
    if plan.network == "auto":
        network_devices.put(domain, plan.server_id)
    if plan.has_drive:
        drive_devices.put(domain, str(machine.drive), plan.drive_bus)
    disk_addresses.ready(domain, plan.bus)
    disk_addresses.give_all(domain)
    share_devices.put(domain, plan.shares)
    ET.indent(domain)
    return ET.tostring(domain, encoding="unicode") + "\n"


def build_disk(disk: DiskPlan, device: str, *, direct: bool) -> str:
    """Return the XML of one volume as a disk, for plugging."""
    element = disk_element(disk, device, direct=direct)
    ET.indent(element)
    return ET.tostring(element, encoding="unicode") + "\n"


def disk_element(disk: DiskPlan, device: str, *, direct: bool) -> ET.Element:
    """Return the same, as a part of a definition."""
    return _disk(_defined(disk, device), direct=direct)


def move_disk(xml: str, volume_id: str, path: str, disk_format: str) -> str:
    """Return a definition in which a volume is another file, everything else as it was."""
    domain = parse(xml)
    for element in find_disks(domain):
        if read_disk(element).volume_id == volume_id:
            element.set("type", "file")
            child(element, "driver").set("type", disk_format)
            old = child(element, "source")
            old.attrib.clear()
            old.set("file", path)
            for chain in element.findall("backingStore"):
                element.remove(chain)
    return ET.tostring(domain, encoding="unicode")


def replace_disk(xml: str, volume_id: str, new: DiskPlan, *, direct: bool) -> str:
    """Return a definition in which another volume has the place of one: name, address, order."""
    domain = parse(xml)
    devices = child(domain, "devices")
    for element in find_disks(domain):
        old = read_disk(element)
        if old.volume_id != volume_id:
            continue
        placed = replace(_defined(new, old.device), boot_index=old.boot_index, bus=old.bus)
        made = _disk(placed, direct=direct)
        made.extend(element.findall("address"))
        devices.insert(list(devices).index(element), made)
        devices.remove(element)
    return ET.tostring(domain, encoding="unicode")


def arrive(xml: str, arrival: Arrival) -> str:
    """Return a definition as another host has it: its files, its attachments, its console."""
    domain = parse(xml)
    there = {disk.volume_id: disk for disk in arrival.disks}
    # The guest keeps its disks' serial numbers on its way, also those of swapped volumes.
    named = [read_disk(element) for element in find_disks(parse_named(xml))]
    for element, known in zip(find_disks(domain), named, strict=True):
        disk = there.get(known.volume_id)
        if disk is not None:
            move(domain, element, disk.attachment_id)
        own = arrival.root if known.is_root else arrival.swap if known.is_swap else ""
        if file := own or (disk.path if disk else ""):
            child(element, "source").set("file", file)
            # The layers below are those of the file there, which may lie in another directory.
            for chain in element.findall("backingStore"):
                element.remove(chain)
    if arrival.drive:
        drive_devices.move(domain, arrival.drive)
    serial_devices.arrive(domain, arrival.console, opens=arrival.opens_serial)
    return ET.tostring(domain, encoding="unicode")


def find_root(xml: str) -> DefinedDisk | None:
    """Return the root disk that a guest has on its host, if it has one."""
    return next((disk for disk in find_local(xml) if disk.is_root), None)


def find_local(xml: str) -> list[DefinedDisk]:
    """Return the disks that a guest has on its host: root and swap."""
    disks = (read_disk(element) for element in find_disks(parse_named(xml)))
    return [disk for disk in disks if disk.is_root or disk.is_swap]


def read_cpu(xml: str) -> str:
    """Return the processor of a running guest, as libvirt compares it; empty when it names none."""
    cpu = parse(xml).find("cpu")
    return "" if cpu is None else ET.tostring(cpu, encoding="unicode")


def is_live(xml: str) -> bool:
    """Whether the XML of a domain is that of a running guest: nothing else has a number."""
    return parse(xml).get("id") is not None


def read_domain(xml: str) -> Definition | None:
    """Return what the XML of a domain says; None for one that is not ours."""
    domain = parse_named(xml)
    guest = domain.find(GUEST)
    if guest is None:
        return None
    entries = guest.findall(f"{{{NAMESPACE}}}entry")
    return Definition(
        server_id=read_text(domain, "uuid"),
        name=guest.get("name", ""),
        vcpus=int(read_text(domain, "vcpu")),
        memory_mib=int(read_text(domain, "memory")) // per_mib(child(domain, "memory")),
        image_id=guest.get("image", ""),
        metadata={entry.get("key", ""): entry.text or "" for entry in entries},
        disks=[read_disk(element) for element in find_disks(domain)],
        shares=share_devices.read(domain),
        has_drive=bool(drive_devices.find(domain)),
        rescue=rescue_devices.find(domain),
        swap_mib=int(guest.get("swap", "0")),
    )


def _metadata(plan: GuestPlan) -> ET.Element:
    metadata = ET.Element("metadata")
    guest = ET.SubElement(metadata, f"{{{NAMESPACE}}}guest", name=printable(plan.name))
    if plan.root is not None:
        guest.set("image", plan.root.image_id)
    if plan.swap is not None:
        guest.set("swap", str(plan.swap.size_bytes >> 20))
    if plan.mem_page_size:
        guest.set("pages", printable(plan.mem_page_size))
    for key, value in sorted(plan.metadata.items()):
        entry = ET.SubElement(guest, f"{{{NAMESPACE}}}entry", key=printable(key))
        entry.text = printable(value)
    return metadata


def _cpu(machine: Machine) -> ET.Element:
    if machine.domain_type == "kvm":
        return ET.Element("cpu", mode="host-model", check="partial")
    return ET.Element("cpu", mode="maximum", check="none")


def _devices(plan: GuestPlan, machine: Machine) -> ET.Element:
    devices = ET.Element("devices")
    ET.SubElement(devices, "controller", type="pci", index="0", model="pcie-root")
    for index in range(1, PORTS + 1):
        ET.SubElement(devices, "controller", type="pci", index=str(index), model="pcie-root-port")
    ET.SubElement(devices, "controller", type="usb", model="none")
    for disk in _disks(plan):
        devices.append(_disk(disk, direct=machine.direct))
    serial_devices.put(devices, str(machine.console))
    video = ET.SubElement(devices, "video")
    ET.SubElement(video, "model", type="none")
    ET.SubElement(devices, "memballoon", model="none")
    return devices


def _disks(plan: GuestPlan) -> Iterator[DefinedDisk]:
    own = plan.root.bus if plan.root is not None else None
    root, name = name_root(plan.disks, own), ""
    if plan.root is not None:
        yield DefinedDisk(
            device=root, source=plan.root.source, boot_index=0, is_root=True, bus=plan.root.bus
        )
    if plan.swap is not None:
        name = name_swap(plan.disks, plan.bus, root=root)
        yield DefinedDisk(device=name, source=plan.swap.source, is_swap=True, bus=plan.bus)
    devices = assign_devices(plan.disks, own=own, swap=name)
    for disk, device in zip(plan.disks, devices, strict=True):
        yield _defined(disk, device)


def _defined(disk: DiskPlan, device: str) -> DefinedDisk:
    return DefinedDisk(
        device=device,
        source=disk.source,
        volume_id=disk.volume_id,
        attachment_id=disk.attachment_id,
        boot_index=disk.boot_index,
        read_only=disk.read_only,
        shareable=disk.shareable,
        bus=disk.bus,
    )


def _disk(disk: DefinedDisk, *, direct: bool) -> ET.Element:
    element = disk_sources.build(disk.source, direct=direct)
    ET.SubElement(element, "target", dev=disk.device.removeprefix("/dev/"), bus=disk.bus)
    if disk.volume_id:
        add_text(element, "serial", disk.volume_id)
    if disk.read_only:
        ET.SubElement(element, "readonly")
    if disk.shareable:
        ET.SubElement(element, "shareable")
    own = _SWAP_ALIAS if disk.is_swap else _ROOT_ALIAS
    alias = f"{ATTACHMENT_ALIAS}{disk.attachment_id}" if disk.volume_id else own
    ET.SubElement(element, "alias", name=alias)
    if disk.boot_index is not None:
        ET.SubElement(element, "boot", order=str(disk.boot_index + 1))
    return element


def find_disks(domain: ET.Element) -> list[ET.Element]:
    """Return the disks of a domain, but for its config drive and what it was rescued with."""
    return [element for element in all_disks(domain) if not rescue_devices.is_rescue(element)]


def all_disks(domain: ET.Element) -> list[ET.Element]:
    """Return the disks of a guest, also what it was rescued with, and not its config drive."""
    return [one for one in domain.findall("devices/disk") if not drive_devices.is_drive(one)]


def read_disk(element: ET.Element) -> DefinedDisk:
    """Return what the XML of one disk says."""
    target, boot = child(element, "target"), element.find("boot")
    alias = element.find("alias")
    named = alias.get("name", "") if alias is not None else ""
    is_own = named in {_ROOT_ALIAS, _SWAP_ALIAS}
    return DefinedDisk(
        device=f"/dev/{target.get('dev', '')}",
        source=disk_sources.read(element),
        volume_id="" if is_own else element.findtext("serial", ""),
        attachment_id="" if is_own else named.removeprefix(ATTACHMENT_ALIAS),
        boot_index=None if boot is None else int(boot.get("order", "1")) - 1,
        read_only=element.find("readonly") is not None,
        shareable=element.find("shareable") is not None,
        is_root=named == _ROOT_ALIAS,
        is_swap=named == _SWAP_ALIAS,
        bus=cast("DiskBus", target.get("bus", "virtio")),
    )
