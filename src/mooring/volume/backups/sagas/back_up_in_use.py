"""Back up a volume that a guest has: of a snapshot, which is taken for that and goes with the copy.

The snapshot is taken as any other one (`create_snapshot`), and so is its backup
(`back_up_snapshot`), which this begins once it is there. Source: facts/block_storage.md 1.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.errors import Conflict, Unavailable
from mooring.saga.define import Park, Run, Saga, Step, exclusive, look_again_s
from mooring.saga.held import HeldError
from mooring.volume.backups import backup_rows
from mooring.volume.backups.sagas import making
from mooring.volume.backups.sagas.back_up_snapshot import BACK_UP_SNAPSHOT
from mooring.volume.backups.sagas.making import CreateBackup
from mooring.volume.backups.story import tell
from mooring.volume.snapshots.sagas import deleting
from mooring.volume.tables import SnapshotRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.service import Volume

_FIRST_LOOK_S, _LATER_LOOKS_S = 0.5, 30.0


def begin_waiting(tx: Session, notes: CreateBackup, run: Run[Volume]) -> None:
    """Say which operation has the backup."""
    backup_rows.give(tx, notes.backup_id, run.saga_id)


def end_waiting(tx: Session, notes: CreateBackup, run: Run[Volume]) -> None:
    """Have the snapshot deleted, once it was taken, and say why there is no backup."""
    row = _find_snapshot(tx, notes)
    if row is not None and row.saga_id:
        raise Unavailable(f"Snapshot {row.id} is {row.status}, which ends by itself.")
    if row is not None:
        deleting.owe(run.service, row)
        deleting.begin(tx, run.service, row, making.without_token(run))
    why = "It was given up." if run.error is None else run.error.public
    making.say_why(tx, notes, run, why)


async def await_snapshot(notes: CreateBackup, run: Run[Volume]) -> None:
    """Rest until the snapshot is there. Raises Conflict when it failed, or was deleted."""
    row = await run.service.store.read(lambda tx: _find_snapshot(tx, notes))
    status = "deleted" if row is None else row.status
    if status == "creating":
        # What takes it gives it up long before this does.
        raise Park(seconds=look_again_s(run, _FIRST_LOOK_S, _LATER_LOOKS_S))
    if status != "available":
        raise Conflict(
            f"Snapshot {notes.snapshot_id}, which was to be backed up, is in status {status}. "
            f"Volume {notes.volume_id} is as it was; ask for another backup."
        )


def hand_over(tx: Session, notes: CreateBackup, run: Run[Volume]) -> None:
    """Have the snapshot backed up, as soon as nobody else is at work on its volume."""
    try:
        run.service.sagas.start(tx, BACK_UP_SNAPSHOT, notes, who=making.without_token(run))
    except HeldError as error:
        raise Unavailable(error.public, private=error.private) from error


def _find_snapshot(tx: Session, notes: CreateBackup) -> SnapshotRow | None:
    # Under this saga's own lock, of what it had made itself.
    return tx.get(SnapshotRow, notes.snapshot_id, populate_existing=True)


BACK_UP_IN_USE = Saga(
    "volume.back_up_in_use",
    CreateBackup,
    Step("begin_waiting", begin_waiting, undo=end_waiting),
    Step("await_snapshot", await_snapshot),
    Step("hand_over", hand_over),
    # Of the snapshot, which is this one's: the backup's is its heir's from the start.
    locks=lambda notes: (exclusive(f"snapshot:{notes.snapshot_id}"),),
    # The backup itself goes over to those in `error`; a guest whose disk had a snapshot for a while
    # writes to a file of another name since.
    residue=("backups", "error_backups", "messages", "connections", "guests"),
    story=tell("create", "create_backup", begins=False),
)
