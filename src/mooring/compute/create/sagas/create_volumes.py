"""The volumes of a new server: reserved or made, and exported to its host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.clients.volume import NewVolume, Volume
from mooring.compute.create.sagas.create_notes import (
    CreateServer,
    NewDisk,
    every,
    find,
    guest_disk,
    to_make,
    with_disk,
)
from mooring.compute.hosts import guests
from mooring.compute.scheduling.reach import may_differ
from mooring.compute.volumes import devices, disk_places, disks, reservations
from mooring.compute.volumes.old_calls import named, refuse_late
from mooring.errors import Conflict, Invalid, MooringError, NotFound, Unavailable, told_also
from mooring.saga.define import Together, may_be_repeated
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.fence.operation import Operation
    from mooring.saga.define import Run

_SETTLED = frozenset({"available", "in-use"})
"""What a volume may be that is not deleted because it has snapshots, or another server has it."""


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


async def make_volume(notes: CreateServer, item: str, run: Run[Compute]) -> CreateServer:
    """Start to make a volume in the user's project, or find the one that was started before."""
    disk, volumes = find(notes, item), run.service.volumes
    name = _name(notes, item)
    if may_be_repeated(run):
        mine = await _find_made(name, run)
        if mine:
            return with_disk(notes, item, volume_id=mine[0].id)
    new = NewVolume(
        size_gib=disk.size_gib,
        name=name,
        image_id=disk.source_id if disk.source == "image" else None,
        snapshot_id=disk.source_id if disk.source == "snapshot" else None,
        volume_type=disk.volume_type,
        availability_zone=disk.zone,
    )
    made = await volumes.create(run.user, new, host=notes.host, operation=run.operation)
    return with_disk(notes, item, volume_id=made.id)


async def _find_made(name: str, run: Run[Compute]) -> list[Volume]:
    """Return the volumes of a name, but those that were for the host before and go, or stay."""
    found = await run.service.volumes.volumes(run.user, name=name)
    return [volume for volume in found if not volume.status.endswith("deleting")]


async def delete_made_volume(notes: CreateServer, item: str, run: Run[Compute]) -> Together:
    """Delete every volume that `make_volume` made. Raises Invalid when others need one."""
    await _delete_made(notes, item, run, run.operation)
    return Together(lambda tx: _forget_volume(tx, item, run))


def _forget_volume(tx: Session, item: str, run: Run[Compute]) -> None:
    devices.change(tx, item, run.now(), volume_id=None)


async def _delete_made(
    notes: CreateServer, item: str, run: Run[Compute], making: Operation
) -> None:
    volumes, remembered = run.service.volumes, find(notes, item).volume_id
    made = await volumes.bury_volumes(run.user, making, name=_name(notes, item), known=())
    deletion = guests.other(making, "delete")
    for volume_id in sorted({*made, remembered} - {""}):
        try:
            await volumes.delete(None, volume_id, operation=deletion)
        except Invalid as error:
            volume = await volumes.show(None, volume_id)
            if volume.status not in _SETTLED:
                # A volume that is still being made cannot be deleted yet.
                raise Unavailable(error.public, private=error.private) from error
            # It may have been made between the two: what is refused now is refused for good.
            await volumes.delete(None, volume_id, operation=deletion)


def save_volume(tx: Session, notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Note the volume in the block device."""
    devices.change(tx, item, run.now(), volume_id=find(notes, item).volume_id)


async def await_volume(notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Rest until the volume has its data.

    Raises Conflict: it is in error; of the host, where another one may have it in another pool.
    """
    disk, volumes = find(notes, item), run.service.volumes
    try:
        await disks.wait_until_ready(run, disk.volume_id)
    except Conflict as error:
        if disk.beside or not await may_differ(volumes):
            raise
        raise told_also(error, **{guests.BY_HOST: notes.host}) from error


async def reserve_made(notes: CreateServer, item: str, run: Run[Compute]) -> CreateServer:
    """Reserve a volume that was made for this server."""
    made = await reservations.reserve(run, guest_disk(notes, item))
    return with_disk(notes, item, attachment_id=made)


def save_attachment(tx: Session, notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Note the attachment: a place at the server's host."""
    attachment_id = named(find(notes, item).attachment_id)
    disk_places.add(tx, item, notes.host, attachment_id, run.now())


async def export_volume(notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Have the volume exported to the server's host."""
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


async def delete_unheld(notes: CreateServer, run: Run[Compute]) -> None:
    """Delete the volumes that were made and that nobody holds; one with snapshots is kept."""
    for item in to_make(notes):
        if not find(notes, item).attachment_id:
            await _pay(_delete_made(notes, item, run, _asked_in(run, "make_volume", item)))


async def end_unanswered(notes: CreateServer, run: Run[Compute]) -> None:
    """End what a deletion of the server does not know of, or could not delete yet.

    What was asked for and never answered, or answered too late to be noted, goes: late requests
    come to nothing from now on. So does a volume that was to go with its server, once it is made.
    """
    for item in every(notes):
        await _pay(_end_unanswered(notes, item, run))


async def _pay(ending: Awaitable[None]) -> None:
    """Await an end; what is refused for good somebody has in hand who came later, or needs."""
    try:
        await ending
    except MooringError as error:
        if is_unavailable(error):
            raise


async def _end_unanswered(notes: CreateServer, item: str, run: Run[Compute]) -> None:
    disk = find(notes, item)
    if disk.volume_id:
        reserving = _reserving(run, disk, is_again=bool(notes.tried))
        await reservations.free_unnoted(run, guest_disk(notes, item), reserving)
    if disk.source != "volume" and (disk.delete_too or not disk.volume_id):
        await _delete_made(notes, item, run, _asked_in(run, "make_volume", item))


def _reserving(run: Run[Compute], disk: NewDisk, *, is_again: bool) -> Operation:
    existing = "reserve_again" if is_again else "reserve_existing"
    step = existing if disk.source == "volume" else "reserve_made"
    return _asked_in(run, step, disk.block_device_id)


def _asked_in(run: Run[Compute], step: str, item: str) -> Operation:
    return run.operation.of_step(f"{step}:{item}")


def _name(notes: CreateServer, item: str) -> str:
    """Return the name of a volume that is made for a server: no other volume has it."""
    disk = find(notes, item)
    last = disk.device_name.rpartition("/")[2]
    return f"{notes.server_id}-{'blank-vol-' if disk.source == 'blank' else ''}{last}"
