"""What holds for PostgreSQL: schemas, deadlocks, connections that go away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from sqlalchemy import text, update
from sqlalchemy.orm import Session

from mooring.errors import Unavailable
from mooring.store.base import Store, open_store
from tests.store import boats
from tests.store.boats import Boat

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.fixture
def location(postgres_url: str) -> str:
    return postgres_url


async def test_services_in_one_database_do_not_see_each_other(store: Store, location: str) -> None:
    other = await open_store(location, "compute")
    await other.write(boats.build)
    await other.write(boats.sail)
    assert await boats.trips(other) == 1
    assert await boats.trips(store) == 0
    await other.close()


async def test_a_deadlock_makes_one_of_two_ask_again(store: Store) -> None:
    await store.write(boats.add("bounty"))
    both = threading.Barrier(2)

    def touch(first: str, second: str) -> Callable[[Session], None]:
        def change(tx: Session) -> None:
            for name in (first, second):
                tx.execute(update(Boat).where(Boat.name == name).values(trips=Boat.trips + 1))
                if name == first:
                    both.wait(10)

        return change

    results = await asyncio.gather(
        store.write(touch("ark", "bounty")),
        store.write(touch("bounty", "ark")),
        return_exceptions=True,
    )
    failures = [result for result in results if result is not None]
    assert len(failures) == 1
    assert isinstance(failures[0], Unavailable)
    assert "40P01" in failures[0].private


async def test_a_connection_that_went_away_in_the_middle_is_unavailable(store: Store) -> None:
    def die(tx: Session) -> None:
        boats.sail(tx)
        tx.flush()
        tx.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    with pytest.raises(Unavailable):
        await store.write(die)
    assert await boats.trips(store) == 0


async def test_connections_that_went_away_meanwhile_are_replaced(
    store: Store, location: str
) -> None:
    await asyncio.gather(*(store.write(boats.sail) for _ in range(20)))
    other = await open_store(location, "compute")
    await other.write(
        lambda tx: tx.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
    )
    await other.close()
    assert await store.write(boats.sail) == 21
    assert await boats.trips(store) == 21
