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
    from collections.abc import Mapping

    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import Session

R = TypeVar("R", bound=DeclarativeBase)
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
