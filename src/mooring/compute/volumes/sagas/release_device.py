"""Go on freeing a volume that a host or the volume service did not let go of (specs 001).

The server is in ERROR meanwhile and gets its former state back at the end. Nothing ends this saga
but success or the deletion of its server; a hard reboot, or `mooring operations retry`, makes it
try at once. Once the guest is known to have let go, an administrator's abort goes on without a host
that keeps the connection, or a storage that keeps the export.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mooring.compute.servers import states
from mooring.compute.tables import Server
from mooring.compute.volumes import devices, disk_places, disks
from mooring.compute.volumes.disk_places import Place
from mooring.compute.volumes.sagas import everywhere
from mooring.errors import MooringError
from mooring.fence.rules import is_fenced
from mooring.saga.define import Each, Run, Saga, Step, exclusive
from mooring.saga.ownership import as_of_now

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.fence.operation import Operation


class ReleaseDevice(Struct, frozen=True, kw_only=True):
    """The notes.

    attachment_id  None for a volume that came by the old calls
    elsewhere      where the volume is besides `host`
    is_copy        the guest may have the volume by another attachment, too, which it keeps
    """

    server_id: str
    volume_id: str
    block_device_id: str
    host: str | None
    attachment_id: str | None
    elsewhere: list[Place] = []
    is_copy: bool = False


def say_until_taken(volume: str, host: str | None) -> str:
    """Return what is told of a server that is in ERROR until a volume is taken from it."""
    hurry_up = "; a hard reboot tries at once" if host else ""
    return f"is in ERROR until {volume} is taken from it, which goes on by itself{hurry_up}."


def begin_release(tx: Session, run: Run[Compute], block_device_id: str) -> None:
    """Put the server into ERROR and start to free the device; nothing when its row is gone."""
    row = devices.find(tx, block_device_id)
    if row is None or not row.volume_id:
        return
    now, server = run.now(), tx.get_one(Server, row.server_id)
    devices.change(tx, block_device_id, now, state="released")
    states.break_until_released(tx, row.server_id, now)
    place, others = disk_places.split(tx, block_device_id, server.host)
    notes = ReleaseDevice(
        server_id=row.server_id,
        volume_id=devices.known_as(row),
        is_copy=devices.is_copy(row),
        block_device_id=block_device_id,
        host=place.host or None,
        attachment_id=place.attachment_id,
        elsewhere=others,
    )
    run.service.sagas.start(tx, RELEASE_DEVICE, notes)


def release_left(tx: Session, run: Run[Compute], server_id: str, *, everything: bool) -> None:
    """Go on freeing what operations that another one absorbed began to take or to free.

    With `everything` each volume of the server goes, also one that nobody was at work on.
    """
    for row in devices.of_server(tx, server_id):
        is_left = everything or row.state != "attached"
        if row.volume_id and is_left and not run.service.sagas.holders(tx, lock_of(row.id)):
            begin_release(tx, run, row.id)


def lock_of(block_device_id: str) -> str:
    """Return the key that the release of a block device holds."""
    return f"release:{block_device_id}"


def hurry(tx: Session, compute: Compute, server_id: str) -> None:
    """Make every release for a server try at once."""
    for row in devices.of_server(tx, server_id, state="released"):
        for saga_id in compute.sagas.holders(tx, lock_of(row.id)):
            compute.sagas.retry(tx, saga_id)


def give_back(tx: Session, notes: ReleaseDevice, run: Run[Compute]) -> None:
    """Forget the device and, with the last one, give the server the state it had before."""
    devices.remove(tx, notes.block_device_id)
    if not devices.of_server(tx, notes.server_id, state="released"):
        states.give_back(tx, notes.server_id, run.now())


async def unplug_disk(notes: ReleaseDevice, run: Run[Compute]) -> None:
    """Take the volume from the guest; of one that it has by two attachments, this one alone.

    Somebody may have taken the volume itself since, as nothing keeps a detach from that: then the
    guest has none, and the host still lets go of this attachment.
    """
    disk = everywhere.find(notes)
    try:
        await (disks.take(run, disk) if notes.is_copy else disks.unplug(run, disk))
    except MooringError as error:
        if not (notes.is_copy and is_fenced(error)):
            raise


async def end_attachment(notes: ReleaseDevice, *where: Any) -> None:
    """End the export, unless the deletion of the server has: it may not have known of this.

    One that tried that in vain has ended, and left the device behind: then this is asked for anew.
    """
    run: Run[Compute] = where[-1]
    disk = everywhere.find(notes, *where[:-1])
    try:
        await disks.end(run, disk)
    except MooringError as error:
        if not is_fenced(error):
            raise
        if await run.service.store.read(lambda tx: devices.find(tx, notes.block_device_id)):
            anew = await run.service.store.write(lambda tx: _begin_anew(tx, notes, run))
            if anew is None:
                raise
            await disks.end(run, disk, operation=anew)


def _begin_anew(tx: Session, notes: ReleaseDevice, run: Run[Compute]) -> Operation | None:
    """Return the operation as of now; None while somebody has the server in hand."""
    anew = as_of_now(tx, run)
    return None if run.service.sagas.holders(tx, f"server:{notes.server_id}") else anew


_steps = disks.Steps(everywhere.find)
RELEASE_DEVICE = Saga(
    "compute.release_device",
    ReleaseDevice,
    Step("unplug_disk", unplug_disk),
    Each(
        "places",
        everywhere.places,
        Step("disconnect_host", _steps.leave, may_be_forgone=True),
        Step("delete_attachment", end_attachment, may_be_forgone=True),
        Step("forget_place", everywhere.forget_place),
    ),
    Step("give_back", give_back),
    locks=lambda notes: [exclusive(lock_of(notes.block_device_id))],
    pivot="unplug_disk",
)
