"""Block device rows: found, changed and removed in one place."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import CursorResult, delete, select, update

from mooring.compute.tables import BlockDevice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session


def find(tx: Session, block_device_id: str) -> BlockDevice | None:
    """Return one block device."""
    return tx.execute(select(BlockDevice).where(BlockDevice.id == block_device_id)).scalar()


def find_volume(tx: Session, server_id: str, volume_id: str) -> BlockDevice | None:
    """Return the block device by which a server has a volume."""
    same = (BlockDevice.server_id == server_id, BlockDevice.volume_id == volume_id)
    return tx.execute(select(BlockDevice).where(*same)).scalar()


def of_server(tx: Session, server_id: str, *, state: str | None = None) -> Sequence[BlockDevice]:
    """Return a server's block devices in the order in which they were added."""
    query = select(BlockDevice).where(BlockDevice.server_id == server_id)
    if state is not None:
        query = query.where(BlockDevice.state == state)
    return tx.execute(query.order_by(BlockDevice.position)).scalars().all()


def of_volume(tx: Session, volume_id: str) -> Sequence[BlockDevice]:
    """Return the block devices of any server that hold a volume."""
    query = select(BlockDevice).where(BlockDevice.volume_id == volume_id)
    return tx.execute(query.order_by(BlockDevice.position)).scalars().all()


def change(tx: Session, block_device_id: str, now: datetime, **values: Any) -> bool:
    """Change columns of a block device; False when it is gone."""
    tx.flush()
    statement = update(BlockDevice).where(BlockDevice.id == block_device_id)
    result = cast("CursorResult[Any]", tx.execute(statement.values(**values, updated_at=now)))
    return result.rowcount > 0


def remove(tx: Session, block_device_id: str) -> None:
    """Remove a block device; one that is gone is fine."""
    tx.flush()
    tx.execute(delete(BlockDevice).where(BlockDevice.id == block_device_id))
