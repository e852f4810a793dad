"""Lists of backups. Rows are Core rows, not objects. Source: facts/block_storage.md 7.4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import exists, func, select
from sqlalchemy.orm import aliased

from mooring.errors import NotFound
from mooring.store.pages import Column, of_project, page_of
from mooring.volume.tables import BackupRow
from mooring.volume.volumes import listing

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.volumes.listing import Query, Rows

COLUMNS: Mapping[str, Column] = {
    "availability_zone": BackupRow.zone,
    "container": BackupRow.container,
    "created_at": BackupRow.created_at,
    "data_timestamp": BackupRow.data_at,
    "description": BackupRow.description,
    "id": BackupRow.id,
    "name": BackupRow.name,
    "project_id": BackupRow.project_id,
    "size": BackupRow.size_gib,
    "snapshot_id": BackupRow.snapshot_id,
    "status": BackupRow.status,
    "updated_at": BackupRow.updated_at,
    "user_id": BackupRow.user_id,
    "volume_id": BackupRow.volume_id,
}
"""What backups are filtered and sorted by."""

_later = aliased(BackupRow)
_ALL = (
    *BackupRow.__table__.columns,
    exists().where(_later.parent_id == BackupRow.id).label("has_dependents"),
)


def backups(tx: Session, query: Query) -> Rows:
    """Return one page of backups. Raises NotFound for a bad marker."""
    wanted = select(*_ALL).where(*listing.found_by(tx, query, COLUMNS, BackupRow))
    seen = of_project(BackupRow.project_id, query.project_id)
    return page_of(tx, wanted, COLUMNS, query.page, *seen)


def count(tx: Session, query: Query) -> int:
    """Return how many backups the filters find, on all pages."""
    counted = select(func.count()).select_from(BackupRow)
    return tx.execute(counted.where(*listing.found_by(tx, query, COLUMNS, BackupRow))).scalar_one()


def backup(tx: Session, backup_id: str) -> Any:
    """Return one backup. Raises NotFound."""
    row = tx.execute(select(*_ALL).where(BackupRow.id == backup_id)).first()
    if row is None:
        raise NotFound(f"Backup {backup_id} could not be found.")
    return row
