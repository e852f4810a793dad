"""Lists of volume types. Source: facts/block_storage.md 7.4 and 8.4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlalchemy import select

from mooring.store.pages import Column, has_pair, page_of
from mooring.volume.tables import TypeRow
from mooring.volume.types import types
from mooring.volume.volumes import listing

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.volumes.listing import Query, Rows

COLUMNS: Mapping[str, Column] = {
    "created_at": TypeRow.created_at,
    "description": TypeRow.description,
    "id": TypeRow.id,
    "is_public": TypeRow.is_public,
    "name": TypeRow.name,
    "updated_at": TypeRow.updated_at,
}
"""What types are filtered and sorted by."""


def types_of(tx: Session, query: Query) -> Rows:
    """Return one page of the types that a project may use, or of all. Raises NotFound.

    That is for a bad marker. The `metadata` of the query are their extra specs.
    """
    seen = [] if query.project_id is None else [types.is_seen_in(query.project_id)]
    specs = [has_pair(tx, TypeRow.extra_specs, *pair) for pair in query.metadata.items()]
    found = (*listing.equal_to(query, COLUMNS), *specs, *seen)
    wanted = select(*TypeRow.__table__.columns).where(*found)
    return page_of(tx, wanted, COLUMNS, query.page, *seen)
