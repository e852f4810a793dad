"""PostgreSQL in trouble: what is run again, what is settled by looking, what is locked."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mooring import limits
from mooring.errors import Unavailable
from mooring.store import failures
from mooring.store.base import Store, open_store, savepoint
from tests.store import boats
from tests.store.boats import Boat
from tests.wire import Wire, at_word

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.fixture
async def store(wired_url: str, service: str) -> AsyncGenerator[Store]:
    opened = await open_store(wired_url, service)
    await opened.write(boats.build)
    yield opened
    await opened.close()


async def test_a_commit_that_was_made_and_not_answered_counts(
    store: Store, postgres_wire: Wire
) -> None:
    postgres_wire.rule = at_word(b"COMMIT", "after")
    assert await store.write(boats.sail) == 1
    assert postgres_wire.cuts == 1
    assert await boats.trips(store) == 1


async def test_a_commit_that_never_arrived_is_made_again(store: Store, postgres_wire: Wire) -> None:
    postgres_wire.rule = at_word(b"COMMIT", "before")
    assert await store.write(boats.sail) == 1
    assert postgres_wire.cuts == 1
    assert await boats.trips(store) == 1


async def test_a_commit_that_nobody_can_settle_is_not_repeated(
    store: Store, postgres_wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STORE_SETTLE_S", 0.0)
    commit = at_word(b"COMMIT", "after")
    postgres_wire.rule = lambda sent: commit(sent) or ("before" if postgres_wire.cuts else "")
    with pytest.raises(Unavailable, match="not known"):
        await store.write(boats.sail)
    postgres_wire.rule = at_word(b"", "", times=0)
    assert await boats.trips(store) == 1


async def test_a_connection_lost_in_a_write_or_a_read_is_not_noticed(
    store: Store, postgres_wire: Wire
) -> None:
    postgres_wire.rule = at_word(b"UPDATE boats", "after", times=2)
    assert await store.write(boats.sail) == 1
    postgres_wire.rule = at_word(b"SELECT boats", "before", times=2)
    assert await boats.trips(store) == 1
    assert postgres_wire.cuts == 4


async def test_a_connection_lost_in_a_savepoint_is_the_database_s_failure(
    store: Store, postgres_wire: Wire
) -> None:
    """Who takes a part back for an error of its own must see that this one is none."""
    decided: list[Exception] = []

    def sail(tx: Session) -> int:
        try:
            with savepoint(tx):
                return boats.sail(tx)
        except Exception as error:
            if failures.is_of_database(error):
                raise
            decided.append(error)
            return 0

    postgres_wire.rule = at_word(b"UPDATE boats", "before")
    assert await store.write(sail) == 1
    assert (decided, postgres_wire.cuts) == ([], 1)


async def test_a_database_that_stays_away_is_unavailable(
    store: Store, postgres_wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STORE_AGAIN_S", 0.1)
    postgres_wire.rule = lambda _: "before"
    with pytest.raises(Unavailable):
        await store.write(boats.sail)
    with pytest.raises(Unavailable):
        await boats.trips(store)


async def test_too_many_clients_are_waited_for(
    store: Store, service: str, postgres_url: str
) -> None:
    """The guest's role may have no connection, until somebody leaves."""
    name = f"guest_{service}"
    role = sql.Identifier(name)
    guest_url = postgres_url.replace("mooring@", f"{name}@")
    with psycopg.connect(postgres_url, autocommit=True) as door:
        door.execute(sql.SQL("CREATE ROLE {} LOGIN SUPERUSER").format(role))
        guest = await open_store(guest_url, service)
        door.execute(sql.SQL("ALTER ROLE {} NOSUPERUSER CONNECTION LIMIT 0").format(role))
        leave = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s"
        door.execute(leave, [name])
        asking = asyncio.create_task(guest.write(boats.sail))
        await asyncio.wait({asking}, timeout=0.3)
        assert not asking.done()
        door.execute(sql.SQL("ALTER ROLE {} SUPERUSER CONNECTION LIMIT -1").format(role))
        assert await asking == 1
        await guest.close()
        door.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(role))
    assert await boats.trips(store) == 1


async def test_what_a_write_loads_as_an_object_nobody_else_changes(store: Store) -> None:
    both = threading.Barrier(2)

    def note(entry: str) -> Callable[[Session], None]:
        def write(tx: Session) -> None:
            boat = tx.get_one(Boat, "ark")
            # Both get here only where the row is not locked.
            with contextlib.suppress(threading.BrokenBarrierError):
                both.wait(0.5)
            boat.log = [*(boat.log or []), entry]

        return write

    await asyncio.gather(store.write(note("reef")), store.write(note("port")))
    query = select(Boat.log).where(Boat.name == "ark")
    assert sorted(await store.read(lambda tx: tx.scalars(query).one())) == ["port", "reef"]


async def test_whoever_was_slower_looks_again(store: Store) -> None:
    """Two look whether a boat is there and both add it: the second one finds it then."""
    both = threading.Barrier(2)
    waited: set[int] = set()

    def add(tx: Session) -> str:
        if tx.scalar(select(Boat.name).where(Boat.name == "bounty")) is not None:
            return "there"
        if threading.get_ident() not in waited:
            waited.add(threading.get_ident())
            both.wait(5)
        tx.add(Boat(name="bounty"))
        return "added"

    assert sorted(await asyncio.gather(store.write(add), store.write(add))) == ["added", "there"]


async def test_a_constraint_that_stays_broken_is_the_callers(store: Store) -> None:
    runs: list[int] = []

    def add(tx: Session) -> None:
        runs.append(1)
        tx.add(Boat(name="ark"))

    with pytest.raises(IntegrityError):
        await store.write(add)
    assert len(runs) == 1 + limits.STORE_LOST_RACES


async def test_a_deadlock_is_run_again(store: Store) -> None:
    await store.write(boats.add("bounty"))
    both, met = threading.Barrier(2), threading.Event()

    def touch(first: str, second: str) -> Callable[[Session], None]:
        def change(tx: Session) -> None:
            for name in (first, second):
                tx.execute(update(Boat).where(Boat.name == name).values(trips=Boat.trips + 1))
                if name == first and not met.is_set():
                    both.wait(10)
                    met.set()

        return change

    await asyncio.gather(store.write(touch("ark", "bounty")), store.write(touch("bounty", "ark")))
    query = select(Boat.trips).order_by(Boat.name)
    assert await store.read(lambda tx: list(tx.scalars(query))) == [2, 2]
