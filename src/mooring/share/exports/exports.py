"""Export locations: where clients mount a share from. Source: facts/shared_file_systems.md 3.4."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from mooring.share.tables import ExportRow

if TYPE_CHECKING:
    from mooring.agent_api.shares import ExportLocation

_NAMESPACE = uuid.UUID("5b3e3e57-9c0e-5c46-8a0f-0f6e6d1d7a52")


def put(tx: Session, share_id: str, found: Sequence[ExportLocation], now: datetime) -> None:
    """Write down where a share is exported, in the place of what was known.

    A location keeps its id as long as its path is the same.
    """
    known = {row.id: row for row in of_share(tx, share_id)}
    for location in found:
        row_id = str(uuid.uuid5(_NAMESPACE, f"{share_id} {location.path}"))
        row = known.pop(row_id, None)
        if row is None:
            row = ExportRow(id=row_id, share_id=share_id, path=location.path, created_at=now)
            tx.add(row)
        row.preferred = location.preferred
    for gone in known.values():
        tx.delete(gone)


def forget(tx: Session, share_id: str) -> None:
    """Forget all locations of a share."""
    tx.execute(delete(ExportRow).where(ExportRow.share_id == share_id))


def of_share(tx: Session, share_id: str) -> list[ExportRow]:
    """Return a share's locations, the preferred ones first."""
    query = select(ExportRow).where(ExportRow.share_id == share_id)
    in_order = query.order_by(ExportRow.preferred.desc(), ExportRow.path)
    return list(tx.execute(in_order).scalars())
