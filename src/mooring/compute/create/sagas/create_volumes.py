"""The volumes of a new server: reserved or made, and exported to its host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.clients.volume import NewVolume
from mooring.compute.create.sagas.create_notes import CreateServer, find, guest_disk, with_disk
from mooring.compute.hosts import guests
from mooring.compute.volumes import devices, disk_places, disks
from mooring.errors import Conflict, Invalid, NotFound, Unavailable
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.saga.define import Run


async def reserve_existing(notes: CreateServer, item: str, run: Run[Compute]) -> CreateServer:
    """Reserve a volume that the user named, with the user's own rights."""
    disk = find(notes, item)
    try:
        made = await disks.reserve(run, guest_disk(notes, item))
    except (Conflict, NotFound) as error:
        if is_unavailable(error):
            raise
        raise Invalid(
            f"Block Device Mapping is Invalid: volume {disk.volume_id} cannot be used: "
            f"{error.public}",
            private=error.private,
        ) from error
    return with_disk(notes, item, attachment_id=made)


async def free_existing(notes: CreateServer, item: str, run: Run[Compute]) -> CreateServer | None:
    """Free it again."""
    return await _free(notes, item, run)


def save_reservation(tx: Session, notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Note the attachment: a place at no host yet."""
    disk_places.add(tx, item, disk_places.NOWHERE, find(notes, item).attachment_id, run.now())


async def make_volume(notes: CreateServer, item: str, run: Run[Compute]) -> CreateServer:
    """Start to make a volume in the user's project, or find the one that was started before."""
    disk, volumes = find(notes, item), run.service.volumes
    name = _name(notes, item)
    if guests.may_be_repeated(run):
        mine = await volumes.volumes(run.user, name=name)
        if mine:
            return with_disk(notes, item, volume_id=mine[0].id)
    new = NewVolume(
        size_gib=disk.size_gib,
        name=name,
        image_id=disk.source_id if disk.source == "image" else None,
        volume_type=disk.volume_type,
        availability_zone=disk.zone,
    )
    made = await volumes.create(run.user, new, operation=run.operation)
    return with_disk(notes, item, volume_id=made.id)


async def delete_made_volume(
    notes: CreateServer, item: str, run: Run[Compute]
) -> CreateServer | None:
    """Delete every volume that `make_volume` made."""
    if notes.abandoned and find(notes, item).attachment_id:
        return None
    volumes, remembered = run.service.volumes, find(notes, item).volume_id
    made = await volumes.bury_volumes(run.user, run.operation, name=_name(notes, item), known=())
    for volume_id in sorted({*made, remembered} - {""}):
        try:
            await volumes.delete(None, volume_id, operation=guests.other(run.operation, "delete"))
        except Invalid as error:
            # A volume that is still being made cannot be deleted yet.
            raise Unavailable(error.public, private=error.private) from error
    return None


def save_volume(tx: Session, notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Note the volume in the block device."""
    devices.change(tx, item, run.now(), volume_id=find(notes, item).volume_id)


async def await_volume(notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Rest until the volume has its data."""
    await disks.wait_until_ready(run, find(notes, item).volume_id)


async def reserve_made(notes: CreateServer, item: str, run: Run[Compute]) -> CreateServer:
    """Reserve a volume that was made for this server."""
    made = await disks.reserve(run, guest_disk(notes, item))
    return with_disk(notes, item, attachment_id=made)


async def free_made(notes: CreateServer, item: str, run: Run[Compute]) -> CreateServer | None:
    """Free it again."""
    return await _free(notes, item, run)


def save_attachment(tx: Session, notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Note the attachment: a place at the server's host."""
    disk_places.add(tx, item, notes.host, find(notes, item).attachment_id, run.now())


async def export_volume(notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Have the volume exported to the server's host."""
    await disks.export(run, guest_disk(notes, item))


async def disconnect_host(notes: CreateServer, item: str, run: Run[Compute]) -> CreateServer | None:
    """Remove the volume's device from the host, where starting the guest may have made one."""
    if notes.abandoned:
        return None
    failure = await guests.give_up_late(run, disks.leave(run, guest_disk(notes, item)))
    return replace(notes, abandoned=failure) if failure else None


async def complete_attachment(notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Tell the volume service that the server has the volume: so before the guest starts (4.7)."""
    await disks.complete(run, guest_disk(notes, item))


async def _free(notes: CreateServer, item: str, run: Run[Compute]) -> CreateServer | None:
    disk = guest_disk(notes, item)
    if notes.abandoned:
        if disk.attachment_id:
            await disks.hold(run, disk)
        return None
    if not disk.volume_id:
        return None
    try:
        await disks.free(run, disk)
    except Conflict as error:
        if is_unavailable(error):
            raise
        if not notes.accepted:
            # Nobody would know of the server any more: stay with it for as long as it takes.
            raise Unavailable(error.public, private=error.private) from error
        return replace(notes, abandoned=error.public)
    return with_disk(notes, item, attachment_id="")


def _name(notes: CreateServer, item: str) -> str:
    """Return the name of a volume that is made for a server: no other volume has it."""
    disk = find(notes, item)
    last = disk.device_name.rpartition("/")[2]
    return f"{notes.server_id}-{'blank-vol-' if disk.source == 'blank' else ''}{last}"
