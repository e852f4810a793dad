"""What simulated guests in rescue boot from: a file beside their own, and what their console tells.

A simulated guest reads no disk: the file is as large as it should be, and almost all of it a hole.
"""

from __future__ import annotations

import os
from pathlib import Path

from mooring.agent import files
from mooring.agent.device_names import (
    DEVICE_PREFIX,
    assign_devices,
    choose_device,
    name_swap,
    root_device,
)
from mooring.agent.hypervisor import DiskPlan
from mooring.agent.rescues import BESIDE_DRIVE, RescuePlan, no_name
from mooring.agent.world import SimulatedGuest, SimulatedRescue, say, say_disk
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
    device = root_device()
    if plan.is_stable:
        has_root = bool(guest.image_id)
        swap = name_swap(disks) if guest.swap_bytes else ""
        others = assign_devices(disks, has_root=has_root, swap=swap)
        free = choose_device("", {*others, root_device(), swap})
        if free is None and plan.bus == "virtio":
            raise NoCapacity(no_name(guest.server_id))
        device = free or ""
    return SimulatedRescue(
        image_id=plan.image_id,
        device=device if plan.bus == "virtio" else BESIDE_DRIVE,
        kind=plan.device,
        bus=plan.bus,
        size_bytes=plan.path.stat().st_size,
        is_stable=plan.is_stable,
    )


def own_root(guest: SimulatedGuest) -> str:
    """Return the name of the root disk that a guest has on its host."""
    return root_device(is_second=guest.rescue is not None and not guest.rescue.is_stable)


def say_boot(guest: SimulatedGuest) -> None:
    """Let a guest that starts in rescue say from what, as the image of the real one does."""
    if guest.rescue is None:
        return
    say(guest, f"image {guest.rescue.image_id}")
    if guest.rescue.device.startswith(DEVICE_PREFIX):
        say_disk(guest, guest.rescue.device, guest.rescue.size_bytes, "")
    else:
        say(guest, f"boots from {guest.rescue.kind} on {guest.rescue.bus}")
