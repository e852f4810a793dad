"""Rows of backups: who may see them, and how their status changes.

A backup that an operation is at work on names it, and only that operation ends it. An operation
that was given up by a reset of its volume ends its backup, too, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, and_, func, or_, select, update

from mooring.errors import Invalid, NotFound
from mooring.store import turns
from mooring.volume.tables import BackupRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.who import Who

TRANSITIONAL = ("creating", "deleting", "restoring")
"""Statuses that a saga, or who set them by hand, leads out of."""
DELETABLE = ("available", "error", "error_deleting")


def visible(tx: Session, who: Who, backup_id: str) -> BackupRow:
    """Return the backup that this caller may see. Raises NotFound."""
    row = tx.get(BackupRow, backup_id, populate_existing=True)
    if row is None or not (who.is_admin or row.project_id == who.project_id):
        raise NotFound(f"Backup {backup_id} could not be found.")
    return row


def lock(tx: Session, row: BackupRow) -> None:
    """Let nobody else change a backup, or begin to build on it, until this transaction ends."""
    tx.execute(select(BackupRow.id).where(BackupRow.id == row.id).with_for_update())


def count_dependents(tx: Session, backup_id: str) -> int:
    """Return how many backups build on one."""
    counted = select(func.count()).select_from(BackupRow).where(BackupRow.parent_id == backup_id)
    return tx.execute(counted).scalar_one()


def find_parent(tx: Session, who: Who, volume_id: str, before: datetime | None) -> BackupRow | None:
    """Return the newest backup of a volume that another one can build on; None where there is none.

    `before`: when the snapshot was taken that is to be backed up, than which its data are older.
    """
    query = select(BackupRow).where(
        BackupRow.volume_id == volume_id,
        BackupRow.project_id == who.project_id,
        BackupRow.status == "available",
    )
    if before is not None:
        query = query.where(BackupRow.data_at < before)
    newest = query.order_by(BackupRow.created_at.desc(), BackupRow.id).limit(1)
    return tx.execute(newest.with_for_update()).scalar_one_or_none()


def find_place(tx: Session, backup_id: str) -> str:
    """Return under what id the data of a backup lie in the store; "" where it has none there."""
    query = select(func.coalesce(BackupRow.stored_as, BackupRow.id))
    return tx.execute(query.where(BackupRow.id == backup_id)).scalar_one_or_none() or ""


def take_turn(tx: Session) -> None:
    """Let nobody else give data another backup, or take one from it, until the transaction ends.

    Before any row is locked: several that have the same data may go at once.
    """
    turns.take_turn(tx, "the data of backups")


def of_place(tx: Session, place: str) -> dict[str, str]:
    """Return the statuses, by id, of all backups whose data lie under an id; it takes a turn."""
    query = select(BackupRow.id, BackupRow.status).where(_lies_at(place)).order_by(BackupRow.id)
    return {row.id: row.status for row in tx.execute(query)}


def let_go(tx: Session, backup_id: str) -> None:
    """Say that a backup has no data in the store: what lies there is not its own any more."""
    tx.execute(update(BackupRow).where(BackupRow.id == backup_id).values(stored_as=""))


def _lies_at(place: str) -> ColumnElement[bool]:
    own = and_(BackupRow.id == place, BackupRow.stored_as.is_(None))
    return or_(own, BackupRow.stored_as == place)


def take(
    tx: Session, row: BackupRow, *, allowed: Collection[str], status: str, now: datetime
) -> None:
    """Give a backup that nobody is at work on a transitional status. Raises Invalid."""
    taken = update(BackupRow).where(
        BackupRow.id == row.id, BackupRow.saga_id == "", BackupRow.status.in_(allowed)
    )
    values = {"status": status, "borrowed_by": "", "updated_at": now}
    if tx.execute(taken.values(values).returning(BackupRow.id)).first() is None:
        busy = ", and an operation is at work on it" if row.saga_id else ""
        raise Invalid(
            f"Invalid backup: Backup {row.id} status must be {' or '.join(allowed)}, but it is "
            f"{row.status}{busy}. Nothing was changed."
        )


def give(tx: Session, backup_id: str, saga_id: str) -> None:
    """Say which operation is at work on a backup."""
    tx.execute(update(BackupRow).where(BackupRow.id == backup_id).values(saga_id=saga_id))


def end(tx: Session, backup_id: str, saga_id: str, now: datetime, **values: Any) -> None:
    """Say how an operation ended; nothing where it has the backup no more, or that is gone."""
    mine = update(BackupRow).where(BackupRow.id == backup_id, BackupRow.saga_id == saga_id)
    tx.execute(mine.values(saga_id="", updated_at=now, **values))
