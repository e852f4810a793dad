"""What simulated guests in rescue boot from: a file beside their own, and what their console tells.

A simulated guest reads no disk: the file is as large as it should be, and almost all of it a hole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mooring.agent import files
from mooring.agent.device_letters import first_device
from mooring.agent.device_names import assign_devices, choose_device, name_root, name_swap
from mooring.agent.disk_checks import check_places
from mooring.agent.hypervisor import DiskPlan
from mooring.agent.rescues import BESIDE_DISKS, RescuePlan, no_name
from mooring.agent.world import SimulatedDisk, SimulatedGuest, SimulatedRescue, say, say_disk
from mooring.agent_api.disks import DiskBus, prefix_of
from mooring.agent_api.images import CachedImage
from mooring.agent_api.servers import RescueDisk
from mooring.errors import NoCapacity

FILE = "rescue"


def make_rescue(own: Path, wanted: RescueDisk, image: CachedImage) -> RescuePlan:
    """Make the disk in a guest's directory, and nothing that stood in its place before."""
    own.mkdir(mode=0o711, parents=True, exist_ok=True)
    path = own / FILE
    path.write_bytes(f"rescue from {image.image_id}".encode())
    os.truncate(path, image.virtual_bytes)
    return RescuePlan(
        path=path,
        format="raw",
        image_id=wanted.image_id,
        device=wanted.device,
        bus=wanted.bus,
        is_stable=wanted.is_stable,
    )


def drop_rescue(own: Path) -> None:
    """Remove it; nothing when there is none. Raises Unavailable."""
    with files.removal_told(own):
        (own / FILE).unlink(missing_ok=True)


def name_rescue(
    guest: SimulatedGuest, plan: RescuePlan | None, disks: tuple[DiskPlan, ...]
) -> SimulatedRescue | None:
    """Return what a guest boots from that is to have these disks. Raises NoCapacity."""
    if plan is None:
        return None
    check_places(guest.server_id, [plan.bus, *buses_of(guest, disks)])
    device = first_device(plan.bus)
    if plan.is_stable and plan.bus != "virtio":
        device = BESIDE_DISKS
    elif plan.is_stable:
        own = own_bus(guest)
        root = name_root(disks, own)
        swap = name_swap(disks, guest.bus, root=root) if guest.swap_bytes else ""
        others = assign_devices(disks, own=own, swap=swap)
        free = choose_device("", {*others, root, swap})
        if free is None:
            raise NoCapacity(no_name(guest.server_id))
        device = free
    return SimulatedRescue(
        image_id=plan.image_id,
        device=device,
        kind=plan.device,
        bus=plan.bus,
        size_bytes=plan.path.stat().st_size,
        is_stable=plan.is_stable,
    )


def own_bus(guest: SimulatedGuest) -> DiskBus | None:
    """Return what the root disk that a guest has on its host is on, None without one."""
    return guest.root_bus if guest.image_id else None


def buses_of(guest: SimulatedGuest, disks: Iterable[DiskPlan | SimulatedDisk]) -> list[str]:
    """Return what each thing is on that a guest has: these volumes, its own disks, its drive."""
    own = [guest.root_bus] if guest.image_id else []
    swap = [guest.bus] if guest.swap_bytes else []
    drive = [guest.drive_bus] if guest.has_drive else []
    return [*own, *swap, *drive, *(disk.bus for disk in disks)]


def first_of(guest: SimulatedGuest) -> str:
    """Return the disk of a rescue that comes before a guest's own ones, "" for none."""
    return guest.rescue.device if guest.rescue and not guest.rescue.is_stable else ""


def own_root(guest: SimulatedGuest) -> str:
    """Return the name of the root disk that a guest has on its host."""
    return name_root((), guest.root_bus, first=first_of(guest))


def say_boot(guest: SimulatedGuest) -> None:
    """Let a guest that starts in rescue say from what, as the image of the real one does."""
    if guest.rescue is None:
        return
    say(guest, f"image {guest.rescue.image_id}")
    if guest.rescue.device.startswith(prefix_of("virtio")):
        say_disk(guest, guest.rescue.device, guest.rescue.size_bytes, "")
    else:
        say(guest, f"boots from {guest.rescue.kind} on {guest.rescue.bus}")
