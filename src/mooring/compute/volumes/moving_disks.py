"""A volume of a server that leaves one place for another: for moves, shelving and unshelving."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mooring.agent_api.disks import DiskBus
from mooring.compute.volumes import buses
from mooring.compute.volumes.disks import Disk
from mooring.compute.volumes.old_calls import BY_OLD_CALLS, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.compute.tables import BlockDevice
    from mooring.compute.volumes.disk_places import Place


class MovingDisk(Struct, frozen=True, kw_only=True):
    """A volume that goes along, as the notes of a saga have it.

    attachment_id  of the place that the server leaves, or `BY_OLD_CALLS`
    made           of the one that it goes to, "" before there is any; `BY_OLD_CALLS` where a server
                   goes back to such a place
    """

    block_device_id: str
    volume_id: str
    attachment_id: str
    device_name: str | None = None
    boot_index: int | None = None
    multiattach: bool = False
    made: str = ""
    bus: DiskBus = "virtio"

    def named(self, device_name: str) -> MovingDisk:
        """Return the same with a name in the guest."""
        return replace(self, device_name=device_name)

    def at(
        self, server_id: str, host: str | None, attachment_id: str, known: Sequence[str]
    ) -> Disk:
        """Return the volume at one of its places, None for no host.

        `known`: attachments that are never to be deleted as the saga's own.
        """
        return Disk(
            server_id=server_id,
            volume_id=self.volume_id,
            host=host,
            attachment_id=named(attachment_id),
            device_name=self.device_name,
            boot_index=self.boot_index,
            multiattach=self.multiattach,
            known=list(known),
            bus=self.bus,
        )


def moving(row: BlockDevice) -> MovingDisk:
    """Return a server's volume as one that goes along."""
    return MovingDisk(
        block_device_id=row.id,
        volume_id=row.volume_id or "",
        attachment_id=row.attachment_id or BY_OLD_CALLS,
        device_name=row.device_name,
        boot_index=row.boot_index,
        multiattach=row.multiattach,
        bus=buses.of_row(row),
    )


def of_place(place: Place | None) -> str:
    """Return how notes have the attachment of a place, "" for no place."""
    return "" if place is None else place.attachment_id or BY_OLD_CALLS
