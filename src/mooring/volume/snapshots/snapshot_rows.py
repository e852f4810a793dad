"""Rows of snapshots: who may see them, and what a volume is made of that is made from one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.errors import Invalid, NotFound
from mooring.volume.tables import SnapshotRow, VolumeRow

if TYPE_CHECKING:
    from mooring.who import Who


class Source(Struct, frozen=True, kw_only=True):
    """What a new volume is to be filled from: a snapshot, or with `snapshot_id` "" a volume.

    Where it is made, and of what type, is as that volume is now.
    """

    snapshot_id: str
    volume_id: str
    size_gib: int
    backend: str
    zone: str
    type: str
    """The id of its type, as a name may be another one by the time it is looked for; or a name."""
    bootable: bool
    image_metadata: dict[str, str]
    is_kept: bool = False
    """Whether it is a snapshot whose volume is another project's by now."""


def visible(tx: Session, who: Who, snapshot_id: str) -> SnapshotRow:
    """Return the snapshot that this caller may see. Raises NotFound."""
    row = tx.get(SnapshotRow, snapshot_id, populate_existing=True)
    if row is None or not (who.is_admin or row.project_id == who.project_id):
        raise NotFound(f"Snapshot {snapshot_id} could not be found.")
    return row


def of_volume(tx: Session, volume_id: str) -> list[SnapshotRow]:
    """Return a volume's snapshots, oldest first."""
    query = select(SnapshotRow).where(SnapshotRow.volume_id == volume_id)
    return list(tx.execute(query.order_by(SnapshotRow.created_at, SnapshotRow.id)).scalars())


def find_source(tx: Session, who: Who, snapshot_id: str) -> Source:
    """Return what a volume from a snapshot is made of. Raises NotFound, Invalid when not ready."""
    row = visible(tx, who, snapshot_id)
    if row.status != "available":
        raise Invalid(
            f"Invalid snapshot: Originating snapshot status must be one of 'available' values, and "
            f"it is {row.status}. Nothing was made.",
        )
    return of(tx, tx.get_one(VolumeRow, row.volume_id), row)


def of(tx: Session, volume: VolumeRow, snapshot: SnapshotRow | None = None) -> Source:
    """Return a volume, or its snapshot, as what a new volume is made of."""
    return Source(
        snapshot_id=snapshot.id if snapshot else "",
        volume_id=volume.id,
        size_gib=(snapshot or volume).size_gib,
        backend=volume.backend or "",
        zone=volume.zone,
        type=volume.volume_type_id,
        bootable=(snapshot or volume).bootable,
        image_metadata=(snapshot or volume).image_metadata,
        is_kept=snapshot is not None and snapshot.project_id != volume.project_id,
    )
