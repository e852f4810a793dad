"""Import the record of a backup: look whether the store has its data, and say so.

Nothing is written to the store. A record whose data are not there is in `error`, and has none from
then on: who deletes it takes away nothing that may be somebody's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy.orm import Session

from mooring.saga.define import Run, Saga, Step, exclusive
from mooring.volume.backups import backup_rows, checking

if TYPE_CHECKING:
    from mooring.volume.service import Volume


class ImportBackup(Struct, frozen=True, kw_only=True):
    """The notes."""

    backup_id: str


def begin_importing(tx: Session, notes: ImportBackup, run: Run[Volume]) -> None:
    """Own it."""
    backup_rows.give(tx, notes.backup_id, run.saga_id)


def show_failure(tx: Session, notes: ImportBackup, run: Run[Volume]) -> None:
    """Say why it cannot be restored, and let go of what may be there all the same."""
    backup_rows.let_go(tx, notes.backup_id)
    why = "It was given up." if run.error is None else run.error.public
    told = f"{why} The store is as it was. Delete this record, and import it again when that is so."
    values = {"status": "error", "fail_reason": told}
    backup_rows.end(tx, notes.backup_id, run.saga_id, run.now(), **values)


async def find_data(notes: ImportBackup, run: Run[Volume]) -> None:
    """Look whether all of it is there."""
    expected = await run.service.store.read(lambda tx: checking.expect(tx, notes.backup_id))
    await checking.check(run.service.backups, expected)


def show_available(tx: Session, notes: ImportBackup, run: Run[Volume]) -> None:
    """Say that there is a backup."""
    backup_rows.end(tx, notes.backup_id, run.saga_id, run.now(), status="available")


IMPORT_BACKUP = Saga(
    "volume.import_backup",
    ImportBackup,
    Step("begin_importing", begin_importing, undo=show_failure),
    Step("find_data", find_data, deadline_s=900.0),
    Step("show_available", show_available),
    locks=lambda notes: (exclusive(f"backup:{notes.backup_id}"),),
    # The backup itself goes over to those in `error`.
    residue=("backups", "error_backups"),
)
