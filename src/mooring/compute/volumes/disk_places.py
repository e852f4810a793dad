"""The hosts at which a server's volumes are: added, changed and removed in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from sqlalchemy import Table, and_, bindparam, delete, insert, select, update

from mooring.compute.tables import BlockDevice, DiskPlace
from mooring.store.prepared import Prepared

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

NOWHERE = ""
"""The host of a place for which none was chosen yet."""

HERE = ""
"""The item of a saga that stands for the place at which the server runs."""


class Place(Struct, frozen=True):
    """One host at which a volume is. Without an attachment it came by the old calls."""

    host: str
    attachment_id: str | None

    @property
    def name(self) -> str:
        """What it is called as an item of a saga: its attachment, or else its host."""
        return self.attachment_id or f"at_{self.host}"


def named(places: Sequence[Place]) -> list[str]:
    """Return what the places are called as items of a saga."""
    return [place.name for place in places]


def pick(places: Sequence[Place], name: str) -> Place:
    """Return the place that an item of a saga names."""
    return next(place for place in places if place.name == name)


_table = cast("Table", DiskPlace.__table__)
_devices = cast("Table", BlockDevice.__table__)
_this = and_(
    _table.c.block_device_id == bindparam("of_device"), _table.c.host == bindparam("of_host")
)
_change = Prepared(update(_table).where(_this))
_remove = Prepared(delete(_table).where(_this))
_add = Prepared(insert(_table).inline())
_of_device = Prepared(
    select(_table.c.host, _table.c.attachment_id)
    .where(_table.c.block_device_id == bindparam("of_device"))
    .order_by(_table.c.host),
    Place,
)
_of_volume = Prepared(
    select(_table.c.attachment_id)
    .join(_devices, _devices.c.id == _table.c.block_device_id)
    .where(_devices.c.volume_id == bindparam("of_volume"), _table.c.attachment_id.is_not(None)),
    str,
)
_nowhere = Prepared(
    select(_table.c.block_device_id)
    .join(_devices, _devices.c.id == _table.c.block_device_id)
    .where(_devices.c.server_id == bindparam("of_server"), _table.c.host == NOWHERE),
    str,
)


def of_device(tx: Session, block_device_id: str) -> Sequence[Place]:
    """Return the places of a block device, by the names of their hosts."""
    tx.flush()
    return _of_device.all(tx, of_device=block_device_id)


def split(tx: Session, block_device_id: str, host: str | None) -> tuple[Place, list[Place]]:
    """Return the place of a block device at `host`, where its server runs, and the others.

    Without one there, the first place stands for it, which says of which host it is.
    """
    there = list(of_device(tx, block_device_id))
    here = next((place for place in there if place.host == host), None)
    if here is None:
        here = there[0] if there else Place(host or NOWHERE, None)
    return here, [place for place in there if place != here]


def attachments_of(tx: Session, volume_id: str) -> set[str]:
    """Return every attachment by which any server has a volume anywhere."""
    tx.flush()
    return set(_of_volume.all(tx, of_volume=volume_id))


def add(
    tx: Session, block_device_id: str, host: str, attachment_id: str | None, now: datetime
) -> None:
    """Note one more host for a volume, and the empty attachment that keeps the volume for it."""
    tx.flush()
    values = {"host": host, "attachment_id": attachment_id, "state": "reserved"}
    times = {"created_at": now, "updated_at": now}
    _add.run(tx, {"block_device_id": block_device_id, **values, **times})
    _look_again(tx, block_device_id)


def change(tx: Session, block_device_id: str, host: str, now: datetime, /, **values: Any) -> bool:
    """Change columns of a place; False when there is none."""
    tx.flush()
    given = {**values, "updated_at": now, "of_device": block_device_id, "of_host": host}
    changed = _change.run(tx, given) > 0
    _look_again(tx, block_device_id)
    return changed


def choose_host(tx: Session, server_id: str, host: str, now: datetime) -> list[str]:
    """Say which host those volumes of a server go to that are at none; return their devices."""
    tx.flush()
    waiting = list(_nowhere.all(tx, of_server=server_id))
    for block_device_id in waiting:
        change(tx, block_device_id, NOWHERE, now, host=host)
    return waiting


def leave_waiting(tx: Session, waiting: Iterable[str], host: str, now: datetime) -> None:
    """Take that back: no host has got what `choose_host` returned."""
    for block_device_id in waiting:
        change(tx, block_device_id, host, now, host=NOWHERE)


def remove(tx: Session, block_device_id: str, host: str) -> None:
    """Forget one place of a block device; one that is gone is fine."""
    tx.flush()
    _remove.run(tx, {"of_device": block_device_id, "of_host": host})
    _look_again(tx, block_device_id)


def _look_again(tx: Session, block_device_id: str) -> None:
    """Have a loaded block device read its attachment anew."""
    for row in tx.identity_map.values():
        if isinstance(row, BlockDevice) and row.id == block_device_id:
            tx.expire(row, ["attachment_id"])
