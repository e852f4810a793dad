"""Back up a volume that nobody has (facts/block_storage.md 1.8).

The volume's host copies it beside its storage, as for an image; the control plane stores the copy
piece by piece, and the host removes it. The volume is nobody else's until then.
"""

from __future__ import annotations

from mooring.saga.define import Saga, Step, exclusive
from mooring.volume.backups.limits import BACKUP_UNDO_ATTEMPTS
from mooring.volume.backups.sagas import making
from mooring.volume.backups.sagas.making import CreateBackup
from mooring.volume.backups.story import tell

# One that the release before began for a snapshot goes on as this one, with the locks it has.
CREATE_BACKUP = Saga(
    "volume.create_backup",
    CreateBackup,
    Step("begin_backup", making.begin_backup, undo=making.show_failure),
    Step(making.CAPTURE, making.capture_volume, undo=making.remove_capture, deadline_s=7500.0),
    Step(
        "store_data",
        making.store_data,
        undo=making.remove_data,
        deadline_s=7500.0,
        undo_attempts=BACKUP_UNDO_ATTEMPTS,
    ),
    Step("show_available", making.show_available),
    Step("remove_capture", making.remove_capture, may_be_forgone=True),
    locks=lambda notes: (
        exclusive(f"volume:{notes.volume_id}"),
        exclusive(making.lock_of(notes)),
    ),
    visible_after="show_available",
    lets_go=lambda notes: (making.lock_of(notes),),
    pivot="show_available",
    undo_ends=(
        Step("drop_capture", making.drop_capture, may_be_forgone=True),
        Step("show_left", making.show_left),
    ),
    owes=(
        Step("give_up_data", making.give_up_data, may_be_forgone=True),
        Step("give_up_capture", making.give_up_capture, may_be_forgone=True, until_taken=True),
    ),
    # The backup itself goes over to those in `error`.
    residue=("backups", "error_backups", "messages"),
    story=tell("create", "create_backup", end_at="show_available", absorbed=making.give_up),
)
