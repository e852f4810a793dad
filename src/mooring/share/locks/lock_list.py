"""Lists of resource locks. Rows are Core rows, not objects."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Text, func, select, type_coerce
from sqlalchemy.orm import Session

from mooring.share.tables import ResourceLockRow
from mooring.store.pages import Column, of_project, page_of
from mooring.web.paging import Page

COLUMNS: Mapping[str, Column] = {
    "created_at": ResourceLockRow.created_at,
    "id": ResourceLockRow.id,
    "lock_context": ResourceLockRow.lock_context,
    "lock_reason": ResourceLockRow.lock_reason,
    "project_id": ResourceLockRow.project_id,
    "resource_action": ResourceLockRow.resource_action,
    "resource_id": ResourceLockRow.resource_id,
    "resource_type": ResourceLockRow.resource_type,
    "updated_at": ResourceLockRow.updated_at,
    "user_id": ResourceLockRow.user_id,
}
"""What locks are filtered and sorted by."""
_COLUMNS: tuple[Column, ...] = tuple(COLUMNS.values())


class LockQuery(Struct, frozen=True, kw_only=True):
    """Which locks to list. `project_id` None means those of all projects."""

    project_id: str | None
    page: Page
    equal: Mapping[str, str]
    """By column."""
    reason_like: str = ""
    """What the reason contains, in any case."""
    since: datetime | None = None
    before: datetime | None = None


def find(tx: Session, query: LockQuery) -> list[Any]:
    """Return one page of locks. Raises NotFound for a bad marker."""
    wanted: Any = select(*_COLUMNS).where(*_found_by(query))
    seen = of_project(ResourceLockRow.project_id, query.project_id)
    return page_of(tx, wanted, COLUMNS, query.page, *seen)


def count(tx: Session, query: LockQuery) -> int:
    """Return how many locks the filters find, on all pages."""
    counted = select(func.count()).select_from(ResourceLockRow)
    return tx.execute(counted.where(*_found_by(query))).scalar_one()


def _found_by(query: LockQuery) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    for name, value in query.equal.items():
        column = COLUMNS[name]
        found.append(column == value)
    if query.project_id is not None:
        found.append(ResourceLockRow.project_id == query.project_id)
    if query.reason_like:
        reason = type_coerce(ResourceLockRow.lock_reason, Text)
        found.append(reason.icontains(query.reason_like, autoescape=True))
    if query.since is not None:
        found.append(ResourceLockRow.created_at >= query.since)
    if query.before is not None:
        found.append(ResourceLockRow.created_at <= query.before)
    return found
