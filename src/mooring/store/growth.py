"""What keeps each table from growing without end, and the taking away of what is no longer needed.

Rows go a few at a time: they are looked for by a reader, and each few of them are taken away by a
transaction of its own, so that no request waits for long and a process that dies leaves whole rows.
Several processes may do so at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar, cast

import structlog
from msgspec import Struct
from sqlalchemy import (
    Column,
    ColumnElement,
    CursorResult,
    Delete,
    Table,
    delete,
    func,
    select,
    tuple_,
)
from sqlalchemy.orm import DeclarativeBase, Session

from mooring.clock import Clock
from mooring.limits import LOOP_REST_S
from mooring.store.base import Store
from mooring.store.limits import PRUNE_AT_ONCE, PRUNE_EVERY_S, PRUNE_REST_S

log = structlog.get_logger()
S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


class Prune(Protocol[S_contra]):
    """Takes away the rows of a service that are needed no more."""

    def find(self, service: S_contra, tx: Session, now: datetime) -> Sequence[Any]:
        """Return a few rows that may go, by what `drop` knows them by; the oldest ones first."""
        ...

    def drop(self, tx: Session, found: Sequence[Any]) -> int:
        """Take away those that were not changed since; return how many went."""
        ...


class Bound(Struct, Generic[S], frozen=True):
    """Why the table of `row` does not grow without end, and what sees to it, if anything has to."""

    row: type[DeclarativeBase]
    why: str
    prune: Prune[S] | None = None

    @property
    def table(self) -> str:
        """The table's name."""
        return table_of(self.row).name


def table_of(row: type[DeclarativeBase]) -> Table:
    """Return the table of a class of rows."""
    return cast("Table", row.__table__)


class Aged(Generic[S]):
    """Takes away rows whose time `at` is further back than `keep_s` seconds.

    Beyond `most` rows the oldest go earlier, but none before `least_s`. Only those that meet the
    conditions `only` go.
    """

    def __init__(
        self,
        row: type[DeclarativeBase],
        at: str,
        keep_s: float | Callable[[S], float],
        *,
        most: int,
        least_s: float,
        only: Sequence[ColumnElement[bool]] = (),
    ) -> None:
        self.table = table_of(row)
        self.at = self.table.c[at]
        self.keys: list[Column[Any]] = list(self.table.primary_key)
        self._keep_s, self._most, self._least_s, self._only = keep_s, most, least_s, only

    def find(self, service: S, tx: Session, now: datetime) -> Sequence[Any]:
        wanted = select(*self.keys, self.at).where(self.at <= self._horizon(service, tx, now))
        oldest = wanted.where(*self._only).order_by(self.at).limit(PRUNE_AT_ONCE)
        return [tuple(row) for row in tx.execute(oldest)]

    def drop(self, tx: Session, found: Sequence[Any]) -> int:
        # With the time: what was touched since it was found stays.
        return count_gone(tx, delete(self.table).where(tuple_(*self.keys, self.at).in_(found)))

    def _horizon(self, service: S, tx: Session, now: datetime) -> datetime:
        keep_s = self._keep_s(service) if callable(self._keep_s) else self._keep_s
        by_age = now - timedelta(seconds=keep_s)
        in_order = select(self.at).where(self.at.is_not(None)).order_by(self.at.desc())
        beyond = tx.execute(in_order.offset(self._most).limit(1)).scalar()
        if beyond is None:
            return by_age
        return max(by_age, min(beyond, now - timedelta(seconds=self._least_s)))


class Newest:
    """Of the rows that belong to the same one, by the column `of`, keeps the newest `most`.

    Their ids grow. Only those that meet the conditions `only` are counted and go.
    """

    def __init__(
        self,
        row: type[DeclarativeBase],
        of: str,
        most: int,
        *,
        only: Sequence[ColumnElement[bool]] = (),
    ) -> None:
        self._table, self._most, self._only = table_of(row), most, only
        self._of, self._id = self._table.c[of], self._table.c.id

    def find(self, service: object, tx: Session, now: datetime) -> Sequence[Any]:
        many = select(self._of).where(*self._only).group_by(self._of)
        owner = tx.execute(many.having(func.count() > self._most).limit(1)).scalar()
        if owner is None:
            return []
        mine = select(self._id).where(self._of == owner, *self._only)
        newest = mine.order_by(self._id.desc()).limit(self._most).subquery()
        first = select(func.min(newest.c.id)).scalar_subquery()
        older = mine.where(self._id < first).order_by(self._id).limit(PRUNE_AT_ONCE)
        return list(tx.execute(older).scalars())

    def drop(self, tx: Session, found: Sequence[Any]) -> int:
        return count_gone(tx, delete(self._table).where(self._id.in_(found), *self._only))


def count_gone(tx: Session, statement: Delete) -> int:
    """Delete rows; return how many went."""
    return cast("CursorResult[Any]", tx.execute(statement)).rowcount


async def prune(service: S, store: Store, clock: Clock, bounds: Sequence[Bound[S]]) -> int:
    """Take away all that is needed no more; return how many rows went."""
    gone = 0
    for bound in bounds:
        while some := await _prune_some(service, store, clock, bound):
            gone += some
            # Of real time: it is for the requests that write meanwhile.
            await asyncio.sleep(PRUNE_REST_S)
    return gone


async def _prune_some(service: S, store: Store, clock: Clock, bound: Bound[S]) -> int:
    if (rule := bound.prune) is None:
        return 0
    found = await store.read(lambda tx: rule.find(service, tx, clock.now()))
    return await store.write(lambda tx: rule.drop(tx, found)) if found else 0


async def keep_pruned(service: S, store: Store, clock: Clock, bounds: Sequence[Bound[S]]) -> None:
    """Take it away again and again, until cancelled."""
    # A start has better things to do.
    await clock.sleep(LOOP_REST_S)
    while True:
        if gone := await prune(service, store, clock, bounds):
            log.info("old rows were taken away", rows=gone)
        await clock.sleep(PRUNE_EVERY_S)
