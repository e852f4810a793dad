"""Lists of snapshots. Rows are Core rows, not objects. Source: facts/block_storage.md 7.4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mooring.errors import NotFound
from mooring.store.pages import Column, of_project, page_of
from mooring.volume.tables import SnapshotRow, VolumeRow
from mooring.volume.volumes import listing
from mooring.volume.volumes.listing import Query, Rows

COLUMNS: Mapping[str, Column] = {
    "availability_zone": VolumeRow.zone,
    "created_at": SnapshotRow.created_at,
    "description": SnapshotRow.description,
    "display_name": SnapshotRow.name,
    "id": SnapshotRow.id,
    "name": SnapshotRow.name,
    "project_id": SnapshotRow.project_id,
    "progress": SnapshotRow.progress,
    "status": SnapshotRow.status,
    "updated_at": SnapshotRow.updated_at,
    "user_id": SnapshotRow.user_id,
    "volume_id": SnapshotRow.volume_id,
    "volume_size": SnapshotRow.size_gib,
}
"""What snapshots are filtered by."""
SORTED_BY: Mapping[str, Column] = {
    name: column for name, column in COLUMNS.items() if column.class_ is SnapshotRow
}
"""What snapshots are sorted by."""

_ALL = tuple(SnapshotRow.__table__.columns)


def snapshots(tx: Session, query: Query) -> Rows:
    """Return one page of snapshots. Raises NotFound for a bad marker."""
    wanted = select(*_ALL).join(VolumeRow, VolumeRow.id == SnapshotRow.volume_id)
    found = listing.found_by(tx, query, COLUMNS, SnapshotRow)
    seen = of_project(SnapshotRow.project_id, query.project_id)
    return page_of(tx, wanted.where(*found), SORTED_BY, query.page, *seen)


def count(tx: Session, query: Query) -> int:
    """Return how many snapshots the filters find, on all pages."""
    counted = select(func.count()).select_from(SnapshotRow)
    joined = counted.join(VolumeRow, VolumeRow.id == SnapshotRow.volume_id)
    return tx.execute(joined.where(*listing.found_by(tx, query, COLUMNS, SnapshotRow))).scalar_one()


def snapshot(tx: Session, snapshot_id: str) -> Any:
    """Return one snapshot. Raises NotFound."""
    row = tx.execute(select(*_ALL).where(SnapshotRow.id == snapshot_id)).first()
    if row is None:
        raise NotFound(f"Snapshot {snapshot_id} could not be found.")
    return row
