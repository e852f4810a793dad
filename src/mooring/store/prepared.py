"""Statements that are compiled once for each dialect and run on the driver's own connection.

    _load = Prepared(select(_rows.c.saga_id).where(_rows.c.key == bindparam("of_key")), str)
    ...
    for saga_id in _load.all(tx, of_key=key): ...

SQLAlchemy spends some 120 Python calls around a statement and its rows; every step of every saga
runs a dozen. Here it writes the SQL and says how values of each type are bound and read, once; what
is left of a run is the driver's `execute` (docs/adr/0006-prepared-statements.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct, defstruct
from sqlalchemy import (
    Column,
    ColumnElement,
    Dialect,
    Executable,
    Insert,
    Select,
    Table,
    Update,
    bindparam,
    inspect,
    update,
)
from sqlalchemy.orm import DeclarativeBase, Session
from sqlalchemy.orm.attributes import set_committed_value
from sqlalchemy.sql.base import ReadOnlyColumnCollection
from sqlalchemy.types import TypeEngine

from mooring.errors import Bug
from mooring.store.link import execute, link_of

R = TypeVar("R")
Condition = Callable[[ReadOnlyColumnCollection[str, Column[Any]]], ColumnElement[bool]]
_Processor = Callable[[Any], Any] | None


class _Plan(Struct, frozen=True):
    """A statement as one dialect runs it with one set of values."""

    sql: str
    is_positional: bool
    binds: list[tuple[str, _Processor]]
    constants: dict[str, Any]
    """What the statement itself compares with, as the driver takes it."""
    returned: list[TypeEngine[Any]]
    """The types of the columns that it returns."""

    def arguments(self, given: Mapping[str, Any]) -> Any:
        """Return values as the driver takes them."""
        known = {**self.constants, **given}
        bound = [process(known[name]) if process else known[name] for name, process in self.binds]
        if self.is_positional:
            return bound
        return dict(zip([name for name, _ in self.binds], bound, strict=True))


def _as_it_is(*values: Any) -> Any:
    return values


def named(name: str, columns: Iterable[Any]) -> Callable[..., Any]:
    """Return what makes rows of these columns' values, which are attributes by their keys."""
    return defstruct(name, [str(column.key) for column in columns], frozen=True)


class Prepared(Generic[R]):
    """One statement. What a row becomes is made by `row` of its columns: a Struct, or `str`.

    Values are given by the names of the statement's `bindparam`s, and for INSERT and UPDATE by the
    columns that they set; a column's Python default is not looked at. Objects that a session holds
    are neither written before nor read anew. A list to compare with is one parameter for each of
    its values, so a statement is made for their number. `build` gives the statement for a dialect's
    name, where the two differ. Errors are SQLAlchemy's own.
    """

    def __init__(
        self,
        statement: Executable | None = None,
        row: Callable[..., R] = _as_it_is,
        *,
        build: Callable[[str], Executable] | None = None,
    ) -> None:
        self._statement, self._build, self._row = statement, build, row
        self._plans: dict[tuple[str, tuple[str, ...]], _Plan] = {}
        self._readers: dict[tuple[str, tuple[str, ...]], list[_Processor]] = {}

    def all(self, tx: Session, **given: Any) -> list[R]:
        """Return all rows."""
        cursor, results = self._execute(tx, given)
        make = self._row
        return [
            make(*[read(value) if read else value for read, value in zip(results, row)])  # noqa: B905  (as many as were asked for)
            for row in cursor.fetchall()
        ]

    def first(self, tx: Session, **given: Any) -> R | None:
        """Return the first row, or None."""
        found = self.all(tx, **given)
        return found[0] if found else None

    def run(self, tx: Session, given: Mapping[str, Any]) -> int:
        """Return how many rows were written."""
        return self._execute(tx, given)[0].rowcount

    def run_each(self, tx: Session, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run the statement for each of several rows that set the same columns."""
        for row in rows:
            self.run(tx, row)

    def _execute(self, tx: Session, given: Mapping[str, Any]) -> tuple[Any, list[_Processor]]:
        link = link_of(tx)
        key = (link.dialect.name, tuple(given))
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._compile(link.dialect, given)
        cursor = execute(link, plan.sql, plan.arguments(given))
        readers = self._readers.get(key)
        if readers is None:
            readers = self._readers[key] = _readers(plan.returned, link.dialect, cursor)
        return cursor, readers

    def _compile(self, dialect: Dialect, given: Mapping[str, Any]) -> _Plan:
        statement = self._statement
        if self._build is not None:
            statement = self._build(dialect.name)
        if statement is None:
            raise Bug("An internal error occurred.", private="a prepared statement has no text")
        columns = None
        if isinstance(statement, (Insert, Update)):
            table = cast("Table", statement.table)
            columns = [name for name in given if name in table.c]
        compiled = cast("Any", statement).compile(dialect=dialect, column_keys=columns)
        if compiled.post_compile_params:
            raise Bug("An internal error occurred.", private=f"a list in: {compiled}")
        names: list[str] = compiled.positiontup if compiled.positional else list(compiled.binds)
        return _Plan(
            sql=str(compiled),
            is_positional=compiled.positional,
            binds=[(name, _binder(compiled.binds[name].type, dialect)) for name in names],
            constants={
                name: compiled.binds[name].effective_value for name in names if name not in given
            },
            returned=[column.type for column in _returned(statement)],
        )


class Among(Generic[R]):
    """A statement about the rows whose column has one of several values.

    _tags = Among(lambda ids: select(Tag.image_id, Tag.name).where(Tag.image_id.in_(ids)))
    ...
    for image_id, name in _tags.all(tx, image_ids): ...

    It is compiled for 1, 2, 4, 8 ... values; the last one is given again for those that miss.
    Other parameters are given by their names, as to a `Prepared`. No values are no rows.
    """

    def __init__(
        self,
        build: Callable[[list[ColumnElement[Any]]], Executable],
        row: Callable[..., R] = _as_it_is,
    ) -> None:
        self._build, self._row = build, row
        self._prepared: dict[int, Prepared[R]] = {}

    def all(self, tx: Session, values: Collection[Any], **given: Any) -> list[R]:
        """Return all rows."""
        if not values:
            return []
        statement, among = self._fit(values)
        return statement.all(tx, **among, **given)

    def run(self, tx: Session, values: Collection[Any], **given: Any) -> int:
        """Return how many rows were written."""
        if not values:
            return 0
        statement, among = self._fit(values)
        return statement.run(tx, {**among, **given})

    def _fit(self, values: Collection[Any]) -> tuple[Prepared[R], dict[str, Any]]:
        count = 1 << (len(values) - 1).bit_length()
        statement = self._prepared.get(count)
        if statement is None:
            build = self._build(parameters("among", count))
            statement = self._prepared[count] = Prepared(build, self._row)
        each = [*values]
        each += each[-1:] * (count - len(each))
        return statement, {f"among_{number}": value for number, value in enumerate(each)}


class Change:
    """Sets columns of one row of a table, found by its `id`, where a condition holds.

    _living = Change(Server, lambda columns: columns.deleted_at.is_(None))
    ...
    if not _living(tx, server_id, {"task_state": None}): ...

    A condition is of the table's columns. What it compares with may be a `bindparam`, whose value
    each call gives by its name; the name must be of no column. `among` names a column that must
    have one of the values that each call gives as `allowed`.
    """

    def __init__(self, row: type[DeclarativeBase], *conditions: Condition, among: str = "") -> None:
        self._row, self._among = row, among
        table = cast("Table", row.__table__)
        holds = [condition(table.c) for condition in conditions]
        self._update = update(table).where(table.c["id"] == bindparam("of_id"), *holds)
        self._column = table.c[among] if among else None
        self._prepared: dict[int, Prepared[Any]] = {}

    @cached_property
    def _columns(self) -> dict[str, str]:
        """The column of each attribute; not known before every class of the service is."""
        mapped = inspect(self._row).column_attrs
        return {attribute.key: attribute.columns[0].key for attribute in mapped}

    def __call__(
        self,
        tx: Session,
        row_id: Any,
        values: dict[str, Any],
        *,
        allowed: Sequence[Any] = (),
        **given: Any,
    ) -> bool:
        """Set attributes to plain values (no expressions); tell whether there was such a row.

        An object of the row that `tx` has loaded shows the new values, until a `savepoint` around
        this is taken back.
        """
        tx.flush()
        known = self._columns
        wanted = {known[name]: value for name, value in values.items()}
        among = {f"allowed_{number}": value for number, value in enumerate(allowed)}
        statement = self._statement(len(allowed))
        if statement.run(tx, {**wanted, **given, **among, "of_id": row_id}) == 0:
            return False
        loaded = tx.identity_map.get((self._row, (row_id,), None))
        if loaded is not None:
            for name, value in values.items():
                set_committed_value(loaded, name, value)
        return True

    def _statement(self, count: int) -> Prepared[Any]:
        if count not in self._prepared:
            statement = self._update
            if self._column is not None:
                statement = statement.where(self._column.in_(parameters("allowed", count)))
            self._prepared[count] = Prepared(statement)
        return self._prepared[count]


def parameters(name: str, count: int) -> list[ColumnElement[Any]]:
    """Return the parameters `name_0`, `name_1` ... for a list that a statement compares with."""
    return [bindparam(f"{name}_{number}") for number in range(count)]


def _returned(statement: Executable) -> list[Column[Any]]:
    columns = cast("Any", statement)
    found = columns.selected_columns if isinstance(statement, Select) else columns.exported_columns
    return list(found)


def _binder(kind: TypeEngine[Any], dialect: Dialect) -> _Processor:
    return kind.dialect_impl(dialect).bind_processor(dialect)


def _readers(kinds: list[TypeEngine[Any]], dialect: Dialect, cursor: Any) -> list[_Processor]:
    # How a number is read depends on what the database calls it, which only an answer tells.
    codes = [column[1] for column in cursor.description] if kinds else []
    return [
        kind.dialect_impl(dialect).result_processor(dialect, code)
        for kind, code in zip(kinds, codes, strict=True)
    ]
