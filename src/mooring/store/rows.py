"""Changing one row at little cost: a statement built once, and what the session holds kept in step.

SQLAlchemy's own update of mapped classes is built anew each time and compares its condition with
every loaded object, which takes five times as long as the database does. Steps of sagas change rows
one by one, by their id, so they go this way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, cast

from sqlalchemy import Column, ColumnElement, CursorResult, Table, bindparam, inspect, update
from sqlalchemy.orm import DeclarativeBase, Session
from sqlalchemy.orm.attributes import set_committed_value
from sqlalchemy.orm.util import identity_key
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from mooring.store.call import note_changed

Condition = Callable[[ReadOnlyColumnCollection[str, Column[Any]]], ColumnElement[bool]]


class Change:
    """Sets columns of one row of a table, found by its `id`, where a condition holds.

    _living = Change(Server, lambda columns: columns.deleted_at.is_(None))
    ...
    if not _living(tx, server_id, {"task_state": None}): ...

    A condition is of the table's columns: with a class's attributes SQLAlchemy would take the
    statement for one of its own. What it compares with may be a `bindparam`, whose value each call
    gives by its name; the name must be of no column.
    """

    def __init__(self, row: type[DeclarativeBase], *conditions: Condition) -> None:
        self._row = row
        table = cast("Table", row.__table__)
        holds = [condition(table.c) for condition in conditions]
        self._statement = update(table).where(table.c["id"] == bindparam("of_id"), *holds)

    @cached_property
    def _columns(self) -> dict[str, str]:
        """The column of each attribute; not known before every class of the service is."""
        mapped = inspect(self._row).column_attrs
        return {attribute.key: attribute.columns[0].key for attribute in mapped}

    def __call__(self, tx: Session, row_id: Any, values: dict[str, Any], **given: Any) -> bool:
        """Set attributes to plain values (no expressions); tell whether there was such a row.

        An object of the row that `tx` has loaded shows the new values, until a `savepoint` around
        this is taken back.
        """
        tx.flush()
        columns = {self._columns[name]: value for name, value in values.items()}
        result = tx.execute(self._statement, {**columns, **given, "of_id": row_id})
        if cast("CursorResult[Any]", result).rowcount == 0:
            return False
        loaded = tx.identity_map.get(identity_key(self._row, row_id))
        if loaded is not None:
            for name, value in values.items():
                set_committed_value(loaded, name, value)
            note_changed(tx, loaded)
        return True
