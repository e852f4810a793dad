"""What holds for PostgreSQL: schemas, and connections that go away."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import text

from mooring.store.base import Store, open_store
from tests.store import boats

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
