"""Volumes that take the place of others under running guests: a part of every hypervisor.

A copy runs inside the guest's emulator until the new volume has all that the old one has. From then
on both get each thing that the guest writes, before the guest is told that it is written: at any
moment either of them is whole. Then the guest is switched, and writes to the new one alone.
Source: specs 001, facts/compute.md 14.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mooring.agent_api.mirrors import SWITCHED, Mirroring
from mooring.errors import Conflict, Invalid, MooringError, told_also

if TYPE_CHECKING:
    from mooring.agent.hypervisor import DiskPlan
    from mooring.agent_api.disks import GuestDisk


class GuestMirrors(Protocol):
    """A part of `Hypervisor`. `unplug` of either volume ends a copy from one to the other.

    Of the old one, once both are in step, it ends well: the guest goes on with the new one, and
    loses neither its disk nor what it wrote.
    """

    async def mirror_disk(self, server_id: str, volume_id: str, new: DiskPlan) -> None:
        """Begin to copy a volume of a running or paused guest to another one.

        Nothing when that copy is at work. Raises NotFound without guest or disk, Conflict: it is
        off, several guests may write to the disk, something else is done to it, another emulator
        has the new volume, or that one is not as large as the disk, byte by byte.
        """
        ...

    async def mirroring(self, server_id: str, volume_id: str) -> Mirroring:
        """Return how far that copy is. Raises NotFound, Conflict: there is none, or none more."""
        ...

    async def stop_mirror(self, server_id: str, volume_id: str, attachment_id: str) -> None:
        """End the copy to the volume of that attachment; nothing without copy, disk or guest.

        Raises Conflict with the detail `SWITCHED` when the guest has the new volume by now.
        """
        ...

    async def switch_disk(self, server_id: str, volume_id: str, new: DiskPlan) -> GuestDisk:
        """Let the guest have the new volume alone, now and at each start.

        One that has it, or is off and will have it, is left so. Raises Conflict when there is no
        copy in step: then the guest has the old one, now and at each start. Unavailable: ask again.
        """
        ...


def check_sizes(new_id: str, new_bytes: int, wanted_bytes: int) -> None:
    """Raise Invalid for a volume that is too small for the disk which it is to be."""
    if new_bytes < wanted_bytes:
        raise Invalid(
            f"Volume {new_id} has {new_bytes} bytes, and the disk that it is to be {wanted_bytes}. "
            "Nothing was copied; use a larger volume."
        )


def check_equal(new_id: str, new_bytes: int, has_bytes: int) -> None:
    """Raise Conflict for a volume of another size than the disk: QEMU copies to none."""
    if new_bytes != has_bytes:
        raise Conflict(
            f"Volume {new_id} has {new_bytes} bytes, and the disk that it is to be {has_bytes}. "
            "Nothing was copied."
        )


def guest_is_off(server_id: str, volume_id: str) -> Conflict:
    """Return the refusal to copy a volume under a guest that does not run."""
    return Conflict(
        f"The guest of server {server_id} does not run, and volume {volume_id} can be swapped only "
        "while it does. The volume stays attached; start the server first."
    )


def is_shared(server_id: str, volume_id: str) -> Conflict:
    """Return the refusal to copy a volume that others may write to meanwhile."""
    return Conflict(
        f"Volume {volume_id} of server {server_id} may be written to by other guests, too. It was "
        "not swapped and stays attached."
    )


def is_copied(server_id: str, volume_id: str) -> Conflict:
    """Return the refusal to change the size of a disk beside its copy."""
    return Conflict(
        f"Volume {volume_id} of server {server_id} is copied to another one, and was not grown. "
        "Ask again when that is over.",
        busy=True,
    )


def copy_ended(server_id: str, volume_id: str) -> Conflict:
    """Return what became of a copy that is not there any more."""
    return Conflict(
        f"The copy of volume {volume_id} ended before its time; the guest of server {server_id} "
        "keeps that volume. It was shut off meanwhile, or the storage of the new volume failed or "
        "is full: the log of its QEMU says why."
    )


def is_switched(server_id: str, volume_id: str) -> MooringError:
    """Return the refusal to take back what has come true."""
    said = f"The guest of server {server_id} has the volume that took the place of {volume_id}."
    return told_also(Conflict(said), **{SWITCHED: True})
