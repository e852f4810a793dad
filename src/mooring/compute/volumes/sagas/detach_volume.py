"""Detach a volume: begin, take it from the guest, then disconnect and free it (specs 001)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.agent_api.disks import DiskBus
from mooring.compute.actions.story import SAYS_ALL, Told, tell
from mooring.compute.volumes import devices, disks
from mooring.compute.volumes.disk_places import Place
from mooring.compute.volumes.sagas import detaching, everywhere
from mooring.compute.volumes.sagas.release_device import begin_release, say_until_taken
from mooring.errors import Conflict
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import Each, Former, Run, Saga, Step, exclusive, shared

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
    elsewhere: list[Place] = []
    bus: DiskBus = "virtio"


def check_device(tx: Session, notes: DetachVolume, run: Run[Compute]) -> None:
    """See that the server still has the volume by this attachment."""
    del run
    row = devices.find(tx, notes.block_device_id)
    if row is None or row.attachment_id != notes.attachment_id or row.state != "attached":
        raise Conflict(
            f"Volume {notes.volume_id} is not attached to server {notes.server_id} any more as it "
            "was. Nothing was changed; look at it again.",
            **SAYS_ALL,
        )


def keep_device(tx: Session, notes: DetachVolume, run: Run[Compute]) -> None:
    """Say that the volume stays: the release before may have noted that the guest let go."""
    devices.change(tx, notes.block_device_id, run.now(), state="attached")


def accept(tx: Session, notes: DetachVolume, run: Run[Compute]) -> None:
    """Answer the user: from here on a failure is a fault."""
    del tx, notes, run


def mark_released(tx: Session, notes: DetachVolume, run: Run[Compute]) -> None:
    """Note that the guest let go, or may have: from here on the volume leaves the server."""
    devices.change(tx, notes.block_device_id, run.now(), state="released")


def forget_device(tx: Session, notes: DetachVolume, run: Run[Compute]) -> None:
    """Say that the server no longer has the volume."""
    del run
    devices.remove(tx, notes.block_device_id)


def start_release(tx: Session, notes: DetachVolume, run: Run[Compute]) -> None:
    """Put the server into ERROR, and go on freeing the volume."""
    begin_release(tx, run, notes.block_device_id)


def _describe(notes: DetachVolume) -> Told:
    """Tell of it; upstream has no name for its failure."""
    return Told(
        event="compute_detach_volume",
        host=notes.host,
        notice="volume_detach",
        says_errors=False,
        members={"volume_id": notes.volume_id},
    )


def say_how(notes: DetachVolume, run: Run[Compute]) -> str:
    """Return how a server is that was to let a volume go."""
    if not run.ends_badly:
        return f"Volume {notes.volume_id} stays attached, as it was."
    return f"The server {say_until_taken(f'volume {notes.volume_id}', notes.host)}"


_steps = disks.Steps(everywhere.find, insists=True)
_kept = (Step("return_volume", detaching.return_volume), Step("start_release", start_release))
DETACH_VOLUME = Saga(
    "compute.detach_volume",
    DetachVolume,
    Step("check_device", check_device, undo=keep_device),
    Step("begin_detaching", detaching.begin_detaching, undo=detaching.roll_detaching),
    Step("accept", accept),
    Each(
        "hosts",
        everywhere.places,
        Step("take", _steps.take, undo=_steps.give_again, undo_attempts=COMPUTE_UNDO_ATTEMPTS),
    ),
    Step("mark_released", mark_released),
    Each(
        "attachments",
        everywhere.places,
        Step("delete_attachment", _steps.end),
        Step("forget_place", everywhere.forget_place),
    ),
    Step("forget_device", forget_device),
    version=2,
    locks=lambda notes: [
        shared(f"server:{notes.server_id}"),
        exclusive(f"volume:{notes.volume_id}"),
    ],
    answered_after="accept",
    # A client may see the volume available while `delete_attachment` still waits for its answer.
    visible_after="mark_released",
    pivot="mark_released",
    failed_end=_kept,
    undo_ends=_kept,
    residue=("faults", "instance_actions"),
    story=tell(_describe, from_answer=True, leave=mark_released, state=say_how),
    former=Former(
        # One behind its `mark_released` may not have disconnected its host: it asks once more.
        steps={
            **dict.fromkeys(("unplug_disk", "mark_released", "disconnect_host"), "take"),
            "record_failure": "return_volume",
        }
    ),
)
