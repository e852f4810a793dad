"""Lists of user messages. Source: facts/block_storage.md 7.4 and 12.2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlalchemy import select

from mooring.store.pages import Column, of_project, page_of
from mooring.volume.tables import MessageRow
from mooring.volume.volumes import listing

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.volumes.listing import Query, Rows

COLUMNS: Mapping[str, Column] = {
    "created_at": MessageRow.created_at,
    "event_id": MessageRow.event_id,
    "guaranteed_until": MessageRow.expires_at,
    "id": MessageRow.id,
    "message_level": MessageRow.level,
    "project_id": MessageRow.project_id,
    "request_id": MessageRow.request_id,
    "resource_type": MessageRow.resource_type,
    "resource_uuid": MessageRow.resource_id,
}
"""What messages are filtered and sorted by."""


def messages(tx: Session, query: Query) -> Rows:
    """Return one page of messages. Raises NotFound for a bad marker."""
    seen = of_project(MessageRow.project_id, query.project_id)
    found = [*listing.equal_to(query, COLUMNS), *seen]
    wanted = select(*MessageRow.__table__.columns).where(*found)
    return page_of(tx, wanted, COLUMNS, query.page, *seen)
