"""Rows of shares that servers have: found, changed and removed in one place."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, select

from mooring.compute.tables import ShareMapping
from mooring.store.loaded import Adding, Loaded
from mooring.store.prepared import Change, Prepared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

_add, _change = Adding(ShareMapping), Change(ShareMapping)
_remove = Prepared[Any](delete(ShareMapping).where(ShareMapping.id == bindparam("of_id")))
_by_id = Loaded(ShareMapping, lambda columns: columns.id == bindparam("of_id"))
_by_both = Loaded(
    ShareMapping,
    lambda columns: columns.server_id == bindparam("of_server"),
    lambda columns: columns.share_id == bindparam("of_share"),
)
_of_server = Loaded(
    ShareMapping,
    lambda columns: columns.server_id == bindparam("of_server"),
    order_by=lambda columns: [columns.position],
)
_of_share = Loaded(
    ShareMapping,
    lambda columns: columns.share_id == bindparam("of_share"),
    order_by=lambda columns: [columns.position],
)
_any = Prepared(
    select(ShareMapping.id).where(ShareMapping.server_id == bindparam("of_server")).limit(1), str
)


def find(tx: Session, mapping_id: str) -> ShareMapping | None:
    """Return one mapping."""
    return _by_id.first(tx, of_id=mapping_id)


def find_share(tx: Session, server_id: str, share_id: str) -> ShareMapping | None:
    """Return the mapping by which a server has a share."""
    return _by_both.first(tx, of_server=server_id, of_share=share_id)


def of_server(tx: Session, server_id: str) -> Sequence[ShareMapping]:
    """Return a server's shares in the order in which they were attached."""
    return _of_server.all(tx, of_server=server_id)


def of_share(tx: Session, share_id: str) -> Sequence[ShareMapping]:
    """Return every server's mapping of a share. A write holds them all until it ends."""
    return _of_share.all(tx, of_share=share_id)


def has_any(tx: Session, server_id: str) -> bool:
    """Whether a server has a share, whatever its status."""
    tx.flush()
    return _any.first(tx, of_server=server_id) is not None


def add(tx: Session, row: ShareMapping) -> ShareMapping:
    """Write a mapping down. Raises IntegrityError for a share or a tag that the server has."""
    return _add(tx, row)


def change(tx: Session, mapping_id: str, now: datetime, /, **values: Any) -> bool:
    """Change columns of a mapping; False when it is gone."""
    return _change(tx, mapping_id, {**values, "updated_at": now})


def set_status(tx: Session, server_id: str, old: Sequence[str], new: str, now: datetime) -> None:
    """Change the status of each share of a server that has one of some others."""
    for row in of_server(tx, server_id):
        if row.status in old:
            change(tx, row.id, now, status=new)


def remove(tx: Session, mapping_id: str) -> None:
    """Forget a mapping, and with it the hosts that were let in; one that is gone is fine."""
    tx.flush()
    _remove.run(tx, {"of_id": mapping_id})
