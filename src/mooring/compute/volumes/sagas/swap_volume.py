"""Swap a volume for another one under its running guest (specs 001, facts/compute.md 4.12).

Up to the switch the guest has the old volume, and all is taken back; from then on it has the new
one, and the old one is freed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.actions.story import Told, tell
from mooring.compute.volumes import devices, disk_places, disks
from mooring.compute.volumes.sagas import detaching, swap_ends, swap_steps
from mooring.compute.volumes.sagas.swap_notes import (
    SwapVolume,
    exchange,
    new_disk,
    old_disk,
)
from mooring.errors import Conflict
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import Lock, Run, Saga, Step, exclusive, shared

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


def check_device(tx: Session, notes: SwapVolume, run: Run[Compute]) -> None:
    """See that the server has the old volume as it had when this was asked for."""
    del run
    row = devices.find(tx, notes.block_device_id)
    places = disk_places.of_device(tx, notes.block_device_id)
    there = [(place.host, place.attachment_id) for place in places]
    if row is None or row.state != "attached" or there != [(notes.host, notes.attachment_id)]:
        raise Conflict(
            f"Volume {notes.volume_id} is not attached to server {notes.server_id} any more as it "
            "was. Nothing was changed; look at it again."
        )


def forget_spare(tx: Session, notes: SwapVolume, run: Run[Compute]) -> None:
    """Forget the block device of the volume that is not the disk."""
    del run
    devices.remove(tx, notes.spare_id)


def save_attachment(tx: Session, notes: SwapVolume, run: Run[Compute]) -> None:
    """Note the new attachment: from now on the delete guard finds it at the server."""
    disk_places.add(tx, notes.spare_id, notes.host, notes.made, run.now())


def begin_switch(tx: Session, notes: SwapVolume, run: Run[Compute]) -> SwapVolume:
    """Note that the guest may have the new volume from now on."""
    del tx, run
    return replace(notes, switching=True)


def record_switched(tx: Session, notes: SwapVolume, run: Run[Compute]) -> SwapVolume:
    """Say that the new volume is the server's; the old one leaves it."""
    exchange(tx, notes, run.now())
    return replace(notes, switched=True)


def leave_rows(tx: Session, notes: SwapVolume, run: Run[Compute]) -> None:
    """Leave the rows to whoever took this one's place, in the middle of the switch as after it.

    Both volumes were in step, so nothing is lost with the old one, whichever the guest has.
    """
    if notes.switching and not notes.switched:
        exchange(tx, notes, run.now())


def locks_of(notes: SwapVolume) -> list[Lock]:
    """Return the locks: the server is shared with what is done to its other volumes."""
    return [
        shared(f"server:{notes.server_id}"),
        exclusive(f"volume:{notes.volume_id}"),
        exclusive(f"volume:{notes.new_volume_id}"),
    ]


def describe(notes: SwapVolume) -> Told:
    """Tell of it."""
    return Told(
        event="compute_swap_volume",
        host=notes.host,
        notice="volume_swap",
        members={"old_volume_id": notes.volume_id, "new_volume_id": notes.new_volume_id},
        details=notes.left,
    )


_old, _new = disks.Steps(old_disk, insists=True), disks.Steps(new_disk)
SWAP_VOLUME = Saga(
    "compute.swap_volume",
    SwapVolume,
    Step("check_device", check_device, undo=forget_spare),
    Step("begin_detaching", detaching.begin_detaching, undo=detaching.roll_detaching),
    Step("create_attachment", swap_steps.reserve, undo=_new.free),
    Step("save_attachment", save_attachment),
    Step(
        "begin_copy",
        swap_steps.begin_copy,
        undo=swap_steps.end_copy,
        undo_attempts=COMPUTE_UNDO_ATTEMPTS,
    ),
    Step("await_copy", swap_steps.await_copy),
    Step("begin_switch", begin_switch),
    Step("switch", swap_steps.switch),
    Step("record_switched", record_switched),
    Step("grow_disk", swap_steps.grow_disk),
    Step("complete_attachment", swap_steps.complete_new),
    Step("disconnect_old", swap_steps.disconnect_old),
    Step("delete_attachment", _old.end),
    Step("forget_spare", forget_spare),
    locks=locks_of,
    answered_after="save_attachment",
    # A client may see the new volume while the rest still waits for its answers.
    visible_after="record_switched",
    pivot="begin_switch",
    failed_end=swap_ends.FAILED,
    undo_ends=swap_ends.REFUSED,
    owes=(
        Step("return_owed", swap_ends.return_owed, may_be_forgone=True),
        Step("grow_owed", swap_ends.grow_owed, may_be_forgone=True),
    ),
    residue=("faults", "instance_actions"),
    story=tell(describe, from_answer=True, leave=leave_rows, state=swap_ends.say_which),
)
