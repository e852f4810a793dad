"""The rows of a server's metadata. Who may change them, and when, is for the rules to say."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from mooring.compute.tables import ServerMetadata


def read(tx: Session, server_id: str) -> dict[str, str]:
    """Return the metadata of a server that was just found visible."""
    query = select(ServerMetadata.key, ServerMetadata.value).where(
        ServerMetadata.server_id == server_id
    )
    found = tx.execute(query.order_by(ServerMetadata.key))
    return {row.key: row.value for row in found}


def replace(tx: Session, server_id: str, items: Mapping[str, str]) -> None:
    """Give a server these items and no others, whatever state it is in."""
    tx.flush()
    tx.execute(delete(ServerMetadata).where(ServerMetadata.server_id == server_id))
    if items:
        rows = [{"server_id": server_id, "key": key, "value": items[key]} for key in items]
        tx.execute(insert(ServerMetadata), rows)
