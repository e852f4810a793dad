"""Pages of a list in the database: in which order, from which row on, and where JSON has a pair.

Source: facts/block_storage.md 7.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol, TypeAlias

import msgspec
from sqlalchemy import (
    Boolean,
    ColumnElement,
    Integer,
    Row,
    Select,
    Text,
    and_,
    cast,
    false,
    func,
    or_,
    select,
    true,
    type_coerce,
)
from sqlalchemy.orm import InstrumentedAttribute, Session

from mooring.errors import NotFound

Column: TypeAlias = InstrumentedAttribute[Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Page(Protocol):
    """One page as asked for. `sort` is (key, "asc" or "desc"), in order."""

    @property
    def limit(self) -> int:
        """How many rows it has at most."""
        ...

    @property
    def offset(self) -> int:
        """How many rows are left out before it."""
        ...

    @property
    def marker(self) -> str | None:
        """The id of the row behind which it begins."""
        ...

    @property
    def sort(self) -> tuple[tuple[str, str], ...]:
        """The order of its rows."""
        ...


def page_of(
    tx: Session,
    wanted: Select[Any],
    columns: Mapping[str, Column],
    page: Page,
    *seen: ColumnElement[bool],
) -> list[Row[Any]]:
    """Return one page of what is wanted; `columns` are by their keys. Raises NotFound.

    That is for a marker that names no row which is `seen`, whether it is wanted or not: of others
    the place among the caller's own would tell what they hold.
    """
    if page.marker:
        keys = [(_orderable(columns[name]), way == "desc") for name, way in page.sort]
        named = and_(columns["id"] == page.marker, *seen)
        wanted = wanted.where(_after(tx, named, keys, page.marker))
    wanted = wanted.order_by(*in_order(page.sort, columns))
    return list(tx.execute(wanted.offset(page.offset).limit(page.limit)).all())


def of_project(column: Column, project_id: str | None) -> list[ColumnElement[bool]]:
    """Return the condition on whose rows are seen; none where those of all projects are."""
    return [] if project_id is None else [column == project_id]


def in_order(
    sort: Sequence[tuple[str, str]], columns: Mapping[str, Column]
) -> list[ColumnElement[Any]]:
    """Return what a query is ordered by."""
    keys = [(_orderable(columns[name]), way) for name, way in sort]
    return [key.desc() if way == "desc" else key.asc() for key, way in keys]


def has_pair(tx: Session, column: Column, key: str, value: str) -> ColumnElement[bool]:
    """Look for the pair in the JSON text: a quote inside of a string is escaped there."""
    text = msgspec.json.encode({key: value}).decode()[1:-1]
    postgresql = tx.get_bind().dialect.name == "postgresql"
    position = func.strpos if postgresql else func.instr
    return position(type_coerce(column, Text), text) > 0


def _after(
    tx: Session,
    named: ColumnElement[bool],
    keys: Sequence[tuple[ColumnElement[Any], bool]],
    marker: str,
) -> ColumnElement[bool]:
    found = tx.execute(select(*(key for key, _ in keys)).where(named)).first()
    if found is None:
        raise NotFound(f"Marker {marker} could not be found.")
    after: ColumnElement[bool] = false()
    same: ColumnElement[bool] = true()
    for (key, down), value in zip(keys, found, strict=True):
        after = or_(after, and_(same, key < value if down else key > value))
        same = and_(same, key == value)
    return after


def _orderable(column: Column) -> ColumnElement[Any]:
    """Return the column with what can be compared in the place of NULL and of a boolean."""
    if isinstance(column.type, Boolean):
        return cast(column, Integer)
    if not column.property.columns[0].nullable:
        return column.expression
    missing: Any = _EPOCH if column.key.endswith("_at") else ""
    return func.coalesce(column, missing, type_=column.type)
