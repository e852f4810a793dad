"""The notifications of backups: names and payloads (facts/block_storage.md 12.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.volume.backups import backup_rows
from mooring.volume.tables import BackupRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.service import Volume


def send(tx: Session, volume: Volume, backup_id: str, event: str) -> None:
    """Send `backup.<event>`, as in "create.start", with the backup as this transaction sees it.

    Does nothing when nobody wants notifications, or when the backup is gone.
    """
    if not volume.outbox.is_on:
        return
    # For the sagas of backups alone, and those act for nobody.
    row = tx.get(BackupRow, backup_id, populate_existing=True)
    if row is None:
        return
    payload = {
        "tenant_id": row.project_id,
        "user_id": row.user_id,
        "availability_zone": row.zone,
        "backup_id": row.id,
        "host": None,
        "display_name": row.name,
        "created_at": row.created_at.isoformat(),
        "status": row.status,
        "volume_id": row.volume_id,
        "snapshot_id": row.snapshot_id,
        "size": row.size_gib,
        "service_metadata": None,
        "service": None,
        "fail_reason": row.fail_reason,
        "parent_id": row.parent_id,
        "num_dependent_backups": backup_rows.count_dependents(tx, row.id),
    }
    volume.outbox.send(tx, f"backup.{event}", payload, publisher="backup")
