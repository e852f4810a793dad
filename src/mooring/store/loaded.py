"""Rows loaded as objects of a session by a statement that is compiled once.

    _by_id = ById(Server)
    ...
    server = _by_id.find(tx, server_id)
    server.name = "other"  # written by the session, as for any object

SQLAlchemy spends some 200 Python calls on loading one object. Here the statement is a `Prepared`;
what is left is to hand the object to the session (docs/adr/0006-prepared-statements.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct
from sqlalchemy import Column, ColumnElement, Select, Table, bindparam, insert, inspect, select
from sqlalchemy.exc import NoResultFound
from sqlalchemy.orm import ClassManager, DeclarativeBase, Session, make_transient_to_detached
from sqlalchemy.orm.attributes import instance_state
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from mooring.store.prepared import Among, Prepared

R = TypeVar("R", bound=DeclarativeBase)
Condition = Callable[[ReadOnlyColumnCollection[str, Column[Any]]], ColumnElement[bool]]
Order = Callable[[ReadOnlyColumnCollection[str, Column[Any]]], Sequence[ColumnElement[Any]]]
_LOCKS = "mooring.locks"


def lock_what_is_loaded(tx: Session) -> None:
    """Have each row that `Loaded` finds for this session locked, until its transaction ends."""
    tx.info[_LOCKS] = True


class _Shape(Struct, frozen=True):
    """How rows of one class become objects; not known before every class of the service is."""

    manager: ClassManager[Any]
    names: list[str]
    key_at: list[int]
    """Where in a row the columns of the primary key are."""
    query: Select[Any]
    looks: Prepared[Any]
    locks: Prepared[Any]


class Loaded(Generic[R]):
    """Objects of `row`'s class where conditions hold; what they compare with is a `bindparam`.

    As with a query of SQLAlchemy's, what the session has changed is written before, and an object
    that it already holds is returned as it holds it.
    """

    def __init__(
        self,
        row: type[R],
        *conditions: Condition,
        order_by: Order | None = None,
        only_looks: bool = False,
    ) -> None:
        """Find what is not locked for a session that locks, either, if it `only_looks`."""
        self._row, self._conditions, self._order_by = row, conditions, order_by
        self._only_looks = only_looks

    def all(self, tx: Session, **given: Any) -> list[R]:
        """Return all objects."""
        tx.flush()
        shape = self._shape
        is_locked = tx.info.get(_LOCKS) and not self._only_looks
        statement = shape.locks if is_locked else shape.looks
        return [self._object(tx, values) for values in statement.all(tx, **given)]

    def first(self, tx: Session, **given: Any) -> R | None:
        """Return the first object, or None."""
        found = self.all(tx, **given)
        return found[0] if found else None

    def _object(self, tx: Session, values: tuple[Any, ...]) -> R:
        shape = self._shape
        key = (self._row, tuple([values[place] for place in shape.key_at]), None)
        held = tx.identity_map.get(key)
        if held is not None:
            return held
        made = shape.manager.new_instance()
        made.__dict__.update(zip(shape.names, values, strict=True))
        _hold(tx, made, key)
        return made

    @cached_property
    def _shape(self) -> _Shape:
        mapper = inspect(self._row)
        attributes = list(mapper.column_attrs)
        names = [attribute.key for attribute in attributes]
        keys = [mapper.get_property_by_column(column).key for column in mapper.primary_key]
        table = cast("Table", self._row.__table__)
        query = select(*[attribute.columns[0] for attribute in attributes])
        query = query.where(*[holds(table.c) for holds in self._conditions])
        if self._order_by is not None:
            query = query.order_by(*self._order_by(table.c))
        return _Shape(
            manager=mapper.class_manager,
            names=names,
            key_at=[names.index(key) for key in keys],
            query=query,
            looks=Prepared(query),
            locks=Prepared(query.with_for_update(of=table, key_share=True)),
        )


class LoadedAmong(Loaded[R]):
    """Objects of `row`'s class whose `column` has one of several values; no order is kept."""

    def __init__(self, row: type[R], column: str) -> None:
        super().__init__(row)
        self._column = column

    def among(self, tx: Session, values: Collection[Any]) -> list[R]:
        """Return all objects; none is locked."""
        tx.flush()
        return [self._object(tx, found) for found in self._among.all(tx, values)]

    @cached_property
    def _among(self) -> Among[Any]:
        query = self._shape.query
        column = cast("Table", self._row.__table__).c[self._column]
        return Among(lambda values: query.where(column.in_(values)))


def _hold(tx: Session, made: DeclarativeBase, key: Any) -> None:
    """Have a session hold an object that shows its whole row, as one of its own queries would."""
    state = instance_state(made)
    state.key, state.session_id = key, tx.hash_key
    tx.identity_map.add(state)


class ById(Generic[R]):
    """Objects of `row`'s class by the one column of its primary key."""

    def __init__(self, row: type[R]) -> None:
        self._row = row
        column = cast("Table", row.__table__).primary_key.columns[0].key
        self._loaded = Loaded(row, lambda columns: columns[column] == bindparam("of_id"))

    def find(self, tx: Session, row_id: Any) -> R | None:
        """Return the object, as the session holds it if it does; None if there is no such row."""
        held = tx.identity_map.get((self._row, (row_id,), None))
        if held is not None and not inspect(held).expired:
            return held
        return self._loaded.first(tx, of_id=row_id)

    def one(self, tx: Session, row_id: Any) -> R:
        """Return the object of a row that is there. Raises SQLAlchemy's NoResultFound."""
        found = self.find(tx, row_id)
        if found is None:
            message = f"{self._row.__name__} {row_id} is not there."
            raise NoResultFound(message)
        return found


class Adding(Generic[R]):
    """Writes new objects of `row`'s class down at once, with the defaults of their columns.

    _add = Adding(Server)
    ...
    server = _add(tx, Server(id=server_id, name=name))
    """

    def __init__(self, row: type[R]) -> None:
        self._row = row

    def __call__(self, tx: Session, made: R) -> R:
        """Write one object down and return it, held by the session. Raises IntegrityError."""
        tx.flush()
        given = made.__dict__
        for name, default in self._defaults:
            if name not in given:
                setattr(made, name, default(None))
        values = {column: given.get(name) for name, column in self._columns.items()}
        statement, numbered = self._insert
        if numbered is not None and values[numbered] is None:
            del values[numbered]
        written = statement.first(tx, **values)
        for name, value in zip(self._keys, written or (), strict=True):
            setattr(made, name, value)
        make_transient_to_detached(made)
        tx.add(made)
        return made

    @cached_property
    def _columns(self) -> dict[str, str]:
        """The column of each attribute that is one; not known before every class is."""
        attributes = inspect(self._row).column_attrs
        return {
            attribute.key: attribute.columns[0].key
            for attribute in attributes
            if isinstance(attribute.columns[0], Column)
        }

    @cached_property
    def _keys(self) -> list[str]:
        mapper = inspect(self._row)
        return [mapper.get_property_by_column(column).key for column in mapper.primary_key]

    @cached_property
    def _defaults(self) -> list[tuple[str, Callable[[Any], Any]]]:
        table = cast("Table", self._row.__table__)
        found: list[tuple[str, Callable[[Any], Any]]] = []
        for name, column in self._columns.items():
            default: Any = table.c[column].default
            if default is not None:
                of_call, value = default.is_callable, default.arg
                found.append((name, value if of_call else lambda _, value=value: value))
        return found

    @cached_property
    def _insert(self) -> tuple[Prepared[Any], str | None]:
        table = cast("Table", self._row.__table__)
        numbered = table.autoincrement_column
        statement = insert(table).returning(*table.primary_key.columns)
        return Prepared(statement), numbered.key if numbered is not None else None
