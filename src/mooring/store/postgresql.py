"""A service's database as one PostgreSQL schema, reached through a pool of psycopg connections.

Writes run at READ COMMITTED. What a write loads as an object it means to change or to rely on, so
its row is locked at once, and nobody changes it between the look and the change; what is only
looked at is selected by its columns. What PostgreSQL itself asks to repeat (a deadlock, a
connection that is lost before the commit, a row that somebody else inserted meanwhile) is run
again here: so no connection is asked before each use whether it still stands, which would be one
way there and back of the four or five that a small transaction takes. Reads see one snapshot, as on
SQLite.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar, cast

from sqlalchemy import Engine, QueuePool, Select, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import ORMExecuteState, Session

from mooring import limits
from mooring.errors import Unavailable
from mooring.probe import NoProbe, Probe
from mooring.store import failures, migrate
from mooring.store.call import Call, deliver
from mooring.store.failures import FlushLostError
from mooring.store.loaded import lock_what_is_loaded
from mooring.timings import Timing

T = TypeVar("T")
_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.25
_AWAY = "The PostgreSQL database that the setting database (--database) names does not answer"
_AGAIN = "See that it runs and lets this machine in, then give this command again."
_UNTOUCHED = f"Nothing was changed in it. {_AGAIN}"
_WHOLE = f"What was to change in its tables is changed wholly or not at all. {_AGAIN}"
_number = text("SELECT CAST(pg_current_xact_id_if_assigned() AS text)")
_outcome = text("SELECT pg_xact_status(CAST(:number AS xid8))")
_end_backend = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE backend_xid = CAST(CAST(:number AS xid8) AS xid)"
)


def create_schema_engine(location: str, schema: str) -> Engine:
    """Return an engine whose every connection stands in `schema`, made by the first migration."""
    url = make_url(location).set(drivername="postgresql+psycopg")
    url = url.set(query=_patience() | dict(url.query))
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=limits.STORE_POOL_CONNECTIONS,
        max_overflow=0,
        pool_use_lifo=True,
        # What nobody here stores would be asked for once in each engine.
        use_native_hstore=False,
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


def _patience() -> dict[str, str]:
    """Return how long a machine is waited for that swallows what it is sent, unless one says so.

    It would keep each attempt to connect for two minutes, and each open connection for a quarter of
    an hour, or for ever where an answer is all that is missing. One whose machine takes what it is
    sent, and is slow, is waited for.
    """
    seconds = limits.STORE_CONNECT_S
    return {
        "connect_timeout": str(seconds),
        "tcp_user_timeout": str(1000 * seconds),
        "keepalives_idle": str(seconds),
        "keepalives_interval": "2",
        "keepalives_count": "3",
    }


class WriteSession(Session):
    """The session of one write: it locks the row of each object that it loads."""


def _lock_loaded(state: ORMExecuteState) -> None:
    """Have the rows behind a query for objects locked, until the transaction ends.

    Without it two writes that change the same list inside one row both succeed, and one is lost.
    """
    if not state.is_select or state.is_column_load:
        return
    statement = cast("Select[Any]", state.statement)
    objects = [
        one["entity"]
        for one in statement.column_descriptions
        if one.get("entity") is not None and one["expr"] is one["entity"]
    ]
    if objects:
        state.statement = statement.with_for_update(of=objects, key_share=True)


event.listen(WriteSession, "do_orm_execute", _lock_loaded)


class PostgresqlStore:
    """One service's schema; each thread of the pool works on a connection of its own."""

    kind: Literal["sqlite", "postgresql"] = "postgresql"

    def __init__(self, engine: Engine, service: str, probe: Probe | None) -> None:
        self.commits, self.commit_times = 0, Timing()
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
            _repeat(lambda: self._write_once(call))
            with self._counting:
                self.commits += 1
            self._probe.at(f"{self._point}/after")
        except BaseException as error:  # noqa: BLE001  (it goes to the one who asked)
            call.fail(failures.find_reason(error))
        deliver([call])

    def _write_once(self, call: Call[Any]) -> None:
        with WriteSession(self._engine, expire_on_commit=False) as tx:
            lock_what_is_loaded(tx)
            call.run(tx)
            number = tx.connection().scalar(_number)
            self._probe.at(f"{self._point}/before")
            begun = time.perf_counter()
            try:
                tx.commit()
            except DBAPIError as error:
                if not number or not self._was_committed(number, error):
                    raise
            with self._counting:
                self.commit_times.note(time.perf_counter() - begun)

    def _was_committed(self, number: str, error: DBAPIError) -> bool:
        """Look how a transaction ended whose COMMIT was not answered.

        Raises Unavailable when nobody can be asked; then nobody may repeat it either.
        """
        until = time.monotonic() + limits.STORE_SETTLE_S
        for pause in _pauses():
            try:
                with self._engine.connect() as connection:
                    # Whoever has not read the COMMIT yet shall not do so after we have looked.
                    connection.execute(_end_backend, {"number": number})
                    outcome = connection.scalar(_outcome, {"number": number})
            except DBAPIError:
                outcome = None
            if outcome in {"committed", "aborted"}:
                return outcome == "committed"
            if time.monotonic() > until:
                break
            time.sleep(pause)
        raise Unavailable(
            "The database did not answer, and whether the change was made is not known. Look "
            "before you ask again.",
            private=f"the commit of transaction {number} was not answered: {error.orig}",
        ) from error

    def _read(self, call: Call[Any]) -> None:
        try:
            _repeat(lambda: self._read_once(call))
        except BaseException as error:  # noqa: BLE001  (it goes to the one who asked)
            call.fail(failures.find_reason(error), reading=True)
        deliver([call])

    def _read_once(self, call: Call[Any]) -> None:
        with Session(self._snapshots, autoflush=False, expire_on_commit=False) as tx:
            call.run(tx)


def _pauses() -> Iterator[float]:
    """Give growing pauses without end, in seconds; no two callers wait in step."""
    for attempt in itertools.count():
        longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(attempt, 10))
        yield random.uniform(0.5, 1.0) * longest  # noqa: S311  (nothing secret)


def _repeat(attempt: Callable[[], None]) -> None:
    """Run a transaction again for as long as PostgreSQL says that this may help."""
    until = time.monotonic() + limits.STORE_AGAIN_S
    lost_races = 0
    for pause in _pauses():
        try:
            return attempt()
        except Exception as error:
            lost_races += isinstance(error, IntegrityError)
            again = failures.may_pass(error) or isinstance(error, FlushLostError)
            again = again or 0 < lost_races <= limits.STORE_LOST_RACES
            if not again or time.monotonic() > until:
                raise
        time.sleep(pause)
    return None


async def open_store(location: str, service: str, probe: Probe | None) -> PostgresqlStore:
    """Open the schema `service` of the database at `location`, migrated when needed."""
    engine = create_schema_engine(location, service)
    then = _UNTOUCHED
    try:
        # By itself: what fails here has changed nothing.
        await asyncio.to_thread(lambda: engine.connect().close())
        then = _WHOLE
        await asyncio.to_thread(migrate.upgrade, engine, service)
    except Exception as error:
        engine.dispose()
        raise failures.at_start(error, _AWAY, then) from error
    return PostgresqlStore(engine, service, probe)
