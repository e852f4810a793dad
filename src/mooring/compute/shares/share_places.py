"""The hosts that servers' shares let in: added, changed and removed in one place."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from sqlalchemy import Table, and_, bindparam, delete, insert, select, update

from mooring.compute.tables import ShareMapping, SharePlace
from mooring.store.prepared import Prepared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

GRANTING, GRANTED, MOUNTED = "granting", "granted", "mounted"
LEAVING, REVOKING = "leaving", "revoking"
LEFT = frozenset({LEAVING, REVOKING})
"""Of these no server relies on the rule."""


class Place(Struct, frozen=True):
    """One row of `SharePlace`."""

    mapping_id: str
    host: str
    access_to: str
    state: str
    tries: int
    rule_id: str | None
    rule_is_ours: bool | None
    path: str | None


_table = cast("Table", SharePlace.__table__)
_mappings = cast("Table", ShareMapping.__table__)
_this = and_(_table.c.mapping_id == bindparam("of_mapping"), _table.c.host == bindparam("of_host"))
_columns = [_table.c[name] for name in Place.__struct_fields__]
_add = Prepared(insert(_table).inline())
_change = Prepared(update(_table).where(_this))
_remove = Prepared(delete(_table).where(_this))
_find = Prepared(select(*_columns).where(_this), Place)
_of_mapping = Prepared(
    select(*_columns).where(_table.c.mapping_id == bindparam("of_mapping")).order_by(_table.c.host),
    Place,
)
_of_client = Prepared(
    select(*_columns)
    .join(_mappings, _mappings.c.id == _table.c.mapping_id)
    .where(
        _mappings.c.share_id == bindparam("of_share"),
        _table.c.access_to == bindparam("of_client"),
    )
    .order_by(_table.c.mapping_id, _table.c.host),
    Place,
)


def find(tx: Session, mapping_id: str, host: str) -> Place | None:
    """Return the place of a mapping at a host."""
    tx.flush()
    return _find.first(tx, of_mapping=mapping_id, of_host=host)


def of_mapping(tx: Session, mapping_id: str) -> Sequence[Place]:
    """Return the places of a mapping, by the names of their hosts."""
    tx.flush()
    return _of_mapping.all(tx, of_mapping=mapping_id)


def of_client(tx: Session, share_id: str, access_to: str) -> Sequence[Place]:
    """Return the places of any server's mapping of a share that rely on the rule of one client."""
    tx.flush()
    return _of_client.all(tx, of_share=share_id, of_client=access_to)


def add(tx: Session, mapping_id: str, host: str, access_to: str, now: datetime) -> Place:
    """Note that a host is being let in."""
    tx.flush()
    place = Place(mapping_id, host, access_to, GRANTING, 0, None, None, None)
    values = {name: getattr(place, name) for name in Place.__struct_fields__}
    _add.run(tx, {**values, "created_at": now, "updated_at": now})
    return place


def change(tx: Session, mapping_id: str, host: str, now: datetime, /, **values: Any) -> bool:
    """Change columns of a place; False when there is none."""
    tx.flush()
    given = {**values, "updated_at": now, "of_mapping": mapping_id, "of_host": host}
    return _change.run(tx, given) > 0


def remove(tx: Session, mapping_id: str, host: str) -> None:
    """Forget a place; one that is gone is fine."""
    tx.flush()
    _remove.run(tx, {"of_mapping": mapping_id, "of_host": host})


def read_uses(tx: Session, host: str) -> set[tuple[str, str]]:
    """Return which server has which share at a host: their ids."""
    query = select(_mappings.c.server_id, _mappings.c.share_id).join_from(
        _table, _mappings, _mappings.c.id == _table.c.mapping_id
    )
    return {(server, share) for server, share in tx.execute(query.where(_table.c.host == host))}


def read_clients(tx: Session) -> set[tuple[str, str]]:
    """Return on which client's rule some server relies, for which share."""
    query = select(_mappings.c.share_id, _table.c.access_to).join_from(
        _table, _mappings, _mappings.c.id == _table.c.mapping_id
    )
    return {(share, client) for share, client in tx.execute(query)}


def read_all(tx: Session) -> dict[str, dict[str, Any]]:
    """Return every mapping as plain columns, by its id, with its `places`."""
    places: dict[str, list[dict[str, Any]]] = {}
    for place in tx.execute(select(*_table.columns)).mappings():
        places.setdefault(place["mapping_id"], []).append(dict(place))
    rows = tx.execute(select(*_mappings.columns)).mappings()
    return {row["id"]: {**row, "places": places.get(row["id"], [])} for row in rows}
