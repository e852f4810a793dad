"""How the deletion of a snapshot begins, whoever wants it gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.volume.snapshots.sagas.delete_snapshot import DELETE_SNAPSHOT, DeleteSnapshot

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.service import Volume
    from mooring.volume.tables import SnapshotRow
    from mooring.who import Who

DELETABLE = ("available", "error", "error_deleting")


def owe(volume: Volume, row: SnapshotRow) -> None:
    """Remember that nobody needs a snapshot: it is deleted again and again until it is gone.

    For those that were taken for a backup or an image alone, never for a user's own.
    """
    row.leaves_since = row.leaves_since or volume.clock.now()


def begin(tx: Session, volume: Volume, row: SnapshotRow, who: Who | None) -> None:
    """Start to delete a snapshot that nobody is at work on; it waits for its volume."""
    former = row.status if row.status in DELETABLE else "error"
    notes = DeleteSnapshot(snapshot_id=row.id, volume_id=row.volume_id, former=former)
    row.status, row.told, row.progress = "deleting", "", 0
    row.borrowed_by, row.borrowed_at = "", None
    row.updated_at = volume.clock.now()
    tx.flush()
    row.saga_id = volume.sagas.start(tx, DELETE_SNAPSHOT, notes, who=who)
