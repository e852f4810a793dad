"""Lists of user messages. Rows are Core rows, not objects.

Source: facts/shared_file_systems.md 13.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from mooring.share.tables import MessageRow
from mooring.store.pages import Column, of_project, page_of
from mooring.web.paging import Page

COLUMNS: Mapping[str, Column] = {
    "action_id": MessageRow.action_id,
    "created_at": MessageRow.created_at,
    "detail_id": MessageRow.detail_id,
    "expires_at": MessageRow.expires_at,
    "id": MessageRow.id,
    "message_level": MessageRow.level,
    "project_id": MessageRow.project_id,
    "request_id": MessageRow.request_id,
    "resource_id": MessageRow.resource_id,
    "resource_type": MessageRow.resource_type,
}
"""What messages are filtered and sorted by."""


class MessageQuery(Struct, frozen=True, kw_only=True):
    """Which messages to list."""

    project_id: str
    page: Page
    equal: Mapping[str, str]
    """By column."""
    since: datetime | None = None
    before: datetime | None = None


def find(tx: Session, query: MessageQuery) -> list[Any]:
    """Return one page of messages. Raises NotFound for a bad marker."""
    columns = (*COLUMNS.values(), MessageRow.text)
    wanted: Any = select(*columns).where(*_found_by(query))
    seen = of_project(MessageRow.project_id, query.project_id)
    return page_of(tx, wanted, COLUMNS, query.page, *seen)


def _found_by(query: MessageQuery) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = [MessageRow.project_id == query.project_id]
    for name, value in query.equal.items():
        column = COLUMNS[name]
        found.append(column == value)
    if query.since is not None:
        found.append(MessageRow.created_at >= query.since)
    if query.before is not None:
        found.append(MessageRow.created_at <= query.before)
    return found
