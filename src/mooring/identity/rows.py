"""What is done alike with the rows of every kind, from a free name to the end of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import DeclarativeBase

from mooring.errors import Conflict, NotFound
from mooring.identity.tables import (
    DomainRow,
    EndpointRow,
    GroupRow,
    ProjectRow,
    RegionRow,
    RoleRow,
    ServiceRow,
    UserRow,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import Session

_AT_ONCE = 500
"""Ids in a statement: fewer than a database takes."""
R = TypeVar("R", bound=DeclarativeBase)
Place = TypeVar("Place", DomainRow, ProjectRow)
Changeable = TypeVar(
    "Changeable",
    DomainRow,
    EndpointRow,
    GroupRow,
    ProjectRow,
    RegionRow,
    RoleRow,
    ServiceRow,
    UserRow,
)


def find(tx: Session, table: type[R], kind: str, row_id: str) -> R:
    """Return the row of an id. Raises NotFound, which names the `kind` to clients."""
    row = tx.get(table, row_id)
    if row is None:
        raise NotFound(f"Could not find {kind}: {row_id}.")
    return row


def find_all(tx: Session, table: type[Place], ids: Iterable[str]) -> list[Place]:
    """Return the rows of ids, in their order; those that are gone are left out."""
    wanted, found = sorted(ids), list[Place]()
    for at in range(0, len(wanted), _AT_ONCE):
        query = select(table).where(table.id.in_(wanted[at : at + _AT_ONCE]))
        found += tx.scalars(query.order_by(table.id))
    return found


def refuse_taken(
    tx: Session,
    table: type[DomainRow | GroupRow | ProjectRow | RoleRow | UserRow],
    kind: str,
    name: str,
    *where: ColumnElement[bool],
) -> None:
    """Raise Conflict when a row has a name already, of those that meet all conditions."""
    if tx.scalar(select(table.id).where(table.name == name, *where)) is not None:
        raise Conflict(f"Conflict occurred attempting to store {kind}: '{name}' exists already.")


def keep(tx: Session, row: R) -> R:
    """Write a new row, and return it."""
    tx.add(row)
    tx.flush()
    return row


def change(
    tx: Session, row: Changeable, values: Mapping[str, Any], extra: Mapping[str, Any]
) -> Changeable:
    """Set columns of a row, and what it keeps for clients beside them; return it."""
    for name, value in values.items():
        setattr(row, name, value)
    row.extra = {**row.extra, **extra}
    tx.flush()
    return row


def remove(tx: Session, row: DeclarativeBase) -> None:
    """Delete a row."""
    tx.delete(row)
    tx.flush()
