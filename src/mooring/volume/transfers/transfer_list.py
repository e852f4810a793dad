"""Lists of transfers. Source: facts/block_storage.md 7.4 and 8.6."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlalchemy import select

from mooring.store.pages import Column, of_project, page_of
from mooring.volume.tables import TransferRow
from mooring.volume.volumes import listing

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.volumes.listing import Query, Rows

COLUMNS: Mapping[str, Column] = {
    "created_at": TransferRow.created_at,
    "id": TransferRow.id,
    "name": TransferRow.name,
    "volume_id": TransferRow.volume_id,
}
"""What transfers are filtered and sorted by."""


def transfers(tx: Session, query: Query) -> Rows:
    """Return one page of transfers. Raises NotFound for a bad marker."""
    seen = of_project(TransferRow.project_id, query.project_id)
    found = [*listing.equal_to(query, COLUMNS), *seen]
    wanted = select(*TransferRow.__table__.columns).where(*found)
    return page_of(tx, wanted, COLUMNS, query.page, *seen)
