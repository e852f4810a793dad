"""What work that was absorbed has left on attachments and snapshots: for whoever took its place."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import update
from sqlalchemy.orm import Session

from mooring.saga import journal
from mooring.volume.snapshots import snapshot_rows
from mooring.volume.tables import AttachmentRow
from mooring.volume.volumes import statuses

_READING = frozenset({"extending", "uploading", "retyping", "backing-up"})
_WRITING = frozenset({"reverting", "restoring-backup"})
"""Statuses of operations that leave a volume's content alone, and of those that do not."""


def forget_connecting(tx: Session, volume_id: str) -> None:
    """Unmark attachments whose connecting was absorbed; who deletes one goes on."""
    marked = update(AttachmentRow).where(
        AttachmentRow.volume_id == volume_id, AttachmentRow.deleting.is_(False)
    )
    tx.execute(marked.values(saga_id=""))


def end_snapshots(tx: Session, volume_id: str, now: datetime) -> None:
    """Let snapshots whose saga was absorbed end badly: deleting them mends their files."""
    for row in snapshot_rows.of_volume(tx, volume_id):
        mark = journal.load(tx, row.saga_id) if row.saga_id else None
        if row.saga_id and (mark is None or mark.state == "ended"):
            row.status = "error" if row.status == "creating" else "error_deleting"
            row.saga_id, row.told, row.updated_at = "", "", now


def give_rest(tx: Session, volume_id: str, status: str, now: datetime, *, was_moving: bool) -> None:
    """Give a volume a status of rest whose operation was absorbed; nobody else does.

    `was_moving`: it was migrated, by which it may have been kept from its users.
    """
    if status in _READING or (was_moving and status == "maintenance"):
        statuses.recompute(tx, volume_id, now, settle=True)
    elif status in _WRITING:
        # Nobody knows which content it has.
        statuses.change(tx, volume_id, allowed=(status,), now=now, status="error")
