"""Attach a volume: reserve it, export it to the host, connect, plug in, say so (specs 001)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mooring.compute.actions import actions, faults, notices
from mooring.compute.hosts import guests
from mooring.compute.tables import Server
from mooring.compute.volumes import devices, disk_places
from mooring.compute.volumes.sagas.release_device import begin_release
from mooring.compute.volumes.volume_calls import (
    delete_made_attachments,
    reserve_volume,
    say_in_use,
    wait_until_ready,
)
from mooring.errors import Conflict, Invalid, NotFound
from mooring.saga.define import Run, Saga, Step, exclusive, shared
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


class AttachVolume(Struct, frozen=True, kw_only=True):
    """The notes. `known`: attachments that the volume had before, never to be deleted by an undo.

    `accepted`: the user was answered, so a failure is a fault. `broken`: why part of the unwinding
    did not go, so that the block device stays and a clean-up goes on.
    """

    server_id: str
    volume_id: str
    block_device_id: str
    host: str
    device_name: str
    action_id: int = 0
    multiattach: bool = False
    known: list[str] = []
    attachment_id: str = ""
    accepted: bool = False
    broken: str = ""


def check_server(tx: Session, notes: AttachVolume, run: Run[Compute]) -> None:
    """See that the server is still where it was when the user asked."""
    del run
    server = tx.get(Server, notes.server_id)
    if server is None or server.deleted_at is not None or server.host != notes.host:
        raise Conflict(
            f"Server {notes.server_id} left host {notes.host}. The volume was not attached; "
            "ask again."
        )


def forget_device(tx: Session, notes: AttachVolume, run: Run[Compute]) -> None:
    """Take the block device back; or, while its host holds on to it, put the server into ERROR."""
    if notes.broken:
        begin_release(tx, run, notes.block_device_id)
    else:
        devices.remove(tx, notes.block_device_id)
    if notes.accepted:
        faults.record(tx, notes.server_id, run.error, run.now())
        actions.fail(tx, notes.action_id, run.error, run.now())
        _notify(tx, notes, run, "error")
    else:
        actions.forget(tx, notes.action_id)


async def create_attachment(notes: AttachVolume, run: Run[Compute]) -> AttachVolume:
    """Reserve the volume with the user's own rights, without a connector."""
    try:
        made = await reserve_volume(run, notes.server_id, notes.volume_id, known=notes.known)
    except (Conflict, NotFound) as error:
        if is_unavailable(error):
            raise
        # What keeps it from being reserved is the request's fault (facts/compute.md 2.4).
        raise Invalid(error.public, private=error.private) from error
    return replace(notes, attachment_id=made)


async def delete_attachment(notes: AttachVolume, run: Run[Compute]) -> AttachVolume | None:
    """End every attachment that `create_attachment` made, unless the host still needs it."""
    if notes.broken:
        await say_in_use(run, notes.attachment_id)
        return None
    made = await delete_made_attachments(
        run, notes.server_id, notes.volume_id, known=notes.known, remembered=notes.attachment_id
    )
    return replace(notes, broken=made) if made else None


def save_attachment(tx: Session, notes: AttachVolume, run: Run[Compute]) -> AttachVolume:
    """Note the attachment in the block device: from now on the delete guard finds it there."""
    now, device = run.now(), notes.block_device_id
    disk_places.add(tx, device, notes.host, notes.attachment_id, now)
    event = "compute_attach_volume"
    actions.begin_event(tx, notes.action_id, event, now, host=notes.host)
    _notify(tx, notes, run, "start")
    return replace(notes, accepted=True)


async def connect_attachment(notes: AttachVolume, run: Run[Compute]) -> None:
    """Wait for the volume's data, then have it exported to the host."""
    await wait_until_ready(run, notes.volume_id)
    connector = await guests.connector(run, notes.host, notes.device_name)
    volumes = run.service.volumes
    await volumes.connect_attachment(None, notes.attachment_id, connector, operation=run.operation)


async def connect_host(notes: AttachVolume, run: Run[Compute]) -> None:
    """Make the exported volume a device of the host."""
    await guests.connect(run, notes.host, _disk(notes))


async def disconnect_host(notes: AttachVolume, run: Run[Compute]) -> AttachVolume | None:
    """Remove the device from the host, unless a guest may still use it."""
    if notes.broken:
        return None
    undoing = guests.disconnect(run, notes.host, notes.attachment_id)
    return _note_failure(notes, await guests.give_up_late(run, undoing))


async def plug_disk(notes: AttachVolume, run: Run[Compute]) -> AttachVolume:
    """Give the device to the guest."""
    return replace(notes, device_name=await guests.plug(run, notes.host, _disk(notes)))


async def unplug_disk(notes: AttachVolume, run: Run[Compute]) -> AttachVolume | None:
    """Take the device from the guest again."""
    undoing = guests.unplug(run, notes.host, notes.server_id, notes.volume_id)
    return _note_failure(notes, await guests.give_up_late(run, undoing))


async def complete_attachment(notes: AttachVolume, run: Run[Compute]) -> None:
    """Tell the volume service that the guest has the volume."""
    volumes = run.service.volumes
    await volumes.complete_attachment(None, notes.attachment_id, operation=run.operation)


def record_attached(tx: Session, notes: AttachVolume, run: Run[Compute]) -> None:
    """Say that the server has the volume."""
    now, name = run.now(), notes.device_name
    devices.change(tx, notes.block_device_id, now, state="attached", device_name=name)
    disk_places.change(tx, notes.block_device_id, notes.host, now, state="attached")
    actions.succeed(tx, notes.action_id, now)
    _notify(tx, notes, run, "end")


def _notify(tx: Session, notes: AttachVolume, run: Run[Compute], phase: str) -> None:
    notices.send(
        tx,
        run.service,
        notes.server_id,
        f"volume_attach.{phase}",
        action_id=notes.action_id,
        error=run.error,
        volume_id=notes.volume_id,
    )


def _disk(notes: AttachVolume) -> guests.Disk:
    return guests.Disk(
        notes.server_id,
        notes.volume_id,
        notes.attachment_id,
        notes.device_name,
        multiattach=notes.multiattach,
    )


def _note_failure(notes: AttachVolume, failure: str) -> AttachVolume | None:
    return replace(notes, broken=failure) if failure else None


ATTACH_VOLUME = Saga(
    "compute.attach_volume",
    AttachVolume,
    Step("check_server", check_server, undo=forget_device),
    Step("create_attachment", create_attachment, undo=delete_attachment),
    Step("save_attachment", save_attachment),
    Step("connect_attachment", connect_attachment),
    Step("connect_host", connect_host, undo=disconnect_host),
    Step("plug_disk", plug_disk, undo=unplug_disk),
    Step("complete_attachment", complete_attachment),
    Step("record_attached", record_attached),
    locks=lambda notes: [
        shared(f"server:{notes.server_id}"),
        exclusive(f"volume:{notes.volume_id}"),
    ],
    answered_after="save_attachment",
    # A client may see the volume in use while `complete_attachment` still waits for its answer.
    visible_after="plug_disk",
    residue=("faults", "instance_actions"),
)
