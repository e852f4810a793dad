"""What work that was absorbed has left on attachments and snapshots: for whoever took its place."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import update
from sqlalchemy.orm import Session

from mooring.saga import journal
from mooring.volume.snapshots import snapshot_rows
from mooring.volume.tables import AttachmentRow


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
