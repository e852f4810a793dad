"""Guests in rescue: the part of a hypervisor that lets them boot from another disk than their own.

The disk is made from a cached image, is as large as that, and lies beside the guest's own files. It
goes with the guest, and as soon as the guest is to start from its own disks again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from mooring.agent.sources import FileSource, Source
from mooring.errors import Conflict

if TYPE_CHECKING:
    from mooring.agent.hypervisor import DiskPlan
    from mooring.agent_api.disks import DiskBus
    from mooring.agent_api.images import CachedImage
    from mooring.agent_api.servers import RescueDevice, RescueDisk

BESIDE_DISKS = "/dev/sdab"
"""What the disk of a rescue is called on a bus other than virtio, where the guest's own disks keep
their names: behind all letters that these may have, and behind the config drive."""


class RescuePlan(Struct, frozen=True, kw_only=True):
    """The disk that a guest in rescue boots from; the words are those of `RescueDisk`."""

    path: Path
    format: str
    image_id: str
    device: RescueDevice
    bus: DiskBus
    is_stable: bool

    @property
    def source(self) -> Source:
        """The same as a source of a disk."""
        return FileSource(str(self.path), self.format)


class GuestRescue(Protocol):
    """A part of `Hypervisor`."""

    async def make_rescue(
        self,
        server_id: str,
        wanted: RescueDisk,
        image: CachedImage,
        source: Path,
        operation_key: str,
    ) -> RescuePlan:
        """Make the disk of a rescue from a cached image's file, in the place of any before it.

        An emulator that has the former one open keeps it. Raises NoCapacity.
        """
        ...

    async def redefine_start(
        self, server_id: str, disks: tuple[DiskPlan, ...], rescue: RescuePlan | None
    ) -> None:
        """Give the definition exactly these volumes, and what to boot from instead of its own.

        None lets it boot from its own disks again, and removes what it was rescued with. The guest
        is off. Raises NotFound, NoCapacity: there is no name left for the disk.
        """
        ...


def no_name(server_id: str) -> str:
    """Return why a rescue disk has no name in a guest."""
    return (
        f"The guest of server {server_id} has disks at all letters, and none is left for a rescue "
        "disk. Use an image whose hw_rescue_bus is another one than virtio."
    )


def check_own_disks(server_id: str, rescue_image_id: str) -> None:
    """Raise Conflict for a guest that runs from a rescue disk, which no other host has."""
    if rescue_image_id:
        raise Conflict(
            f"The guest of server {server_id} runs from a disk that it was rescued with, and stays "
            "where it is. Reboot the server hard: then it runs from its own."
        )
