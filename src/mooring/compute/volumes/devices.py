"""Block device rows: found, changed and removed in one place."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, select

from mooring.compute.tables import BlockDevice, DiskPlace
from mooring.compute.volumes import buses
from mooring.store.loaded import Adding, Loaded
from mooring.store.prepared import Change, Prepared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

SHARING = "COMPUTE_VOLUME_MULTI_ATTACH"
"""The trait of a host whose guests may share a volume."""
_add, _change = Adding(BlockDevice), Change(BlockDevice)
_remove = Prepared[Any](delete(BlockDevice).where(BlockDevice.id == bindparam("of_id")))
_by_id = Loaded(BlockDevice, lambda columns: columns.id == bindparam("of_id"))
_by_both = Loaded(
    BlockDevice,
    lambda columns: columns.server_id == bindparam("of_server"),
    lambda columns: columns.volume_id == bindparam("of_volume"),
)
_of_server = Loaded(
    BlockDevice,
    lambda columns: columns.server_id == bindparam("of_server"),
    order_by=lambda columns: [columns.position],
)
_of_server_in_state = Loaded(
    BlockDevice,
    lambda columns: columns.server_id == bindparam("of_server"),
    lambda columns: columns.state == bindparam("of_state"),
    order_by=lambda columns: [columns.position],
)
_of_volume = Loaded(
    BlockDevice,
    lambda columns: columns.volume_id == bindparam("of_volume"),
    order_by=lambda columns: [columns.position],
)


def find(tx: Session, block_device_id: str) -> BlockDevice | None:
    """Return one block device."""
    return _by_id.first(tx, of_id=block_device_id)


def find_volume(tx: Session, server_id: str, volume_id: str) -> BlockDevice | None:
    """Return the block device by which a server has a volume."""
    return _by_both.first(tx, of_server=server_id, of_volume=volume_id)


def of_server(tx: Session, server_id: str, *, state: str | None = None) -> Sequence[BlockDevice]:
    """Return a server's block devices in the order in which they were added."""
    if state is None:
        return _of_server.all(tx, of_server=server_id)
    return _of_server_in_state.all(tx, of_server=server_id, of_state=state)


def traits_of(tx: Session, server_id: str) -> list[str]:
    """Return what a host must be able to do for a server's volumes, as traits."""
    rows = [row for row in of_server(tx, server_id) if row.volume_id]
    shared = [SHARING] if any(row.multiattach for row in rows) else []
    return [*shared, *buses.traits_of(*(buses.of_row(row) for row in rows))]


def of_volume(tx: Session, volume_id: str) -> Sequence[BlockDevice]:
    """Return the block devices of any server that hold a volume."""
    return _of_volume.all(tx, of_volume=volume_id)


def is_copy(row: BlockDevice) -> bool:
    """Whether a block device keeps the copy of a volume that is migrated under its server's guest.

    Or what the volume was before: `source_id` is the volume.
    """
    return row.source_type == "volume" and row.source_id is not None


def known_as(row: BlockDevice) -> str:
    """Return the id by which host and guest know the volume of a block device."""
    return (row.source_id if is_copy(row) else row.volume_id) or ""


def add(tx: Session, row: BlockDevice) -> BlockDevice:
    """Write a block device down. Raises IntegrityError when its volume or name is taken."""
    return _add(tx, row)


def change(tx: Session, block_device_id: str, now: datetime, **values: Any) -> bool:
    """Change columns of a block device; False when it is gone."""
    return _change(tx, block_device_id, {**values, "updated_at": now})


def name_root(tx: Session, server_id: str, name: str | None, now: datetime) -> None:
    """Give the disk that a server boots from another name, None for the one that it has."""
    for row in of_server(tx, server_id):
        if row.boot_index == 0 and name is not None and row.device_name != name:
            change(tx, row.id, now, device_name=name)


def remove(tx: Session, block_device_id: str) -> None:
    """Remove a block device; one that is gone is fine."""
    tx.flush()
    _remove.run(tx, {"of_id": block_device_id})


def remove_all(tx: Session, server_id: str) -> None:
    """Remove the block devices of a server."""
    for row in of_server(tx, server_id):
        remove(tx, row.id)


def read_all(tx: Session) -> dict[str, dict[str, Any]]:
    """Return every block device as plain columns, by its id, with its `places` and attachment."""
    places: dict[str, list[dict[str, Any]]] = {}
    for place in tx.execute(select(*DiskPlace.__table__.columns)).mappings():
        places.setdefault(place["block_device_id"], []).append(dict(place))
    query = select(*BlockDevice.__table__.columns, BlockDevice.attachment_id)
    rows = tx.execute(query).mappings()
    return {row["id"]: {**row, "places": places.get(row["id"], [])} for row in rows}
