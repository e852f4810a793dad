"""A new server whose host cannot build it is tried on another one (facts/compute.md 4.7).

Everything at the first host is taken back before, and its volumes are freed: they are reserved
anew, as Nova does, by the service, since the user's token may have ended by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.create.sagas.create_notes import (
    CreateServer,
    NewDisk,
    existing,
    find,
    guest_disk,
    with_disk,
)
from mooring.compute.scheduling import tried
from mooring.compute.volumes import disk_places, reservations
from mooring.compute.volumes.old_calls import named
from mooring.errors import Invalid

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.saga.define import Run


def try_elsewhere(notes: CreateServer, run: Run[Compute]) -> CreateServer | None:
    """Return the notes to try another host with, once nothing is left on the one that failed.

    None where another would do no better, none may be taken, or enough were tried. What a host
    calls Invalid, as an image that is not what it claims to be, is so on every host.
    """
    if isinstance(run.error, Invalid):
        return None
    so_far = tried.one_more(notes.tried, run.error, notes.host, notes.wished_host)
    if so_far is None:
        return None
    disks = [_afresh(disk) for disk in notes.disks]
    return replace(notes, host="", zone="", placed=False, tried=so_far, disks=disks)


def _afresh(disk: NewDisk) -> NewDisk:
    return disk if disk.source == "volume" else replace(disk, volume_id="")


def to_reserve(notes: CreateServer) -> list[str]:
    """Return the block devices whose volumes were freed with the host before."""
    return existing(notes) if notes.tried else []


def keep_reserved(tx: Session, notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Go on with what is reserved; whoever turns back from the host frees it."""
    del tx, notes, item, run


async def reserve_again(notes: CreateServer, item: str, run: Run[Compute]) -> CreateServer:
    """Reserve a volume that the server had before. Raises Invalid, Conflict: others have it now."""
    made = await reservations.reserve(run, guest_disk(notes, item), as_user=False)
    return with_disk(notes, item, attachment_id=made)


def save_again(tx: Session, notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Note the attachment: a place at the other host."""
    attachment_id = named(find(notes, item).attachment_id)
    disk_places.add(tx, item, notes.host, attachment_id, run.now())
