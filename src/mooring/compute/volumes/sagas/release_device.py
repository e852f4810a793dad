"""Go on freeing a volume that a host or the volume service did not let go of (specs 001).

The server is in ERROR meanwhile and gets its former state back at the end. Nothing ends this saga
but success or the deletion of its server; a hard reboot, or `mooring operations retry`, makes it
try at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.compute.hosts import guests
from mooring.compute.servers import states
from mooring.compute.tables import Server
from mooring.compute.volumes import devices
from mooring.compute.volumes.volume_calls import end_attachment
from mooring.saga.define import Run, Saga, Step, exclusive

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


class ReleaseDevice(Struct, frozen=True, kw_only=True):
    """The notes. `attachment_id` is None for a volume that came by the old calls."""

    server_id: str
    volume_id: str
    block_device_id: str
    host: str | None
    attachment_id: str | None


def begin_release(tx: Session, run: Run[Compute], block_device_id: str) -> None:
    """Put the server into ERROR and start to free the device; nothing when its row is gone."""
    row = devices.find(tx, block_device_id)
    if row is None or not row.volume_id:
        return
    now, server = run.now(), tx.get_one(Server, row.server_id)
    devices.change(tx, block_device_id, now, state="released")
    states.break_until_released(tx, row.server_id, now)
    notes = ReleaseDevice(
        server_id=row.server_id,
        volume_id=row.volume_id,
        block_device_id=block_device_id,
        host=server.host,
        attachment_id=row.attachment_id,
    )
    run.service.sagas.start(tx, RELEASE_DEVICE, notes)


def lock_of(block_device_id: str) -> str:
    """Return the key that the release of a block device holds."""
    return f"release:{block_device_id}"


def hurry(tx: Session, compute: Compute, server_id: str) -> None:
    """Make every release for a server try at once."""
    for row in devices.of_server(tx, server_id, state="released"):
        for saga_id in compute.sagas.holders(tx, lock_of(row.id)):
            compute.sagas.retry(tx, saga_id)


async def unplug_disk(notes: ReleaseDevice, run: Run[Compute]) -> None:
    """See that no guest has the volume."""
    await guests.unplug(run, notes.host, notes.server_id, notes.volume_id)


async def disconnect_host(notes: ReleaseDevice, run: Run[Compute]) -> None:
    """Remove the device from the host."""
    await guests.disconnect(run, notes.host, notes.attachment_id or notes.volume_id)


async def delete_attachment(notes: ReleaseDevice, run: Run[Compute]) -> None:
    """End the export and free the volume."""
    disk = guests.Disk(notes.server_id, notes.volume_id, notes.attachment_id, None)
    await end_attachment(run, notes.host, disk)


def give_back(tx: Session, notes: ReleaseDevice, run: Run[Compute]) -> None:
    """Forget the device and, with the last one, give the server the state it had before."""
    devices.remove(tx, notes.block_device_id)
    if not devices.of_server(tx, notes.server_id, state="released"):
        states.give_back(tx, notes.server_id, run.now())


RELEASE_DEVICE = Saga(
    "compute.release_device",
    ReleaseDevice,
    Step("unplug_disk", unplug_disk),
    Step("disconnect_host", disconnect_host),
    Step("delete_attachment", delete_attachment),
    Step("give_back", give_back),
    locks=lambda notes: [exclusive(lock_of(notes.block_device_id))],
    pivot="unplug_disk",
)
