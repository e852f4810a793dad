"""Pages of a sorted list: the order, and what comes after a marker, whatever the sort keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, and_, false, literal, or_
from sqlalchemy.orm import InstrumentedAttribute


class SortKey(Struct, frozen=True):
    """One column of the order. Rows without a value come last upwards and first downwards."""

    column: InstrumentedAttribute[Any]
    descending: bool = False


def order(keys: Sequence[SortKey]) -> list[ColumnElement[Any]]:
    """Return the ORDER BY terms, the same on every database."""
    terms: list[ColumnElement[Any]] = []
    for key in keys:
        parts: list[ColumnElement[Any]] = [key.column.expression]
        if key.column.expression.nullable:
            parts.insert(0, key.column.is_(None))
        terms += [part.desc() if key.descending else part.asc() for part in parts]
    return terms


def after(keys: Sequence[SortKey], marker: Sequence[Any]) -> ColumnElement[bool]:
    """Return the condition for rows behind the marker, given the marker's value of each key."""
    choices: list[ColumnElement[bool]] = []
    for at, key in enumerate(keys):
        equal = [_same(before, value) for before, value in zip(keys[:at], marker, strict=False)]
        choices.append(and_(*equal, _behind(key, marker[at])))
    return or_(*choices)


def _same(key: SortKey, value: Any) -> ColumnElement[bool]:
    return key.column.is_(None) if value is None else key.column == value


def _behind(key: SortKey, value: Any) -> ColumnElement[bool]:
    if value is None:
        return key.column.is_not(None) if key.descending else false()
    # A bare True or False may only be compared for being the same.
    bound = literal(value, key.column.type)
    if key.descending:
        return key.column < bound
    if key.column.expression.nullable:
        return or_(key.column > bound, key.column.is_(None))
    return key.column > bound
