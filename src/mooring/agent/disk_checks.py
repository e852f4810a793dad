"""What no hypervisor here can give to a guest, or take from it, and how that is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.agent.sources import check_usable, shown
from mooring.agent_api.disks import PLACES_BY_BUS
from mooring.errors import Conflict, Invalid, NoCapacity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.agent.hypervisor import DiskPlan
    from mooring.agent_api.disks import DiskBus


def check_disks(*disks: DiskPlan) -> None:
    """Raise Invalid for a disk that no hypervisor here can give to a guest.

    Several guests write to raw bytes only: the metadata of another file would be lost.
    """
    check_usable(*(disk.source for disk in disks))
    for disk in disks:
        if disk.shareable and not disk.read_only and shown(disk.source)[1] != "raw":
            raise Invalid(
                f"Volume {disk.volume_id} is {disk.source}, and several guests (multiattach) can "
                "have raw ones only. The guest was not given it; use a new volume that is made of "
                "it, of the same volume type."
            )
        if disk.read_only and disk.bus == "sata":
            raise Invalid(
                f"Volume {disk.volume_id} may only be read, and a disk on sata is always written "
                "to, too. The guest was not given it; attach it to a server whose disks are on "
                "another bus."
            )


def check_attachment(server_id: str, volume_id: str, has: str, wanted: str) -> None:
    """Raise Conflict when a guest has a volume by another attachment than the one to be plugged."""
    if has != wanted:
        raise Conflict(
            f"Server {server_id} has volume {volume_id} by attachment {has or 'unknown'}; it was "
            f"not plugged anew. Unplug that one first."
        )


def check_hot(server_id: str, volume_id: str, bus: DiskBus) -> None:
    """Raise Conflict for a disk that neither comes to a running guest nor goes from it."""
    if bus == "sata":
        raise Conflict(
            f"Disks on sata neither come nor go while a guest runs: that of server {server_id} "
            f"was left as it is, and volume {volume_id} where it was. Stop the server first."
        )


def check_places(server_id: str, buses: Iterable[str]) -> None:
    """Raise NoCapacity when a guest would have more on one bus than has a place there."""
    every = list(buses)
    for bus, places in PLACES_BY_BUS.items():
        if every.count(bus) > places:
            raise NoCapacity(
                f"The guest of server {server_id} has places for {places} disks on {bus}, its "
                "config drive among them, and all are taken. Nothing was changed; detach one, or "
                "use another bus."
            )
