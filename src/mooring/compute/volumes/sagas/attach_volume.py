"""Attach a volume: reserve it, give it to the guest, say so (specs 001)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mooring.agent_api.disks import DiskBus
from mooring.compute.actions.story import SAYS_ALL, Told, tell
from mooring.compute.tables import Server
from mooring.compute.volumes import devices, disk_places, disks, old_calls, reservations
from mooring.compute.volumes.sagas.release_device import begin_release, say_until_taken
from mooring.errors import Conflict, Invalid, NotFound
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import Former, Run, Saga, Step, exclusive, shared
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


class AttachVolume(Struct, frozen=True, kw_only=True):
    """The notes. `known`: attachments that the volume had before, never to be deleted by an undo.

    `accepted`: the user was answered before anything was reserved, so every failure is a fault.
    `old_calls`: there are no attachments to give it by. `is_filled`: it was getting its data from
    an image when this was asked for.
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
    has_data: bool = False
    is_filled: bool = False
    old_calls: bool = False
    bus: DiskBus = "virtio"


def check_server(tx: Session, notes: AttachVolume, run: Run[Compute]) -> None:
    """See that the server is still where it was when the user asked."""
    del run
    server = tx.get(Server, notes.server_id)
    if server is None or server.deleted_at is not None or server.host != notes.host:
        raise Conflict(
            f"Server {notes.server_id} left host {notes.host}. The volume was not attached; "
            "ask again.",
            **SAYS_ALL,
        )


def forget_device(tx: Session, notes: AttachVolume, run: Run[Compute]) -> None:
    """Take the block device back."""
    del run
    devices.remove(tx, notes.block_device_id)


async def reserve(notes: AttachVolume, run: Run[Compute]) -> AttachVolume:
    """Reserve the volume with the user's own rights, without a connector."""
    try:
        return replace(notes, attachment_id=await reservations.reserve(run, disks.in_notes(notes)))
    except (Conflict, NotFound) as error:
        if is_unavailable(error):
            raise
        # What keeps it from being reserved is the request's fault (facts/compute.md 2.4).
        raise Invalid(error.public, private=error.private) from error


def save_attachment(tx: Session, notes: AttachVolume, run: Run[Compute]) -> None:
    """Note the attachment: from now on the delete guard finds it at the server."""
    attachment_id = old_calls.named(notes.attachment_id)
    disk_places.add(tx, notes.block_device_id, notes.host, attachment_id, run.now())


async def give(notes: AttachVolume, run: Run[Compute]) -> AttachVolume:
    """Wait for the volume's data, then give it to the guest."""
    if notes.is_filled:
        await disks.wait_until_ready(run, notes.volume_id, from_image=True)
    return replace(notes, device_name=await disks.give(run, disks.in_notes(notes)))


def record_attached(tx: Session, notes: AttachVolume, run: Run[Compute]) -> None:
    """Say that the server has the volume."""
    device, now = notes.block_device_id, run.now()
    devices.change(tx, device, now, state="attached", device_name=notes.device_name)
    disk_places.change(tx, device, notes.host, now, state="attached")


def start_release(tx: Session, notes: AttachVolume, run: Run[Compute]) -> None:
    """Put the server into ERROR, and go on freeing the volume."""
    if not disk_places.of_device(tx, notes.block_device_id):
        save_attachment(tx, notes, run)
    begin_release(tx, run, notes.block_device_id)


async def end_unanswered(notes: AttachVolume, run: Run[Compute]) -> None:
    """Free what was kept by the old calls and not noted: a deletion of the server finds no trace.

    An attachment it finds by itself.
    """
    reserving = run.operation.of_step("create_attachment")
    await old_calls.end_unanswered(run, disks.in_notes(notes), reserving)


def _describe(notes: AttachVolume) -> Told:
    return Told(
        event="compute_attach_volume",
        host=notes.host,
        notice="volume_attach",
        members={"volume_id": notes.volume_id},
        unawaited=notes.accepted,
    )


def say_how(notes: AttachVolume, run: Run[Compute]) -> str:
    """Return how a server is that was not given its volume."""
    if not run.ends_badly:
        return f"Volume {notes.volume_id} was not attached; the server is as it was."
    until = say_until_taken(f"volume {notes.volume_id}", notes.host)
    return f"The volume was not attached. The server {until}"


_steps = disks.Steps(disks.in_notes)
ATTACH_VOLUME = Saga(
    "compute.attach_volume",
    AttachVolume,
    Step("check_server", check_server, undo=forget_device),
    Step("create_attachment", reserve, undo=_steps.free),
    Step("save_attachment", save_attachment),
    Step("give", give, undo=_steps.take, undo_attempts=COMPUTE_UNDO_ATTEMPTS),
    Step("complete_attachment", _steps.complete, undo=_steps.uncomplete),
    Step("record_attached", record_attached),
    version=2,
    locks=lambda notes: [
        shared(f"server:{notes.server_id}"),
        exclusive(f"volume:{notes.volume_id}"),
    ],
    answered_after="save_attachment",
    # A client may see the volume in use while `complete_attachment` still waits for its answer.
    visible_after="give",
    undo_ends=(Step("hold", _steps.hold), Step("start_release", start_release)),
    owes=(Step("end_unanswered", end_unanswered, may_be_forgone=True),),
    residue=("faults", "instance_actions"),
    story=tell(_describe, from_answer=True, state=say_how),
    former=Former(
        steps=dict.fromkeys(("connect_attachment", "connect_host", "plug_disk"), "give"),
        leaves=lambda notes: bool(notes.get("broken")),
    ),
)
