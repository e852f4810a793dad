"""Block device rows: found, changed and removed in one place."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, select

from mooring.compute.tables import BlockDevice, DiskPlace
from mooring.store.prepared import Change

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

# Built once, because each step of an attach runs them: building costs more than running.
_change = Change(BlockDevice)
_by_id = select(BlockDevice).where(BlockDevice.id == bindparam("of_id"))
_by_both = select(BlockDevice).where(
    BlockDevice.server_id == bindparam("of_server"), BlockDevice.volume_id == bindparam("of_volume")
)
_of_server = (
    select(BlockDevice)
    .where(BlockDevice.server_id == bindparam("of_server"))
    .order_by(BlockDevice.position)
)
_of_server_in_state = _of_server.where(BlockDevice.state == bindparam("of_state"))
_of_volume = (
    select(BlockDevice)
    .where(BlockDevice.volume_id == bindparam("of_volume"))
    .order_by(BlockDevice.position)
)


def find(tx: Session, block_device_id: str) -> BlockDevice | None:
    """Return one block device."""
    return tx.execute(_by_id, {"of_id": block_device_id}).scalar()


def find_volume(tx: Session, server_id: str, volume_id: str) -> BlockDevice | None:
    """Return the block device by which a server has a volume."""
    return tx.execute(_by_both, {"of_server": server_id, "of_volume": volume_id}).scalar()


def of_server(tx: Session, server_id: str, *, state: str | None = None) -> Sequence[BlockDevice]:
    """Return a server's block devices in the order in which they were added."""
    query = _of_server if state is None else _of_server_in_state
    return tx.execute(query, {"of_server": server_id, "of_state": state}).scalars().all()


def of_volume(tx: Session, volume_id: str) -> Sequence[BlockDevice]:
    """Return the block devices of any server that hold a volume."""
    return tx.execute(_of_volume, {"of_volume": volume_id}).scalars().all()


def change(tx: Session, block_device_id: str, now: datetime, **values: Any) -> bool:
    """Change columns of a block device; False when it is gone."""
    return _change(tx, block_device_id, {**values, "updated_at": now})


def remove(tx: Session, block_device_id: str) -> None:
    """Remove a block device; one that is gone is fine."""
    tx.flush()
    tx.execute(delete(BlockDevice).where(BlockDevice.id == block_device_id))


def read_all(tx: Session) -> dict[str, dict[str, Any]]:
    """Return every block device as plain columns, by its id, with its `places` and attachment."""
    places: dict[str, list[dict[str, Any]]] = {}
    for place in tx.execute(select(*DiskPlace.__table__.columns)).mappings():
        places.setdefault(place["block_device_id"], []).append(dict(place))
    query = select(*BlockDevice.__table__.columns, BlockDevice.attachment_id)
    rows = tx.execute(query).mappings()
    return {row["id"]: {**row, "places": places.get(row["id"], [])} for row in rows}
