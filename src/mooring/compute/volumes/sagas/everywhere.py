"""A volume that leaves its server at every host where it is: the one of the server, and others.

For sagas whose notes are those of a disk, with `elsewhere` for the other places. An item is one of
them, by its attachment; `HERE` is the server's host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mooring.compute.volumes import disk_places, disks
from mooring.compute.volumes.disk_places import HERE, NOWHERE, named, pick

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.volumes.disks import Disk


def places(notes: Any) -> list[str]:
    """Return the items: the server's own host first."""
    return [HERE, *named(notes.elsewhere)]


def find(notes: Any, item: str = HERE) -> Disk:
    """Return the volume at the server's host or, with an item, at another one."""
    disk = disks.in_notes(notes)
    if not item:
        return disk
    place = pick(notes.elsewhere, item)
    return replace(disk, host=place.host or None, attachment_id=place.attachment_id)


def forget_place(tx: Session, notes: Any, *where: Any) -> None:
    """Say that a host no longer has the volume."""
    disk_places.remove(tx, notes.block_device_id, find(notes, *where[:-1]).host or NOWHERE)
