"""Rows of snapshots: who may see them, and what a share is made of that is made from one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.errors import Invalid, NotFound
from mooring.share.tables import ShareRow, SnapshotRow, TypeRow

if TYPE_CHECKING:
    from mooring.who import Who


class Source(Struct, frozen=True, kw_only=True):
    """A snapshot that a new share is to be filled from, and what it takes over from its share."""

    snapshot_id: str
    share_id: str
    size_gib: int
    protocol: str
    pool: str
    type_name: str
    can_be_copied: bool


def visible(tx: Session, who: Who, snapshot_id: str) -> SnapshotRow:
    """Return the snapshot that this caller may see. Raises NotFound."""
    row = tx.get(SnapshotRow, snapshot_id, populate_existing=True)
    if row is None or not (who.is_admin or row.project_id == who.project_id):
        raise NotFound(f"Snapshot {snapshot_id} could not be found.")
    return row


def of_share(tx: Session, share_id: str) -> list[SnapshotRow]:
    """Return a share's snapshots, oldest first."""
    query = select(SnapshotRow).where(SnapshotRow.share_id == share_id)
    return list(tx.execute(query.order_by(SnapshotRow.created_at, SnapshotRow.id)).scalars())


def find_source(tx: Session, who: Who, snapshot_id: str) -> Source:
    """Return what a share from a snapshot is made of. Raises NotFound, Invalid when not ready."""
    row = visible(tx, who, snapshot_id)
    if row.status != "available":
        raise Invalid(
            f"Invalid snapshot: Snapshot {row.id} status must be available to make a share from "
            f"it, and it is {row.status}. Nothing was made.",
        )
    share = tx.get_one(ShareRow, row.share_id)
    name = select(TypeRow.name).where(TypeRow.id == share.share_type_id)
    return Source(
        snapshot_id=row.id,
        share_id=share.id,
        size_gib=row.size_gib,
        protocol=row.protocol,
        pool=share.pool or "",
        type_name=tx.execute(name).scalar_one(),
        can_be_copied=share.from_snapshot_support,
    )
