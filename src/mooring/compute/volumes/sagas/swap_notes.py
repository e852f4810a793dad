"""What a swap of two volumes knows between two steps, and what it does to their rows.

The block device of the old volume is the disk of the guest: it gets the new volume when the guest
has. A spare one keeps whichever of the two is not the disk, so that whoever ends the server, or
this operation, finds both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mooring.compute.tables import BlockDevice
from mooring.compute.volumes import devices, disk_places, disks

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session

    from mooring.compute.volumes.disks import Disk


class SwapVolume(Struct, frozen=True, kw_only=True):
    """The notes. Of the old volume: `volume_id`, `attachment_id` (None: it came by the old calls).

    spare_id      the block device that keeps the volume which is not the disk
    known         attachments that the new volume had before, never to be deleted as our own
    made          the new volume's attachment
    detaching     the volume service agreed that the old volume leaves
    grows_to_gib  the size that the guest is told of at the end; 0 where it does not change
    switching     the host was or will be asked to switch: the guest may have the new volume
    switched      the new volume is the server's
    is_presumed   the host was lost in the middle of that
    left          what was left undone although the swap went well
    keeps_id      the volume service migrates the old volume to the new one, which gets its id
    """

    server_id: str
    host: str
    action_id: int
    block_device_id: str
    spare_id: str
    volume_id: str
    new_volume_id: str
    attachment_id: str | None = None
    device_name: str | None = None
    boot_index: int | None = None
    known: list[str] = []
    made: str = ""
    new_size_gib: int = 0
    new_type: str | None = None
    grows_to_gib: int = 0
    detaching: bool = False
    switching: bool = False
    switched: bool = False
    is_presumed: bool = False
    left: str = ""
    keeps_id: bool = False


def old_disk(notes: SwapVolume) -> Disk:
    """Return the volume that leaves."""
    return disks.in_notes(notes)


def new_disk(notes: SwapVolume) -> Disk:
    """Return the volume that comes."""
    old = old_disk(notes)
    return replace(old, volume_id=notes.new_volume_id, attachment_id=notes.made, known=notes.known)


def host_disk(notes: SwapVolume) -> Disk:
    """Return the volume that comes, as host and guest know it: by the id that it has in the end.

    That of a migrated volume lies there, empty, before anybody is asked for it.
    """
    new = new_disk(notes)
    return replace(new, volume_id=notes.volume_id, has_data=True) if notes.keeps_id else new


def keep_spare(tx: Session, notes: SwapVolume, now: datetime) -> None:
    """Write the spare block device down, with the new volume."""
    _add_spare(tx, notes, notes.new_volume_id, "reserving", now)


def exchange(tx: Session, notes: SwapVolume, now: datetime) -> None:
    """Make the new volume the disk and the old one what is to be freed, unless that was done."""
    row = devices.find(tx, notes.block_device_id)
    if row is None or row.volume_id != notes.volume_id:
        return
    if notes.keeps_id and row.attachment_id == notes.made:
        return
    devices.remove(tx, notes.spare_id)
    changed = {"volume_size_gib": notes.new_size_gib, "volume_type": notes.new_type}
    if not notes.keeps_id:
        changed |= {"volume_id": notes.new_volume_id, "source_type": "volume", "source_id": None}
    devices.change(tx, notes.block_device_id, now, **changed)
    here = {"attachment_id": notes.made, "state": "attached"}
    disk_places.change(tx, notes.block_device_id, notes.host, now, **here)
    left_id = notes.new_volume_id if notes.keeps_id else notes.volume_id
    _add_spare(tx, notes, left_id, "released", now)
    disk_places.add(tx, notes.spare_id, notes.host, notes.attachment_id, now)


def _add_spare(tx: Session, notes: SwapVolume, volume_id: str, state: str, now: datetime) -> None:
    row = BlockDevice(
        id=notes.spare_id,
        server_id=notes.server_id,
        state=state,
        source_type="volume",
        destination_type="volume",
        volume_id=volume_id,
        source_id=notes.volume_id if notes.keeps_id else None,
        created_at=now,
        updated_at=now,
    )
    devices.add(tx, row)
