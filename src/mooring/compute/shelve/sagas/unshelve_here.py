"""Bring back a server that was put away and is at its host still: its guest starts there again.

The image that was made of its disk is not needed any more once it runs, and goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.actions.story import Told, tell
from mooring.compute.power.sagas import power
from mooring.compute.power.sagas.power_outcome import WITH_SHARES
from mooring.compute.shelve.sagas import shelved_image
from mooring.compute.shelve.sagas.shelve_notes import UnshelveHere
from mooring.saga.define import Run, Saga, Step, Together, exclusive

if TYPE_CHECKING:
    from mooring.compute.service import Compute


async def delete_image(notes: UnshelveHere, run: Run[Compute]) -> Together:
    """Delete the image."""
    return await shelved_image.discard(run, notes.server_id, notes.image_id)


async def settle_image(notes: UnshelveHere, run: Run[Compute]) -> Together | None:
    """Do the same where the guest runs all the same, though its host said that it failed."""
    if notes.found not in WITH_SHARES:
        return None
    return await shelved_image.settle(run, notes.server_id)


def _describe(notes: UnshelveHere) -> Told:
    event = "compute_unshelve_instance"
    return Told(event=event, host=notes.host, notice="unshelve", says_errors=False)


UNSHELVE_HERE = Saga(
    "compute.unshelve_here",
    UnshelveHere,
    Step("begin_change", power.begin_change, undo=power.give_up),
    Step("find_lost_volumes", power.find_lost_volumes),
    Step("forget_lost_volumes", power.forget_lost_volumes, undo=power.leave_waiting),
    Step("set_power", power.set_power, deadline_s=700.0),
    Step("record_power", power.record_power),
    Step("delete_image", delete_image, may_be_forgone=True),
    locks=lambda notes: [exclusive(f"server:{notes.server_id}")],
    visible_after="record_power",
    pivot="set_power",
    failed_end=(
        Step("look_at_guest", power.look_at_guest),
        Step("give_up", power.give_up),
        Step("settle_image", settle_image),
    ),
    residue=("faults", "instance_actions"),
    story=tell(_describe),
)
