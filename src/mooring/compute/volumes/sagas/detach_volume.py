"""Detach a volume: begin, take it from the guest, then disconnect and free it (specs 001)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from mooring.compute.actions import actions, faults, notices
from mooring.compute.hosts import guests
from mooring.compute.volumes import devices, disk_places, disks
from mooring.compute.volumes.disk_places import HERE, NOWHERE, Place, named, pick
from mooring.compute.volumes.disks import Disk
from mooring.compute.volumes.sagas.release_device import begin_release
from mooring.errors import Conflict, Invalid, MooringError
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import Each, Run, Saga, Step, exclusive, shared
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


class DetachVolume(Struct, frozen=True, kw_only=True):
    """The notes.

    detaching  the volume service agreed, so there is something to roll back
    elsewhere  where the volume is besides the host at which the server runs
    """

    server_id: str
    volume_id: str
    block_device_id: str
    host: str
    action_id: int
    device_name: str | None
    attachment_id: str | None = None
    boot_index: int | None = None
    multiattach: bool = False
    detaching: bool = False
    accepted: bool = False
    elsewhere: list[Place] = []


def check_device(tx: Session, notes: DetachVolume, run: Run[Compute]) -> None:
    """See that the server still has the volume by this attachment."""
    del run
    row = devices.find(tx, notes.block_device_id)
    if row is None or row.attachment_id != notes.attachment_id or row.state != "attached":
        raise Conflict(
            f"Volume {notes.volume_id} is not attached to server {notes.server_id} any more as it "
            "was. Nothing was changed; look at it again."
        )


def keep_device(tx: Session, notes: DetachVolume, run: Run[Compute]) -> None:
    """Say why the volume stays attached; a request that was refused leaves nothing."""
    if notes.accepted:
        faults.record(tx, notes.server_id, run.error, run.now())
        actions.fail(tx, notes.action_id, run.error, run.now())
    else:
        actions.forget(tx, notes.action_id)


async def begin_detaching(notes: DetachVolume, run: Run[Compute]) -> DetachVolume:
    """Ask the volume service, with the user's own rights. A volume in another state is Invalid."""
    volumes = run.service.volumes
    try:
        await volumes.begin_detaching(run.user, notes.volume_id, operation=run.operation)
    except (Conflict, Invalid) as error:
        if is_unavailable(error):
            raise
        if not guests.may_be_repeated(run) or not await _is_detaching(notes, run):
            raise Invalid(error.public, private=error.private) from error
    return replace(notes, detaching=True)


async def roll_detaching(notes: DetachVolume, run: Run[Compute]) -> None:
    """Give the volume its state back, when it was `begin_detaching` that changed it."""
    if not notes.detaching and not await _may_have_begun(notes, run):
        return
    operation = guests.other(run.operation, "roll")
    await run.service.volumes.roll_detaching(None, notes.volume_id, operation=operation)


async def _may_have_begun(notes: DetachVolume, run: Run[Compute]) -> bool:
    """Whether a `begin_detaching` without an answer worked: the volume was `in-use` before."""
    if run.error is not None and run.error.kind in {"invalid", "forbidden", "not_found"}:
        return False
    await run.service.volumes.session.bury(run.operation)
    return await _is_detaching(notes, run)


async def _is_detaching(notes: DetachVolume, run: Run[Compute]) -> bool:
    volume = await run.service.volumes.show(None, notes.volume_id)
    return volume.status == "detaching"


def accept(tx: Session, notes: DetachVolume, run: Run[Compute]) -> DetachVolume:
    """Answer the user: from here on a failure is a fault."""
    actions.begin_event(tx, notes.action_id, "compute_detach_volume", run.now(), host=notes.host)
    _notify(tx, notes, run, "start")
    return replace(notes, accepted=True)


def mark_released(tx: Session, notes: DetachVolume, run: Run[Compute]) -> None:
    """Note that the guest let go: from here on the volume leaves the server."""
    devices.change(tx, notes.block_device_id, run.now(), state="released")


def forget_place(tx: Session, notes: DetachVolume, *where: Any) -> None:
    """Say that a host no longer has the volume."""
    disk_places.remove(tx, notes.block_device_id, _disk(notes, *where[:-1]).host or NOWHERE)


def forget_device(tx: Session, notes: DetachVolume, run: Run[Compute]) -> None:
    """Say that the server no longer has the volume."""
    devices.remove(tx, notes.block_device_id)
    actions.succeed(tx, notes.action_id, run.now())
    _notify(tx, notes, run, "end")


def _notify(tx: Session, notes: DetachVolume, run: Run[Compute], phase: str) -> None:
    notices.send(
        tx,
        run.service,
        notes.server_id,
        f"volume_detach.{phase}",
        action_id=notes.action_id,
        volume_id=notes.volume_id,
    )


def record_failure(tx: Session, notes: DetachVolume, run: Run[Compute]) -> None:
    """Say why the volume did not leave its host."""
    faults.record(tx, notes.server_id, run.error, run.now())
    actions.fail(tx, notes.action_id, run.error, run.now())


async def return_volume(notes: DetachVolume, run: Run[Compute]) -> None:
    """Let the volume be in use again: its attachment is still there."""
    try:
        await run.service.volumes.roll_detaching(None, notes.volume_id, operation=run.operation)
    except MooringError as error:
        # The clean-up goes on in any case, and a volume service that is silent must not stop it.
        if is_unavailable(error) and run.attempt < COMPUTE_UNDO_ATTEMPTS:
            raise


def start_release(tx: Session, notes: DetachVolume, run: Run[Compute]) -> None:
    """Put the server into ERROR, and go on freeing the volume."""
    begin_release(tx, run, notes.block_device_id)


def _disk(notes: DetachVolume, item: str = HERE) -> Disk:
    """Return the volume at the server's host or, with an item, at another one."""
    place = pick(notes.elsewhere, item) if item else Place(notes.host, notes.attachment_id)
    return Disk(
        server_id=notes.server_id,
        volume_id=notes.volume_id,
        host=place.host,
        attachment_id=place.attachment_id,
        device_name=notes.device_name,
        boot_index=notes.boot_index,
        multiattach=notes.multiattach,
    )


_steps = disks.Steps(_disk, insists=True)
DETACH_VOLUME = Saga(
    "compute.detach_volume",
    DetachVolume,
    Step("check_device", check_device, undo=keep_device),
    Step("begin_detaching", begin_detaching, undo=roll_detaching),
    Step("accept", accept),
    Step("unplug_disk", _steps.unplug, undo=_steps.plug_again),
    Step("mark_released", mark_released),
    Each(
        "places",
        lambda notes: [HERE, *named(notes.elsewhere)],
        Step("disconnect_host", _steps.leave),
        Step("delete_attachment", _steps.end),
        Step("forget_place", forget_place),
    ),
    Step("forget_device", forget_device),
    locks=lambda notes: [
        shared(f"server:{notes.server_id}"),
        exclusive(f"volume:{notes.volume_id}"),
    ],
    answered_after="accept",
    # A client may see the volume available while `delete_attachment` still waits for its answer.
    visible_after="disconnect_host",
    pivot="mark_released",
    failed_end=(
        Step("record_failure", record_failure),
        Step("return_volume", return_volume),
        Step("start_release", start_release),
    ),
    residue=("faults", "instance_actions"),
)
