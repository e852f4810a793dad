"""A service's database as one PostgreSQL schema, reached through a pool of psycopg connections.

Writes run at READ COMMITTED: what must not change under a rule's feet is locked by it (FOR UPDATE)
or guarded by its UPDATE. A function is called once only, so a deadlock is answered Unavailable and
asked again from outside. Reads see one snapshot, as on SQLite.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar

from sqlalchemy import Engine, QueuePool, create_engine, event, make_url
from sqlalchemy.orm import Session

from mooring import limits
from mooring.errors import Unavailable
from mooring.probe import NoProbe, Probe
from mooring.store import failures, migrate
from mooring.store.call import Call, deliver

T = TypeVar("T")


def create_schema_engine(location: str, schema: str) -> Engine:
    """Return an engine whose every connection stands in `schema`, made by the first migration."""
    url = make_url(location).set(drivername="postgresql+psycopg")
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=limits.STORE_POOL_CONNECTIONS,
        max_overflow=0,
        pool_pre_ping=True,
        pool_use_lifo=True,
        # Parameters may be secrets; an error message shows the statement only.
        hide_parameters=True,
    )
    quoted = engine.dialect.identifier_preparer.quote(schema)

    def connected(connection: Any, _record: object) -> None:
        # Outside a transaction, so that no rollback takes it back.
        connection.autocommit = True
        connection.execute(f"SET search_path TO {quoted}")
        connection.autocommit = False

    event.listen(engine, "connect", connected, insert=True)
    return engine


class PostgresqlStore:
    """One service's schema; each thread of the pool works on a connection of its own."""

    kind: Literal["sqlite", "postgresql"] = "postgresql"

    def __init__(self, engine: Engine, service: str, probe: Probe | None) -> None:
        self.commits = 0
        self._engine = engine
        self._snapshots = engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._point = f"store.{service}/commit"
        self._probe: Probe = probe or NoProbe()
        self._closed = False
        self._counting = threading.Lock()
        self._threads = ThreadPoolExecutor(limits.STORE_POOL_CONNECTIONS, f"{service}-store")

    async def write(self, fn: Callable[[Session], T]) -> T:
        return await self._submit(self._write, fn)

    async def read(self, fn: Callable[[Session], T]) -> T:
        return await self._submit(self._read, fn)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        self._engine.dispose()

    async def _submit(self, work: Callable[[Call[Any]], None], fn: Callable[[Session], T]) -> T:
        if self._closed:
            raise Unavailable(
                "The service is stopping; ask again when it is back.",
                private="the store is closed",
            )
        call = Call(fn)
        self._threads.submit(work, call)
        return await call.future

    def _write(self, call: Call[Any]) -> None:
        try:
            with Session(self._engine, expire_on_commit=False) as tx:
                call.run(tx)
                self._probe.at(f"{self._point}/before")
                tx.commit()
            with self._counting:
                self.commits += 1
            self._probe.at(f"{self._point}/after")
        except BaseException as error:  # noqa: BLE001  (it goes to the one who asked)
            call.fail(error)
        deliver([call])

    def _read(self, call: Call[Any]) -> None:
        try:
            with Session(self._snapshots, autoflush=False, expire_on_commit=False) as tx:
                call.run(tx)
        except BaseException as error:  # noqa: BLE001  (it goes to the one who asked)
            call.fail(error, reading=True)
        deliver([call])


async def open_store(location: str, service: str, probe: Probe | None) -> PostgresqlStore:
    """Open the schema `service` of the database at `location`, migrated when needed."""
    engine = create_schema_engine(location, service)
    try:
        await asyncio.to_thread(migrate.upgrade, engine, service)
    except Exception as error:
        engine.dispose()
        raise failures.translate(error) or error from error
    return PostgresqlStore(engine, service, probe)
