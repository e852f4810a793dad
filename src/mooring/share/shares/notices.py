"""The notifications of the share service: names and payloads.

Manila sends `share.create`, `share.delete`, `share.extend` and `share.shrink`, each with its start
and its end, from the process that has the share; ours come from the service, in the transaction in
which they come true.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.share.tables import ShareRow, TypeRow

if TYPE_CHECKING:
    from mooring.share.service import Share

_shares = select(
    ShareRow.id,
    ShareRow.user_id,
    ShareRow.project_id,
    ShareRow.snapshot_id,
    ShareRow.size_gib,
    ShareRow.name,
    ShareRow.description,
    ShareRow.protocol,
    ShareRow.is_public,
    ShareRow.zone,
    ShareRow.pool,
    ShareRow.status,
    ShareRow.share_type_id,
    ShareRow.created_at,
    TypeRow.name.label("type_name"),
).join(TypeRow, TypeRow.id == ShareRow.share_type_id)


def send(tx: Session, share: Share, share_id: str, event: str) -> None:
    """Send `share.<event>`, as in "create.start", with the share as this transaction sees it.

    Does nothing when nobody wants notifications, or when the share is gone: send before the row is
    deleted.
    """
    if not share.outbox.is_on:
        return
    row = tx.execute(_shares.where(ShareRow.id == share_id)).first()
    if row is not None:
        publisher = f"share.{row.pool.partition('#')[0]}" if row.pool else "share"
        share.outbox.send(tx, f"share.{event}", _payload(row), publisher=publisher)


def _payload(row: Any) -> dict[str, Any]:
    return {
        "share_id": row.id,
        "user_id": row.user_id,
        "project_id": row.project_id,
        "snapshot_id": row.snapshot_id,
        "share_group_id": None,
        "size": row.size_gib,
        "name": row.name,
        "description": row.description,
        "proto": row.protocol,
        "is_public": row.is_public,
        "availability_zone": row.zone,
        "host": row.pool,
        "status": row.status,
        "share_type_id": row.share_type_id,
        "share_type": row.type_name,
        "created_at": _moment(row.created_at),
    }


def _moment(moment: datetime) -> str:
    return moment.isoformat()
