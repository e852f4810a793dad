"""Let a guest go on with the copy of its volume that the volume service made, to migrate it.

As a swap, but the volume keeps its id: host and guest know the copy by that from the start, and the
volume service is told how it went, which makes the copy the volume (specs 001, facts/compute.md
4.12). Up to the switch the guest has the volume where it was, and all is taken back.
"""

from __future__ import annotations

from mooring.compute.actions.story import tell
from mooring.compute.volumes import disks
from mooring.compute.volumes.sagas import migrated, swap_ends, swap_steps, swap_volume
from mooring.compute.volumes.sagas.swap_notes import SwapVolume, new_disk, old_disk
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import Saga, Step

_old, _new = disks.Steps(old_disk, insists=True), disks.Steps(new_disk)
SWAP_MIGRATED = Saga(
    "compute.swap_migrated_volume",
    SwapVolume,
    Step("check_device", swap_volume.check_device, undo=migrated.report_failed),
    Step("create_attachment", swap_steps.reserve, undo=_new.free),
    Step("save_attachment", swap_volume.save_attachment),
    Step(
        "begin_copy",
        swap_steps.begin_copy,
        undo=swap_steps.end_copy,
        undo_attempts=COMPUTE_UNDO_ATTEMPTS,
    ),
    Step("await_copy", swap_steps.await_copy),
    Step("begin_switch", swap_volume.begin_switch),
    Step("switch", swap_steps.switch),
    Step("record_switched", swap_volume.record_switched),
    Step("complete_attachment", swap_steps.complete_new),
    Step("disconnect_old", swap_steps.disconnect_old),
    Step("delete_attachment", _old.end),
    Step("report_done", migrated.report_done),
    Step("forget_spare", swap_volume.forget_spare),
    locks=swap_volume.locks_of,
    answered_after="save_attachment",
    visible_after="report_done",
    pivot="begin_switch",
    failed_end=(
        *swap_ends.FREED,
        Step("report_outcome", migrated.report_outcome),
        Step("settle_spare", swap_ends.settle_spare),
    ),
    undo_ends=(
        Step("hold_new", swap_ends.hold_new),
        Step("report_refused", migrated.report_outcome),
        Step("release_spare", swap_ends.release_spare),
    ),
    owes=(Step("report_owed", migrated.report_owed, may_be_forgone=True),),
    # The volume service says of a failure in the volume's `migration_status`.
    residue=("faults", "instance_actions", "volumes", "sound_volumes"),
    story=tell(
        swap_volume.describe,
        from_answer=True,
        leave=swap_volume.leave_rows,
        state=swap_ends.say_which,
    ),
)
