"""Back up a snapshot, whoever has its volume: have the host copy it, and let the volume go.

Its volume's other snapshots stay as they are while the host reads, and no longer: what stores the
copy is a saga of its own (`store_backup`), which needs the backup alone. A snapshot that was taken
for the backup goes then, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from mooring.saga.define import Run, Saga, Step, exclusive, shared
from mooring.volume.backups.sagas import making
from mooring.volume.backups.sagas.making import CreateBackup
from mooring.volume.backups.sagas.store_backup import STORE_BACKUP
from mooring.volume.backups.story import tell

if TYPE_CHECKING:
    from mooring.volume.service import Volume


def hand_over(tx: Session, notes: CreateBackup, run: Run[Volume]) -> None:
    """Have the copy stored; what does that has backup and snapshot from here on."""
    who = making.without_token(run)
    # It waits for no more than the end of this very transaction, in which the backup is let go.
    heir = run.service.sagas.start(tx, STORE_BACKUP, notes, who=who, wait_s=1.0)
    making.own(tx, notes, heir)
    if notes.is_temporary:
        making.release(tx, notes, run)


BACK_UP_SNAPSHOT = Saga(
    "volume.back_up_snapshot",
    CreateBackup,
    Step("begin_backup", making.begin_backup, undo=making.show_failure),
    Step(making.CAPTURE, making.capture_volume, undo=making.remove_capture, deadline_s=7500.0),
    Step("hand_over", hand_over),
    locks=lambda notes: (
        shared(f"volume:{notes.volume_id}"),
        exclusive(f"backup:{notes.backup_id}"),
    ),
    owes=(Step("give_up_capture", making.give_up_capture, may_be_forgone=True, until_taken=True),),
    # The backup itself goes over to those in `error`.
    residue=("backups", "error_backups", "messages"),
    story=tell("create", "create_backup", absorbed=making.give_up),
)
