"""Locks on keys, stored with the saga that holds them and released by its end.

Taking is all or nothing: a saga holds none of its keys until it can hold each, and those who wait
are served in order, so two sagas can never wait for each other. Each taking raises the generation,
a number that only grows in this database: receivers of calls tell by it who came later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import cast

from msgspec import Struct
from sqlalchemy import Integer, Table, bindparam, delete, insert, select, update
from sqlalchemy.orm import Session

from mooring.saga.define import Lock
from mooring.saga.tables import CounterRow, LockRow, SagaRow
from mooring.store.prepared import Prepared, parameters

GENERATION = "generation"
LOCK_WAIT_S = 3600.0
"""How long a saga waits for its locks, while there is somebody to advance those who hold them."""
_rows = cast("Table", LockRow.__table__)
_counters = cast("Table", CounterRow.__table__)


class Held(Struct, frozen=True):
    """A row of the lock table."""

    saga_id: str
    key: str
    shared: bool
    held: bool
    seq: int


_counter: Prepared[int] = Prepared(
    select(_counters.c.value).where(_counters.c.name == GENERATION), int
)
_raise = Prepared(
    update(_counters).where(
        _counters.c.name == GENERATION, _counters.c.value < bindparam("least", type_=Integer)
    )
)
_draw = Prepared(
    update(_counters)
    .where(_counters.c.name == GENERATION)
    .values(value=_counters.c.value + 1)
    .returning(_counters.c.value),
    int,
)
_take = Prepared(insert(_rows).inline())
_release = Prepared(
    delete(_rows).where(_rows.c.saga_id == bindparam("of_saga")).returning(_rows.c.key), str
)
_generations: Prepared[tuple[str, int]] = Prepared(
    select(_rows.c.key, _rows.c.generation)
    .where(_rows.c.saga_id == bindparam("of_saga"), _rows.c.held)
    .order_by(_rows.c.shared, _rows.c.key)
)


@cache
def _load_keys(count: int) -> Prepared[Held]:
    """Return the query for all that hold or await one of so many keys."""
    query = select(_rows.c.saga_id, _rows.c.key, _rows.c.shared, _rows.c.held, _rows.c.seq)
    keys = parameters("key", count)
    return Prepared(query.where(_rows.c.key.in_(keys)).order_by(_rows.c.seq), Held)


def raise_counter(tx: Session, unix_time: int) -> None:
    """Let the numbers that are drawn be later than any that were drawn before, in any database.

    One that was restored is behind its hosts, which refuse what comes with less than they have
    seen. Fewer numbers are drawn than seconds pass.
    """
    known = _counter.first(tx)
    if known is None:
        tx.add(CounterRow(name=GENERATION, value=unix_time))
        tx.flush()
    elif known < unix_time:
        _raise.run(tx, {"value": unix_time, "least": unix_time})


def draw(tx: Session) -> int:
    """Return the next number."""
    return _draw.all(tx)[0]


def find_obstacles(tx: Session, wanted: Sequence[Lock], kin: frozenset[str]) -> list[str]:
    """Return the ids of the sagas that hold or await what these locks exclude, `kin` left out."""
    rows = _load(tx, [lock.key for lock in wanted])
    found: dict[str, None] = {}
    for lock in wanted:
        for row in rows:
            if row.key == lock.key and row.saga_id not in kin and not (row.shared and lock.shared):
                found[row.saga_id] = None
    return list(found)


def serialize(tx: Session) -> None:
    """Let nobody else take or release locks until this transaction ends.

    SQLite has one writer anyway. On PostgreSQL this comes before the bookmark of a saga is changed:
    two transactions that wait for each other are told so after a second only, in which nobody's
    saga starts or ends. What a step itself has changed before is not covered; such a transaction is
    run again.
    """
    if tx.get_bind().dialect.name == "postgresql":
        draw(tx)


def take(tx: Session, saga_id: str, wanted: Sequence[Lock], *, held: bool) -> dict[str, int]:
    """Write down that a saga holds these locks, or stands in the queue for them.

    Return the generation of each that it holds, as `generations` does.
    """
    if not wanted:
        return {}
    number = draw(tx)
    _take.run_each(
        tx,
        [
            {
                "saga_id": saga_id,
                "key": lock.key,
                "shared": lock.shared,
                "held": held,
                "generation": number if held else 0,
                "seq": number,
            }
            for lock in wanted
        ],
    )
    in_order = sorted(wanted, key=lambda lock: (lock.shared, lock.key))
    return {lock.key: number for lock in in_order} if held else {}


def release(tx: Session, saga_id: str, only: Sequence[str] | None = None) -> list[str]:
    """Let go of a saga's locks, all or `only` these keys; return whose are held by that."""
    keys = _release.all(tx, of_saga=saga_id) if only is None else _release_some(tx, saga_id, only)
    return _grant(tx, keys) if keys else []


def generations(tx: Session, saga_id: str) -> dict[str, int]:
    """Return the generation of each lock that a saga holds, exclusive ones first."""
    return dict(_generations.all(tx, of_saga=saga_id))


def holders(tx: Session, key: str) -> list[str]:
    """Return the ids of the sagas that hold a key or wait for it, in order."""
    query = select(_rows.c.saga_id).where(_rows.c.key == key).order_by(_rows.c.seq)
    return list(tx.execute(query).scalars())


def waiting_on(tx: Session, saga_id: str) -> list[str]:
    """Return the ids of the sagas that wait for a key which this one holds, in order."""
    mine = select(_rows.c.key).where(_rows.c.saga_id == saga_id, _rows.c.held)
    query = select(_rows.c.saga_id).where(_rows.c.key.in_(mine), _rows.c.held.is_(False))
    return list(dict.fromkeys(tx.execute(query.order_by(_rows.c.seq)).scalars()))


def _load(tx: Session, keys: Sequence[str]) -> list[Held]:
    return _load_keys(len(keys)).all(tx, **{f"key_{at}": key for at, key in enumerate(keys)})


def _release_some(tx: Session, saga_id: str, keys: Sequence[str]) -> list[str]:
    mine = delete(_rows).where(_rows.c.saga_id == saga_id, _rows.c.key.in_(keys))
    return list(tx.execute(mine.returning(_rows.c.key)).scalars())


def _grant(tx: Session, freed: Iterable[str]) -> list[str]:
    serialize(tx)
    waiting = _load_waiting(tx, list(freed))
    granted: list[str] = []
    for saga_id in waiting:
        if _may_hold(tx, saga_id):
            number = draw(tx)
            mine = update(_rows).where(_rows.c.saga_id == saga_id)
            tx.execute(mine.values(held=True, generation=number))
            granted.append(saga_id)
    return granted


def _load_waiting(tx: Session, keys: Sequence[str]) -> list[str]:
    found = {row.saga_id: row.seq for row in _load(tx, keys) if not row.held}
    return sorted(found, key=lambda saga_id: found[saga_id])


def _may_hold(tx: Session, saga_id: str) -> bool:
    query = select(_rows.c.key, _rows.c.shared, _rows.c.seq).where(_rows.c.saga_id == saga_id)
    mine = {key: (shared, seq) for key, shared, seq in tx.execute(query)}
    kin = ancestors(tx, saga_id)
    for other in _load(tx, list(mine)):
        shared, seq = mine[other.key]
        if other.saga_id == saga_id or other.saga_id in kin or (other.shared and shared):
            continue
        if other.held or other.seq < seq:
            return False
    return True


def ancestors(tx: Session, saga_id: str) -> frozenset[str]:
    """Return a saga's parent, its parent's parent and so on: it may use what they hold."""
    found: set[str] = set()
    parent = tx.execute(select(SagaRow.parent_id).where(SagaRow.id == saga_id)).scalar()
    while parent and parent not in found:
        found.add(parent)
        parent = tx.execute(select(SagaRow.parent_id).where(SagaRow.id == parent)).scalar()
    return frozenset(found)
