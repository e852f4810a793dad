"""Bring a volume to another pool under the guest that has it (facts/block_storage.md 1.6).

An empty copy is made there, with a row of its own. Compute is asked to swap the volume for it, and
tells by `os-migrate_volume_completion` how that went: in that request the copy becomes the volume.
Then it gets the volume's id at its host, where its file has had the volume's name from the start,
and what the volume was goes. Until compute is asked all is undone; from then on it says what the
guest has, and a bad end goes by that: the copy goes, or is the volume after all.
"""

from __future__ import annotations

from mooring.saga.define import Lock, Saga, Step, Story, exclusive, shared
from mooring.volume.migration.sagas import in_use_steps as steps
from mooring.volume.migration.sagas.in_use_notes import MigrateInUse
from mooring.volume.migration.sagas.migrate_volume import clear_target
from mooring.volume.volumes.story import Notice


def _locks(notes: MigrateInUse) -> list[Lock]:
    # Whoever connects the copy shares it.
    return [exclusive(f"volume:{notes.volume_id}"), shared(f"volume:{notes.move.copy_id}")]


def _is_retyped(notes: MigrateInUse) -> bool:
    return bool(notes.type_id) and notes.switched


_retyped = Notice("retype", _is_retyped)
MIGRATE_IN_USE = Saga(
    "volume.migrate_in_use",
    MigrateInUse,
    Step("begin_moving", steps.begin_moving, undo=steps.come_back),
    Step("clear_target", clear_target),
    Step("make_copy", steps.make_copy, undo=steps.remove_copy, deadline_s=7500.0),
    Step("offer_copy", steps.offer_copy),
    Step(steps.ASK, steps.ask_compute),
    Step("await_completion", steps.await_completion),
    Step("adopt_copy", steps.adopt_copy),
    Step("renew_connections", steps.renew_connections),
    Step("show_success", steps.show_success),
    Step("remove_former", steps.remove_former, may_be_forgone=True),
    locks=_locks,
    visible_after="show_success",
    # Whether there is a way back is compute's to say from here on.
    pivot=steps.ASK,
    failed_end=(
        Step("settle_swap", steps.settle_swap),
        Step("remove_refused", steps.remove_refused),
        Step("adopt_settled", steps.adopt_copy),
        Step("renew_settled", steps.renew_connections),
        Step("show_outcome", steps.show_outcome),
        Step("remove_settled", steps.remove_former, may_be_forgone=True),
    ),
    owes=(Step("give_up_former", steps.give_up_former, may_be_forgone=True, until_taken=True),),
    # One that failed says so in its `migration_status`, and so does its server.
    residue=("volumes", "sound_volumes", "faults", "instance_actions"),
    story=Story(ended=_retyped, failed=_retyped),
)
