"""What a guest's disks are called: letters by bus, the root disk's the first."""

from __future__ import annotations

from string import ascii_lowercase
from typing import TYPE_CHECKING

from mooring.agent.device_letters import first_device
from mooring.agent_api.disks import prefix_of
from mooring.errors import NoCapacity
from mooring.limits import AGENT_DISKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.agent.hypervisor import DiskPlan
    from mooring.agent_api.disks import DiskBus

PORTS = AGENT_DISKS + 2
"""What a guest has is plugged into: one for each disk, one for the network card, one to spare."""


def choose_device(
    wish: str, taken: frozenset[str] | set[str], bus: DiskBus = "virtio"
) -> str | None:
    """Return the device name for a new disk: the wish when it is free, else the next free letter.

    None when all letters are in use (facts/compute.md 2.7).
    """
    names = [prefix_of(bus) + letter for letter in ascii_lowercase]
    if wish in names and wish not in taken:
        return wish
    return next((name for name in names if name not in taken), None)


def name_root(disks: Sequence[DiskPlan], own: DiskBus | None, *, first: str = "") -> str:
    """Return the name of a root disk: the first of its bus, the second behind a disk of that name.

    It is on the host, on the bus `own`, or the volume with boot index 0; "" without either. `first`
    is the disk of a rescue before which no other one comes, "" for none.
    """
    boots = next((disk for disk in disks if disk.boot_index == 0), None)
    bus = boots.bus if own is None and boots is not None else own
    return first_device(bus, is_second=first == first_device(bus)) if bus else ""


def name_swap(
    disks: Sequence[DiskPlan], bus: DiskBus = "virtio", *, root: str = "", first: str = ""
) -> str:
    """Return the name of a swap disk: the first letter that no other disk is to have.

    Raises NoCapacity where there is none.
    """
    others = {root, first, *(disk.device for disk in disks)}
    if (name := choose_device("", others, bus)) is None:
        raise _no_letter()
    return name


def assign_devices(
    disks: Sequence[DiskPlan], *, own: DiskBus | None, first: str = "", swap: str = ""
) -> list[str]:
    """Return a device name for each disk of a new definition, in order.

    The root disk has its name (`name_root`), so has the swap disk, if there is one. Wishes are met
    before free letters are given. Raises NoCapacity where there are too few letters.
    """
    root = name_root(disks, own, first=first)
    boots = [at for at, disk in enumerate(disks) if disk.boot_index == 0 and own is None][:1]
    given = dict.fromkeys(boots, root)
    taken = {root, first, swap}
    for at in sorted(range(len(disks)), key=lambda at: not disks[at].device):
        if at not in given and (name := choose_device(disks[at].device, taken, disks[at].bus)):
            given[at] = name
            taken.add(name)
    if len(given) < len(disks):
        raise _no_letter()
    return [given[at] for at in range(len(disks))]


def _no_letter() -> NoCapacity:
    return NoCapacity(
        "The guest would have more disks than there are letters, of which one is that of the disk "
        "that it is rescued with. Detach one, or use an image with another hw_rescue_bus."
    )
