"""Store what a host has copied of a snapshot, and have the copy removed.

It begins where `back_up_snapshot` ends, and holds the backup alone: the copy stays what it is,
whatever is done to the volume meanwhile. One whose copy went with the volume ends in `error`.
"""

from __future__ import annotations

from mooring.saga.define import Saga, Step, exclusive
from mooring.volume.backups.limits import BACKUP_UNDO_ATTEMPTS
from mooring.volume.backups.sagas import making
from mooring.volume.backups.sagas.making import CreateBackup
from mooring.volume.backups.story import tell

STORE_BACKUP = Saga(
    "volume.store_backup",
    CreateBackup,
    Step("begin_storing", making.begin_storing, undo=making.end_storing),
    Step(
        "store_data",
        making.store_data,
        undo=making.remove_data,
        deadline_s=7500.0,
        undo_attempts=BACKUP_UNDO_ATTEMPTS,
    ),
    Step("show_available", making.show_available),
    Step("remove_capture", making.remove_capture, may_be_forgone=True),
    locks=lambda notes: (exclusive(making.lock_of(notes)),),
    # Whoever made the copy lets go of the backup in the transaction that starts this.
    mode="wait",
    visible_after="show_available",
    lets_go=lambda notes: (making.lock_of(notes),),
    pivot="show_available",
    undo_ends=(
        Step("drop_capture", making.drop_capture, may_be_forgone=True),
        Step("show_left", making.show_left),
    ),
    # The backup itself goes over to those in `error`.
    residue=("backups", "error_backups", "messages"),
    story=tell("create", "create_backup", begins=False, end_at="show_available"),
)
