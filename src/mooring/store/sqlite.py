"""A service's database as one SQLite file: one thread that writes, a few that read.

Writes that wait are committed together, each inside a savepoint of its own: a failing one takes
back only itself, and the disk is flushed once for all. `BEGIN IMMEDIATE` is ours, because the
driver's implicit BEGIN lets two readers become writers, of which one fails.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, TypeVar, cast

from sqlalchemy import Connection, Engine, NullPool, create_engine, event
from sqlalchemy.orm import Session

from mooring import limits, patterns
from mooring.errors import Unavailable
from mooring.probe import NoProbe, Probe
from mooring.store import damage, failures, migrate
from mooring.store.call import Call, deliver
from mooring.store.failures import FlushLostError
from mooring.store.lanes import Lane, Lanes
from mooring.store.link import set_link
from mooring.timings import Timing
from mooring.write_ahead import set_write_ahead

T = TypeVar("T")


def create_engines(path: Path) -> tuple[Engine, Engine]:
    """Return the engine that writes and the one that reads, for the file at `path` (made 0600)."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise Unavailable(
            f"The database file {path} cannot be opened: {error.strerror}. Make its directory, "
            "writable for this user, and start again."
        ) from error
    url = f"sqlite+pysqlite:///{path}"
    arguments = {
        "check_same_thread": False,
        "isolation_level": None,
        "timeout": limits.STORE_BUSY_TIMEOUT_S,
    }
    # Parameters may be secrets; an error message shows the statement only.
    writer = create_engine(url, poolclass=NullPool, connect_args=arguments, hide_parameters=True)
    reader = create_engine(url, poolclass=NullPool, connect_args=arguments, hide_parameters=True)
    # A changed synchronous or journal mode would lose committed steps on power loss.
    event.listen(writer, "connect", _write_ahead)
    _prepare(writer, "BEGIN IMMEDIATE", ("synchronous=FULL", "foreign_keys=ON"))
    _prepare(reader, "BEGIN", ("query_only=ON", "cache_size=-1024"))
    return writer, reader


def _write_ahead(connection: sqlite3.Connection, _record: object) -> None:
    set_write_ahead(connection)


def _prepare(engine: Engine, begin: str, pragmas: Sequence[str]) -> None:
    def connected(connection: sqlite3.Connection, _record: object) -> None:
        # SQLAlchemy's searches with Python's `re`, which one caller could keep at work for ever.
        connection.create_function("regexp", 2, patterns.search, deterministic=True)
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}").close()

    def began(connection: Connection) -> None:
        # Straight to the driver: this is the most frequent statement of all.
        driver = cast("sqlite3.Connection", connection.connection.driver_connection)
        driver.execute(begin).close()

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", began)


class SqliteFile:
    """The file itself: what one thread does to it at a time."""

    def __init__(self, path: Path, service: str, probe: Probe | None) -> None:
        self.service, self._path = service, path
        self.commits, self.commit_times = 0, Timing()
        self._writes, self._reads = create_engines(path)
        self._point = f"store.{service}/commit"
        self._probe: Probe = probe or NoProbe()
        self._writer, self._readers = Lane(self._writes), Lanes(self._reads)

    def migrate(self) -> None:
        """Bring the tables to the newest revision. Raises Unavailable for a damaged file."""
        try:
            if not self._is_newest():
                migrate.upgrade(self._writes, self.service)
        except Exception as error:
            what = f"The database file {self._path} cannot be used"
            raise failures.at_start(error, what, failures.OF_FILE) from error

    def _is_newest(self) -> bool:
        """Look at the file over the connection that its first reader has, too."""
        lane = self._readers.take()
        try:
            with damage.told(self._path):
                connection = lane.begin()
                damage.look(self._path, connection)
            found = migrate.state(connection, self.service).is_newest
            connection.rollback()
        except BaseException:
            lane.abandon()
            raise
        self._readers.give_back(lane)
        return found

    def read(self, call: Call[Any]) -> None:
        """Run one call that only looks."""
        lane = self._readers.take()
        try:
            connection = lane.begin()
            tx = _open_session(connection, autoflush=False)
            try:
                call.run(tx)
            finally:
                tx.close()
                connection.rollback()
        except BaseException as error:  # noqa: BLE001  (it goes to the one who asked)
            if failures.is_of_database(error) or not lane.rests():
                lane.abandon()
            call.fail(error, reading=True)
        self._readers.give_back(lane)
        deliver([call])

    def write(self, group: Sequence[Call[Any]]) -> int:
        """Run and commit the calls in one transaction; return how many were answered.

        SQLite takes back the whole transaction on some failures (a full disk, say). The calls that
        ran until then fail with it; those behind are left for a transaction of their own.
        """
        while True:
            try:
                return self._write(group)
            except FlushLostError:
                # Its call is run with care from now on, so there are no more rounds than calls.
                self._writer.abandon()

    def _write(self, group: Sequence[Call[Any]]) -> int:
        ran: list[Call[Any]] = []
        try:
            connection = self._writer.begin()
            for call in group:
                ran.append(call)
                _run(connection, call, alone=len(group) == 1)
            if connection.in_transaction():
                self._probe.at(f"{self._point}/before")
                begun = perf_counter()
                connection.commit()
                self.commit_times.note(perf_counter() - begun)
                self.commits += sum(call.error is None for call in ran)
                self._probe.at(f"{self._point}/after")
        except FlushLostError:
            raise
        except BaseException as error:  # noqa: BLE001  (it goes to those who asked)
            self._writer.abandon()
            ran = ran or list(group)
            reason = failures.find_reason(error)
            for call in ran:
                if call.error is None:
                    call.fail(reason)
        deliver(ran)
        return len(ran)

    def close(self) -> None:
        """Close every connection to the file."""
        self._writer.close()
        self._readers.close()
        self._reads.dispose()
        self._writes.dispose()


def _open_session(connection: Connection, *, autoflush: bool = True) -> Session:
    """Return a session inside a connection's transaction, which stays open when it is closed."""
    tx = Session(
        connection,
        join_transaction_mode="rollback_only",
        autoflush=autoflush,
        expire_on_commit=False,
    )
    set_link(tx, connection)
    return tx


def _run(connection: Connection, call: Call[Any], *, alone: bool) -> None:
    """Run one call, inside a savepoint unless it is `alone` in its transaction.

    A failing call is taken back. Raises only when the transaction of other calls is lost:
    FlushLostError when all of them may be run again.
    """
    if call.careful and not alone:
        _run_with_care(connection, call)
        return
    driver = cast("sqlite3.Connection", connection.connection.driver_connection)
    tx = _open_session(connection)
    try:
        if not alone:
            driver.execute("SAVEPOINT call").close()
        call.run(tx)
        if not alone:
            driver.execute("RELEASE SAVEPOINT call").close()
    except FlushLostError:
        raise
    except BaseException as error:
        lost = not driver.in_transaction
        if alone:
            connection.rollback()
        elif lost:
            # There is no savepoint left to go back to.
            if failures.is_of_database(failures.find_reason(error)):
                raise
            call.careful = True
            raise FlushLostError from error
        else:
            driver.execute("ROLLBACK TO SAVEPOINT call").close()
            driver.execute("RELEASE SAVEPOINT call").close()
        call.fail(failures.find_reason(error) if lost else error)
    finally:
        tx.close()


def _run_with_care(connection: Connection, call: Call[Any]) -> None:
    """Run one call among others in a savepoint of the session's own, as `_run` does."""
    tx = Session(connection, join_transaction_mode="create_savepoint", expire_on_commit=False)
    try:
        call.run(tx)
        tx.commit()
    except BaseException as error:
        driver = cast("sqlite3.Connection", connection.connection.driver_connection)
        if not driver.in_transaction:
            # There is no savepoint left to go back to; the connection is given up as it is.
            tx.invalidate()
            raise
        tx.rollback()
        call.fail(error)
    tx.close()


class SqliteStore:
    """The store that a running service uses: its threads stand between event loop and file."""

    kind: Literal["sqlite", "postgresql"] = "sqlite"

    def __init__(self, file: SqliteFile) -> None:
        self._file, self.commit_times = file, file.commit_times
        self._closed = False
        self._waiting: queue.SimpleQueue[Call[Any] | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(limits.STORE_READERS, f"{file.service}-read")
        self._writer = threading.Thread(
            target=self._write_all, name=f"{file.service}-write", daemon=True
        )
        self._writer.start()

    @property
    def commits(self) -> int:
        """Writes committed so far."""
        return self._file.commits

    async def write(self, fn: Callable[[Session], T]) -> T:
        call = _open_call(fn, closed=self._closed)
        self._waiting.put(call)
        return await call.future

    async def read(self, fn: Callable[[Session], T]) -> T:
        call = _open_call(fn, closed=self._closed)
        self._readers.submit(self._file.read, call)
        return await call.future

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._waiting.put(None)
        await asyncio.to_thread(self._writer.join)
        await asyncio.to_thread(self._readers.shutdown)
        self._file.close()

    def _write_all(self) -> None:
        while group := self._next_group():
            while group:
                group = group[self._file.write(group) :]

    def _next_group(self) -> list[Call[Any]]:
        """Wait for a write and return it with those that wait behind it; nothing at the end."""
        group: list[Call[Any]] = []
        while len(group) < limits.STORE_GROUP_WRITES:
            if group and self._waiting.empty():
                break
            call = self._waiting.get()
            if call is None:
                self._waiting.put(None)
                break
            group.append(call)
        return group


class InlineStore:
    """The same file without threads, for seeded histories: the same seed gives the same order."""

    kind: Literal["sqlite", "postgresql"] = "sqlite"

    def __init__(self, file: SqliteFile) -> None:
        self._file, self.commit_times = file, file.commit_times
        self._closed = False

    @property
    def commits(self) -> int:
        """Writes committed so far."""
        return self._file.commits

    async def write(self, fn: Callable[[Session], T]) -> T:
        call = _open_call(fn, closed=self._closed)
        self._file.write([call])
        return await call.future

    async def read(self, fn: Callable[[Session], T]) -> T:
        call = _open_call(fn, closed=self._closed)
        self._file.read(call)
        return await call.future

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._file.close()


def _open_call(fn: Callable[[Session], T], *, closed: bool) -> Call[T]:
    if closed:
        raise Unavailable(
            "The service is stopping; ask again when it is back.", private="the store is closed"
        )
    return Call(fn)


async def open_store(
    path: Path, service: str, probe: Probe | None, *, inline: bool
) -> SqliteStore | InlineStore:
    """Open the SQLite file at `path`, migrated when needed."""
    file = await asyncio.to_thread(_open_file, path, service, probe)
    return InlineStore(file) if inline else SqliteStore(file)


def _open_file(path: Path, service: str, probe: Probe | None) -> SqliteFile:
    file = SqliteFile(path, service, probe)
    try:
        file.migrate()
    except BaseException:
        file.close()
        raise
    return file
