"""Attach and detach a volume of a server that was put away (specs 001, facts/compute.md 4.6).

No host has a part in it: the volume waits with the server, in use at once, and is given to the
guest with the others when the server gets a host again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.actions.story import SAYS_ALL, Told, tell
from mooring.compute.servers import states
from mooring.compute.tables import Server
from mooring.compute.volumes import devices, disk_places, disks
from mooring.compute.volumes.disk_places import NOWHERE
from mooring.compute.volumes.sagas import attach_volume, detach_volume
from mooring.compute.volumes.sagas.attach_volume import AttachVolume
from mooring.compute.volumes.sagas.detach_volume import DetachVolume
from mooring.errors import Conflict
from mooring.saga.define import Lock, Run, Saga, Step, exclusive, shared

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


def check_away(tx: Session, notes: AttachVolume, run: Run[Compute]) -> None:
    """See that the server still is at no host."""
    del run
    server = tx.get(Server, notes.server_id)
    if server is None or server.vm_state != states.OFFLOADED:
        raise Conflict(
            f"Server {notes.server_id} is not {states.OFFLOADED} any more. The volume was not "
            "attached; ask again.",
            **SAYS_ALL,
        )


def record_waiting(tx: Session, notes: AttachVolume, run: Run[Compute]) -> None:
    """Say that the server has the volume, which has no name in its guest yet."""
    device, now = notes.block_device_id, run.now()
    devices.change(tx, device, now, state="attached")
    disk_places.change(tx, device, NOWHERE, now, state="attached")


def _locks(notes: AttachVolume | DetachVolume) -> list[Lock]:
    return [shared(f"server:{notes.server_id}"), exclusive(f"volume:{notes.volume_id}")]


def _describe_attaching(notes: AttachVolume) -> Told:
    del notes
    return Told(event="api_attach_volume")


def _describe_detaching(notes: DetachVolume) -> Told:
    del notes
    return Told(event="api_detach_volume")


_steps = disks.Steps(disks.in_notes)
ATTACH_WAITING = Saga(
    "compute.attach_waiting",
    AttachVolume,
    Step("check_away", check_away, undo=attach_volume.forget_device),
    Step("create_attachment", attach_volume.reserve, undo=_steps.free),
    Step("save_attachment", attach_volume.save_attachment),
    Step("complete_attachment", _steps.complete),
    Step("record_waiting", record_waiting),
    locks=_locks,
    answered_after="record_waiting",
    # A client may see the volume in use while `complete_attachment` still waits for its answer.
    visible_after="save_attachment",
    undo_ends=(
        Step("hold", _steps.hold),
        Step("start_release", attach_volume.start_release),
    ),
    residue=("faults", "instance_actions"),
    story=tell(_describe_attaching, state=attach_volume.say_how),
)
DETACH_WAITING = Saga(
    "compute.detach_waiting",
    DetachVolume,
    Step("check_device", detach_volume.check_device),
    Step("mark_released", detach_volume.mark_released),
    Step("delete_attachment", _steps.end),
    Step("forget_device", detach_volume.forget_device),
    locks=_locks,
    answered_after="forget_device",
    # A client may see the volume available while `delete_attachment` still waits for its answer.
    visible_after="mark_released",
    pivot="mark_released",
    failed_end=(Step("start_release", detach_volume.start_release),),
    residue=("faults", "instance_actions"),
    story=tell(_describe_detaching, leave=detach_volume.mark_released, state=detach_volume.say_how),
)
