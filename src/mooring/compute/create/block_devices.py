"""The disks that a new server asks for: checked, completed and named (facts/compute.md 2.7, 3)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mooring.agent_api.disks import prefix_of
from mooring.compute.volumes import buses
from mooring.errors import Conflict, Forbidden, Invalid
from mooring.limits import AGENT_DISKS

if TYPE_CHECKING:
    from mooring.agent_api.config_drives import DriveBus
    from mooring.agent_api.disks import DiskBus
    from mooring.clients.volume import Volume
    from mooring.compute.tables import Server

MAX_LOCAL_DEVICES = 3
"""Local disks that one server may have (facts/compute.md 3.3)."""
_DEVICE = re.compile(r"^/dev/x{0,1}[a-z]{0,1}d{0,1}([a-z]+)[0-9]*$")
_SOURCES = frozenset({"volume", "image", "snapshot", "blank"})


class NewBlockDevice(Struct, frozen=True, kw_only=True):
    """One item of `block_device_mapping_v2`, as it came (facts/compute.md 3.1)."""

    source_type: str
    destination_type: str | None = None
    uuid: str | None = None
    boot_index: int | None = None
    volume_size_gib: int | None = None
    volume_type: str | None = None
    delete_on_termination: bool = False
    tag: str | None = None
    disk_bus: str | None = None
    device_type: str | None = None
    device_name: str | None = None
    guest_format: str | None = None
    no_device: bool = False


class Wanted(Struct, frozen=True, kw_only=True):
    """What decides about the disks beside the items themselves. Sizes of the flavor."""

    image_id: str
    image_min_disk_gib: int
    disk_gib: int
    ephemeral_gib: int
    swap_mib: int
    disk_bus: DiskBus = "virtio"
    """What disks are on whose items say nothing, and the swap disk."""
    drive_bus: DriveBus | None = None
    """What its config drive is on; None without one."""

    @property
    def has_swap(self) -> bool:
        """Whether the server has a swap disk, which is none of the items."""
        return self.swap_mib > 0


def plan(
    items: Sequence[NewBlockDevice], wanted: Wanted, volumes: Mapping[str, Volume]
) -> list[NewBlockDevice]:
    """Return the disks of a new server, the root first, each with its device name.

    `volumes` holds every volume that an item names. Raises Invalid for what facts/compute.md 3.3
    refuses.
    """
    found = [_complete(item, volumes) for item in items]
    found = _with_root(found, wanted.image_id)
    _check_boot_order(found)
    for item in found:
        _check_item(item, wanted, volumes)
    _check_once(found)
    ordered = sorted(found, key=lambda item: (not is_root(item), item.destination_type == "volume"))
    swap = wanted.disk_bus if wanted.has_swap else None
    beside = [bus for bus in (swap, wanted.drive_bus) if bus is not None]
    buses.check_places([*beside, *(bus_of(item, wanted.disk_bus) for item in ordered)])
    return _name(ordered, wanted.disk_bus, has_swap=wanted.has_swap)


def is_root(item: NewBlockDevice) -> bool:
    """Whether the guest boots from this one."""
    return item.boot_index == 0


def bus_of(item: NewBlockDevice, usual: DiskBus) -> DiskBus:
    """Return what a disk is on, `usual` where its item says nothing."""
    return buses.BUSES.get(item.disk_bus or "", usual)


def check_device_name(name: str) -> None:
    """Raise Invalid unless `name` looks like a device (facts/compute.md 2.3)."""
    if _DEVICE.match(name) is None:
        raise Invalid(f"The supplied device path ({name}) is invalid. Nothing was changed.")


def choose_device_name(
    used: Collection[str], bus: str = "virtio", *, requested: str | None = None
) -> str:
    """Return the name for one more disk: the one asked for, else the next free letter of its bus.

    A requested name gets the prefix of the bus. Raises Conflict when it is in use.
    """
    prefix = prefix_of(bus)
    if requested:
        check_device_name(requested)
        match = _DEVICE.match(requested)
        name = prefix + (match.group(1) if match else "")
        if name in used:
            raise Conflict(
                f"The supplied device path ({requested}) is in use. Nothing was attached; choose "
                "another device or leave it out."
            )
        return name
    count = 0
    while prefix + _letters(count) in used:
        count += 1
    return prefix + _letters(count)


def names_in_use(names: Collection[str | None], server: Server) -> list[str]:
    """Return the names that are taken of a server's disks, where its volumes have these.

    Its swap disk has the first name that none of them has: its host chooses so.
    """
    used = [name for name in names if name]
    return [*used, choose_device_name(used, server.disk_bus)] if server.swap_mib else used


def check_count(present: int, most: int) -> None:
    """Raise Forbidden when a server that has `present` disks may have no more.

    -1 for `most` is no limit beside that of guests.
    """
    if present >= (most := _most(most)):
        raise Forbidden(
            f"The maximum allowed number of disk devices ({most}) to attach to a single instance "
            "has been exceeded. Nothing was attached; detach one first."
        )


def check_total(
    items: Sequence[NewBlockDevice], image_id: str, most: int, *, swap: bool = False
) -> None:
    """Raise Forbidden when a new server would have more disks than a guest may, or than `most`.

    -1 for `most` is no limit beside that of guests. `swap`: one more is that of its flavor.
    """
    total = len(_with_root(list(items), image_id)) + swap
    if total > (most := _most(most)):
        raise Forbidden(
            f"The maximum allowed number of disk devices ({most}) to attach to a single instance "
            f"has been exceeded: it would have {total}, with those that its image and its flavor "
            "name. Nothing was created; ask for fewer."
        )


def _most(most: int) -> int:
    return min(most, AGENT_DISKS) if most >= 0 else AGENT_DISKS


def _letters(count: int) -> str:
    """Return a, b, ... z, aa, ab, ... for 0, 1, ..."""
    text = ""
    count += 1
    while count:
        count, digit = divmod(count - 1, 26)
        text = chr(ord("a") + digit) + text
    return text


def _complete(item: NewBlockDevice, volumes: Mapping[str, Volume]) -> NewBlockDevice:
    if item.source_type not in _SOURCES:
        raise Invalid(f"Block Device Mapping is Invalid: unknown source {item.source_type}.")
    destination = item.destination_type or (
        "volume" if item.source_type in {"volume", "snapshot"} else "local"
    )
    boot_index = item.boot_index if item.boot_index is not None and item.boot_index >= 0 else None
    item = replace(item, destination_type=destination, boot_index=boot_index)
    volume = volumes.get(item.uuid or "") if item.source_type == "volume" else None
    return replace(item, volume_size_gib=volume.size_gib) if volume else item


def _with_root(items: list[NewBlockDevice], image_id: str) -> list[NewBlockDevice]:
    """Add the root disk that imageRef alone stands for, unless an item says it already."""
    if not image_id or any(is_root(item) for item in items):
        return items
    root = NewBlockDevice(
        source_type="image",
        destination_type="local",
        uuid=image_id,
        boot_index=0,
        delete_on_termination=True,
    )
    return [root, *items]


def _check_boot_order(items: Sequence[NewBlockDevice]) -> None:
    if not items:
        raise Invalid(
            "Block Device Mapping is Invalid: neither an image nor a block device was given."
        )
    order = sorted(item.boot_index for item in items if item.boot_index is not None)
    if order != list(range(len(order))) or not order:
        raise Invalid(
            "Block Device Mapping is Invalid: Boot sequence for the instance and image/block "
            "device mapping combination is not valid. Nothing was created; number boot_index "
            "from 0."
        )
    local = sum(1 for item in items if item.destination_type == "local")
    if local > MAX_LOCAL_DEVICES:
        raise Invalid(
            f"Block Device Mapping is Invalid: more than {MAX_LOCAL_DEVICES} local disks."
        )


def _check_item(item: NewBlockDevice, wanted: Wanted, volumes: Mapping[str, Volume]) -> None:
    refusal = (
        _refuse_form(item)
        or _refuse_device(item)
        or (
            _refuse_local(item, wanted)
            if item.destination_type == "local"
            else _refuse_volume(item, wanted, volumes)
        )
    )
    if refusal:
        raise Invalid(f"Block Device Mapping is Invalid: {refusal} Nothing was created.")


def _refuse_form(item: NewBlockDevice) -> str:
    if item.destination_type not in {"local", "volume"}:
        return f"unknown destination {item.destination_type}."
    if item.source_type == "blank" and item.uuid:
        return "a blank disk has no source id."
    if item.source_type != "blank" and not item.uuid:
        return f"a disk from {item.source_type} needs the id of its source."
    if item.volume_type and (item.destination_type == "local" or item.source_type == "volume"):
        return "a volume type can be given only for a volume that is to be made."
    return ""


def _refuse_device(item: NewBlockDevice) -> str:
    if item.disk_bus and item.disk_bus not in buses.BUSES:
        return (
            f"unknown disk bus {item.disk_bus[:64]}; disks are on one of {', '.join(buses.BUSES)}."
        )
    if item.device_type == "lun":
        return "device_type lun would need storage that speaks SCSI to the guest; use disk."
    if item.device_type not in {None, "", "disk"}:
        return f"device_type {item.device_type} is not built; use disk."
    return ""


def _refuse_local(item: NewBlockDevice, wanted: Wanted) -> str:
    if item.source_type in {"volume", "snapshot"}:
        return f"a {item.source_type} cannot become a local disk."
    if item.source_type == "blank":
        return _refuse_blank(item)
    if item.uuid != wanted.image_id or not is_root(item):
        return "a local disk from an image must be the root disk from imageRef."
    if wanted.disk_gib and wanted.image_min_disk_gib > wanted.disk_gib:
        return "the flavor's disk is too small for the image."
    return ""


def _refuse_blank(item: NewBlockDevice) -> str:
    if item.guest_format == "swap":
        return "a swap disk is as the flavor says; choose one with swap, and leave this item out."
    return "ephemeral disks are not built; use a volume (destination_type volume)."


def _refuse_volume(item: NewBlockDevice, wanted: Wanted, volumes: Mapping[str, Volume]) -> str:
    if item.source_type in {"image", "blank"} and not item.volume_size_gib:
        return "a volume that is to be made needs volume_size."
    if item.source_type == "image" and item.uuid == wanted.image_id:
        size = item.volume_size_gib or 0
        if size < wanted.image_min_disk_gib:
            return "the volume is smaller than the image's min_disk."
    if item.source_type == "volume" and is_root(item):
        volume = volumes.get(item.uuid or "")
        if volume is not None and not volume.is_bootable:
            return f"volume {volume.id} is not bootable."
    return ""


def _check_once(items: Sequence[NewBlockDevice]) -> None:
    volumes = [item.uuid for item in items if item.source_type == "volume"]
    if len(volumes) != len(set(volumes)):
        raise Invalid("Block Device Mapping is Invalid: one volume is named twice.")


def _say_bus(item: NewBlockDevice, usual: DiskBus) -> str | None:
    """Return how a disk's row says its bus; of one on the host the server says it, too."""
    if item.destination_type == "local" or (not item.disk_bus and usual == "virtio"):
        return item.disk_bus
    return bus_of(item, usual)


def _name(
    items: Sequence[NewBlockDevice], usual: DiskBus, *, has_swap: bool
) -> list[NewBlockDevice]:
    """Give the disks their names; a swap disk has the one behind what else lies on the host."""
    named: list[NewBlockDevice] = []
    used: set[str] = set()
    for item in items:
        if has_swap and not is_root(item) and item.destination_type == "volume":
            used, has_swap = {*used, choose_device_name(used, usual)}, False
        if item.device_name:
            text = item.device_name
            check_device_name(text if text.startswith("/dev/") else f"/dev/{text}")
        name = choose_device_name(used, bus_of(item, usual))
        used.add(name)
        named.append(replace(item, device_name=name, disk_bus=_say_bus(item, usual)))
    return named
