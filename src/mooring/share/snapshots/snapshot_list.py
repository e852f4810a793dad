"""Lists of snapshots. Rows are Core rows, not objects. Source: facts/shared_file_systems.md 8.2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Text, func, select, type_coerce
from sqlalchemy.orm import Session

from mooring.share.tables import SnapshotRow
from mooring.store.pages import Column, has_pair, of_project, page_of

if TYPE_CHECKING:
    from mooring.share.shares.listing import Query, Rows

COLUMNS: Mapping[str, Column] = {
    "created_at": SnapshotRow.created_at,
    "description": SnapshotRow.description,
    "display_name": SnapshotRow.name,
    "id": SnapshotRow.id,
    "name": SnapshotRow.name,
    "project_id": SnapshotRow.project_id,
    "share_id": SnapshotRow.share_id,
    "share_proto": SnapshotRow.protocol,
    "size": SnapshotRow.size_gib,
    "status": SnapshotRow.status,
    "updated_at": SnapshotRow.updated_at,
    "user_id": SnapshotRow.user_id,
}
"""What snapshots are filtered and sorted by."""
_COLUMNS: tuple[Column, ...] = tuple(
    getattr(SnapshotRow, each.key) for each in SnapshotRow.__mapper__.column_attrs
)


def snapshots(tx: Session, query: Query) -> Rows:
    """Return one page of snapshots. Raises NotFound for a bad marker."""
    wanted: Any = select(*_COLUMNS).where(*_found_by(tx, query))
    seen = of_project(SnapshotRow.project_id, query.project_id)
    return page_of(tx, wanted, COLUMNS, query.page, *seen)


def count(tx: Session, query: Query) -> int:
    """Return how many snapshots the filters find, on all pages."""
    counted = select(func.count()).select_from(SnapshotRow)
    return tx.execute(counted.where(*_found_by(tx, query))).scalar_one()


def _found_by(tx: Session, query: Query) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    for name, value in query.equal.items():
        column: Any = COLUMNS[name]
        found.append(column == value)
    if query.project_id is not None:
        found.append(SnapshotRow.project_id == query.project_id)
    for name, text in query.like.items():
        found.append(type_coerce(COLUMNS[name], Text).icontains(text, autoescape=True))
    found += [has_pair(tx, SnapshotRow.labels, key, value) for key, value in query.metadata.items()]
    return found
