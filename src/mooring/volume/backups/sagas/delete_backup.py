"""Delete a backup: its data, and then its row.

Of several that have the same data, the last one takes them away: whoever goes before lets go of
them first. There is no way back. What the store refuses for good leaves the backup in
`error_deleting`, and deleting may be asked for again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy.orm import Session

from mooring.saga.define import Run, Saga, Step, exclusive
from mooring.volume.backups import backup_rows, notices
from mooring.volume.backups.story import tell
from mooring.volume.tables import BackupRow

if TYPE_CHECKING:
    from mooring.volume.service import Volume


class DeleteBackup(Struct, frozen=True, kw_only=True):
    """The notes."""

    backup_id: str


def begin_deleting(tx: Session, notes: DeleteBackup, run: Run[Volume]) -> None:
    """Own it, and leave its data to others that have the same."""
    backup_rows.give(tx, notes.backup_id, run.saga_id)
    place = backup_rows.find_place(tx, notes.backup_id)
    if place and len(backup_rows.of_place(tx, place)) > 1:
        backup_rows.let_go(tx, notes.backup_id)


async def remove_data(notes: DeleteBackup, run: Run[Volume]) -> None:
    """Remove all that is stored; what is not there is fine."""
    place = await run.service.store.read(lambda tx: backup_rows.find_place(tx, notes.backup_id))
    if place:
        await run.service.backups.delete(place)


def forget_backup(tx: Session, notes: DeleteBackup, run: Run[Volume]) -> None:
    """Delete the row; the quota has it back."""
    # Behind this step there is nothing left that its story could tell of.
    notices.send(tx, run.service, notes.backup_id, "delete.end")
    row = tx.get(BackupRow, notes.backup_id)
    if row is not None:
        tx.delete(row)


def show_error(tx: Session, notes: DeleteBackup, run: Run[Volume]) -> None:
    """Tell that the store keeps it."""
    why = None if run.error is None else run.error.public
    values = {"status": "error_deleting", "fail_reason": why}
    backup_rows.end(tx, notes.backup_id, run.saga_id, run.now(), **values)


DELETE_BACKUP = Saga(
    "volume.delete_backup",
    DeleteBackup,
    Step("begin_deleting", begin_deleting),
    Step("remove_data", remove_data),
    Step("forget_backup", forget_backup),
    locks=lambda notes: (exclusive(f"backup:{notes.backup_id}"),),
    pivot="begin_deleting",
    failed_end=[Step("show_error", show_error)],
    residue=("backups", "error_backups", "messages"),
    story=tell("delete", "delete_backup"),
)
