"""Volumes that are made for a new server, and deleted when nothing comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.clients.volume import NewVolume, Volume
from mooring.compute.create.sagas.create_notes import (
    CreateServer,
    find,
    with_disk,
)
from mooring.compute.hosts import guests
from mooring.compute.scheduling.reach import may_differ
from mooring.compute.volumes import devices, disks
from mooring.errors import Conflict, Invalid, Unavailable, told_also
from mooring.saga.define import Together, may_be_repeated

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.fence.operation import Operation
    from mooring.saga.define import Run

_SETTLED = frozenset({"available", "in-use", "reserved", "awaiting-transfer", "maintenance"})
"""What a volume may be that is not deleted: it has snapshots, or somebody has it, for any time."""


async def make_volume(notes: CreateServer, item: str, run: Run[Compute]) -> CreateServer:
    """Start to make a volume in the user's project, or find the one that was started before."""
    disk, volumes = find(notes, item), run.service.volumes
    name = _name(notes, item)
    if may_be_repeated(run):
        mine = await _find_made(name, run)
        if mine:
            return with_disk(notes, item, volume_id=mine[0].id, multiattach=mine[0].multiattach)
    new = NewVolume(
        size_gib=disk.size_gib,
        name=name,
        image_id=disk.source_id if disk.source == "image" else None,
        snapshot_id=disk.source_id if disk.source == "snapshot" else None,
        volume_type=disk.volume_type,
        availability_zone=disk.zone,
    )
    made = await volumes.create(run.user, new, host=notes.host, operation=run.operation)
    # Its type decides that, which the volume service chooses where nobody named one.
    return with_disk(notes, item, volume_id=made.id, multiattach=made.multiattach)


async def _find_made(name: str, run: Run[Compute]) -> list[Volume]:
    """Return the volumes of a name, but those that were for the host before and go, or stay."""
    found = await run.service.volumes.volumes(run.user, name=name)
    return [volume for volume in found if not volume.status.endswith("deleting")]


async def delete_made_volume(notes: CreateServer, item: str, run: Run[Compute]) -> Together:
    """Delete every volume that `make_volume` made. Raises Invalid when others need one."""
    await delete_made(notes, item, run, run.operation)
    return Together(lambda tx: _forget_volume(tx, item, run))


def _forget_volume(tx: Session, item: str, run: Run[Compute]) -> None:
    devices.change(tx, item, run.now(), volume_id=None, multiattach=False)


async def delete_made(notes: CreateServer, item: str, run: Run[Compute], making: Operation) -> None:
    """Delete what was made in a step, and see that it makes no more; Invalid as above."""
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
    """Note the volume in the block device, and whether other servers may have it, too."""
    disk = find(notes, item)
    noted = {"volume_id": disk.volume_id, "multiattach": disk.multiattach}
    devices.change(tx, item, run.now(), **noted)


async def await_volume(notes: CreateServer, item: str, run: Run[Compute]) -> None:
    """Rest until the volume has its data.

    Raises Conflict: it is in error; of the host, where another one may have it in another pool.
    """
    disk, volumes = find(notes, item), run.service.volumes
    try:
        await disks.wait_until_ready(run, disk.volume_id, is_made=True)
    except Conflict as error:
        if disk.beside or not await may_differ(volumes):
            raise
        raise told_also(error, **{guests.BY_HOST: notes.host}) from error


def _name(notes: CreateServer, item: str) -> str:
    """Return the name of a volume that is made for a server: no other volume has it."""
    disk = find(notes, item)
    last = disk.device_name.rpartition("/")[2]
    return f"{notes.server_id}-{'blank-vol-' if disk.source == 'blank' else ''}{last}"
