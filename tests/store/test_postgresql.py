"""What holds for PostgreSQL: schemas, and connections that go away."""

from __future__ import annotations

import asyncio
import socket

import pytest
from sqlalchemy import text

from mooring.store.base import Store, open_store
from mooring.store.postgresql import create_schema_engine
from tests.fleet.members import free_port
from tests.postgres import run_server
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


@pytest.mark.parametrize(
    ("asked", "silent_ms", "idle_s"),
    [("", 10_000, 10), ("?tcp_user_timeout=3000&keepalives_idle=60", 3_000, 60)],
    ids=["by itself", "as the setting says"],
)
def test_a_machine_that_swallows_what_an_open_connection_sends_is_given_up(
    asked: str, silent_ms: int, idle_s: int
) -> None:
    port = free_port()
    with run_server(listen_addresses="127.0.0.1", port=str(port)):
        where = f"postgresql://mooring@127.0.0.1:{port}/postgres{asked}"
        engine = create_schema_engine(where, "test")
        with engine.connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            with socket.socket(fileno=driver.fileno()) as line:
                found = [
                    line.getsockopt(socket.IPPROTO_TCP, option)
                    for option in (socket.TCP_USER_TIMEOUT, socket.TCP_KEEPIDLE)
                ]
                assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                line.detach()
        engine.dispose()
    assert found == [silent_ms, idle_s]
