"""Simulated guests that stand still while a copy of a disk begins, as libvirt's do.

That a guest stands still for this is kept with it: whoever comes after an agent that died meanwhile
ends a copy that has not begun, and lets the guest go on (`agent/libvirt/copy_starts.py`).
"""

from __future__ import annotations

from mooring.agent.world import SimulatedDisk, SimulatedGuest, SimulatedMirror, World
from mooring.probe import Passing


def begin(
    world: World,
    guest: SimulatedGuest,
    disk: SimulatedDisk,
    mirror: SimulatedMirror,
    passing: Passing,
) -> None:
    """Start the copy of a disk; a guest that runs stands still for that long."""
    try:
        if guest.state == "running":
            guest.state, guest.stands_for_copy = "paused", True
            world.save(guest)
        passing("standing")
        disk.mirror = mirror
        world.save(guest)
        passing("started")
        mirror.begun = True
    finally:
        settle(world, guest)


def settle(world: World, guest: SimulatedGuest) -> None:
    """End copies that have not begun, and let a guest go on that stands still for one."""
    for disk in guest.disks:
        if disk.mirror is not None and not disk.mirror.begun:
            disk.mirror = None
    if guest.stands_for_copy:
        guest.state, guest.stands_for_copy = "running", False
    world.save(guest)
