"""What a guest's disks are called: /dev/vda and the letters after it."""

from __future__ import annotations

from mooring.agent.hypervisor import DiskPlan
from mooring.limits import AGENT_DISKS

DEVICE_PREFIX = "/dev/vd"
PORTS = AGENT_DISKS + 2
"""What a guest has is plugged into: one for each disk, one for the network card, one to spare."""


def choose_device(wish: str, taken: frozenset[str] | set[str]) -> str | None:
    """Return the device name for a new disk: the wish when it is free, else the next free letter.

    None when all letters are in use (facts/compute.md 2.7).
    """
    names = [f"{DEVICE_PREFIX}{chr(ord('a') + number)}" for number in range(26)]
    if wish in names and wish not in taken:
        return wish
    return next((name for name in names if name not in taken), None)


def root_device(*, is_second: bool = False) -> str:
    """Return the name of a root disk, which is the second where a rescue disk is the first."""
    return f"{DEVICE_PREFIX}{'b' if is_second else 'a'}"


def name_swap(disks: tuple[DiskPlan, ...], *, is_second: bool = False) -> str:
    """Return the name of a swap disk: the first letter that no other disk is to have."""
    others = {root_device(), root_device(is_second=is_second), *(disk.device for disk in disks)}
    return choose_device("", others) or ""


def assign_devices(
    disks: tuple[DiskPlan, ...], *, has_root: bool, is_second: bool = False, swap: str = ""
) -> list[str]:
    """Return a device name for each disk of a new definition, in order.

    The root disk has its name; without one, the disk with boot index 0 gets it. So has the swap
    disk, if there is one. Wishes are met before free letters are given.
    """
    root = root_device(is_second=is_second)
    boots = [at for at, disk in enumerate(disks) if disk.boot_index == 0 and not has_root][:1]
    given = dict.fromkeys(boots, root)
    taken = {root, root_device(), swap}
    for at in sorted(range(len(disks)), key=lambda at: not disks[at].device):
        if at not in given and (name := choose_device(disks[at].device, taken)):
            given[at] = name
            taken.add(name)
    return [given.get(at, "") for at in range(len(disks))]
