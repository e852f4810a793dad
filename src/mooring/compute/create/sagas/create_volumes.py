"""The volumes of a new server: reserved or made, and exported to its host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.create.sagas.create_notes import (
    CreateServer,
    every,
    find,
    guest_disk,
    with_disk,
)
from mooring.compute.volumes import disk_places, disks, reservations
from mooring.compute.volumes.old_calls import CLOSED, named, refuse_late
from mooring.errors import Conflict, Invalid, MooringError, NotFound, Unavailable
from mooring.saga.define import Together
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.saga.define import Run


async def reserve_existing(notes: CreateServer, item: str, run: Run[Compute]) -> CreateServer:
    """Reserve a volume that the user named, with the user's own rights."""
    disk = find(notes, item)
    try:
        made = await reservations.reserve(run, guest_disk(notes, item))
    except (Conflict, NotFound) as error:
        if is_unavailable(error):
            raise
        raise Invalid(
            f"Block Device Mapping is Invalid: volume {disk.volume_id} cannot be used: "
            f"{error.public}",
            private=error.private,
        ) from error
    return with_disk(notes, item, attachment_id=made)


async def free_existing(notes: CreateServer, item: str, run: Run[Compute]) -> Together | None:
    """Free it again. Once nobody knows of the server, for as long as it takes."""
    try:
        return await free(notes, item, run)
    except MooringError as error:
        if run.answered or is_unavailable(error):
            raise
        raise Unavailable(error.public, private=error.private) from error


def save_reservation(tx: Session, notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Note the attachment: a place at no host yet."""
    attachment_id = named(find(notes, item).attachment_id)
    disk_places.add(tx, item, disk_places.NOWHERE, attachment_id, run.now())


async def reserve_made(notes: CreateServer, item: str, run: Run[Compute]) -> CreateServer:
    """Reserve a volume that was made for this server.

    Raises Conflict for one that only attachments could give it: its type is known from then on.
    """
    disk = find(notes, item)
    if notes.old_calls and disk.multiattach:
        raise Conflict(
            f"Volume {disk.volume_id}, which was made for the server, is multiattach, and "
            f"{CLOSED}. Choose a type of volumes that one server has."
        )
    made = await reservations.reserve(run, guest_disk(notes, item))
    return with_disk(notes, item, attachment_id=made)


def save_attachment(tx: Session, notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Note the attachment: a place at the server's host."""
    attachment_id = named(find(notes, item).attachment_id)
    disk_places.add(tx, item, notes.host, attachment_id, run.now())


async def export_volume(notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Have the volume exported to the server's host, once it has its data."""
    if (disk := find(notes, item)).is_filled:
        await disks.wait_until_ready(run, disk.volume_id, from_image=True)
    await disks.export(run, guest_disk(notes, item))


async def disconnect_host(notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Remove the volume's device from the host, where starting the guest may have made one."""
    disk = guest_disk(notes, item)
    await refuse_late(run, disk)
    await disks.leave(run, disk)


async def uncomplete(notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """See that what told so comes to nothing; the attachment goes with its reservation."""
    await refuse_late(run, guest_disk(notes, item))


async def complete_attachment(notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Tell the volume service that the server has the volume: so before the guest starts (4.7)."""
    await disks.complete(run, guest_disk(notes, item))


async def free(notes: CreateServer, item: str, run: Run[Compute]) -> Together | None:
    """Free a volume that was reserved: at no host. Raises Conflict when it will not go."""
    disk = guest_disk(notes, item)
    if not disk.volume_id:
        return None
    await reservations.free(run, disk)

    def forget(tx: Session) -> None:
        for host in (disk_places.NOWHERE, notes.host):
            disk_places.remove(tx, item, host)

    return Together(forget, with_disk(notes, item, attachment_id=""))


async def hold(notes: CreateServer, run: Run[Compute]) -> CreateServer:
    """Say that the volumes are in use which the host or the volume service would not let go."""
    for item in every(notes):
        disk = guest_disk(notes, item)
        if (disk.attachment_id or disk.reserved) and not await disks.hold(run, disk):
            notes = with_disk(notes, item, attachment_id="")
    return notes
