"""An agent's marks in a small SQLite file: what must survive the agent, and nothing else.

Connection data never comes in here: of a secret answer only the digest is written.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from mooring import limits, typed
from mooring.errors import Conflict, Unavailable
from mooring.fence import rules
from mooring.fence.limits import FENCE_AT_ONCE
from mooring.fence.marks import Marks, statements
from mooring.fence.operation import Operation
from mooring.fence.rules import Answer, Verb
from mooring.write_ahead import set_write_ahead

_VERSION = 1
_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE epochs (saga TEXT PRIMARY KEY, mark INTEGER NOT NULL, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE generations (
    resource TEXT PRIMARY KEY, mark INTEGER NOT NULL, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE tombstones (
    key TEXT, resource TEXT, at REAL NOT NULL, PRIMARY KEY (key, resource)) WITHOUT ROWID;
CREATE TABLE calls (
    key TEXT, resource TEXT, verb TEXT, answer BLOB, at REAL NOT NULL,
    PRIMARY KEY (key, resource, verb)) WITHOUT ROWID;
CREATE TABLE processes (
    pid INTEGER PRIMARY KEY, start_time REAL NOT NULL, operation TEXT NOT NULL);
"""
_MARKS = {name: name for name in ("epochs", "generations", "tombstones")} | {"answers": "calls"}
_STATEMENTS = statements(_MARKS, ["answer"])
_KEYS = {
    "epochs": "saga",
    "generations": "resource",
    "tombstones": "key, resource",
    "calls": "key, resource, verb",
}
_BEYOND = "SELECT at FROM {table} ORDER BY at DESC LIMIT 1 OFFSET ?"
_SOME = (
    "DELETE FROM {table} WHERE ({keys}) IN "
    "(SELECT {keys} FROM {table} WHERE at <= ? ORDER BY at LIMIT ?)"
)
BOUNDS = {
    "meta": "one",
    **dict.fromkeys(
        _KEYS, "`FENCE_KEEP_S` after their last use; beyond `FENCE_ROWS` after `FENCE_LEAST_S`"
    ),
    "processes": "one for each program that an operation has started",
}
"""Why none of the journal's tables grows without end."""


class Process(Struct, frozen=True):
    """A subprocess that an operation started. A pid is reused, so the start time goes with it."""

    pid: int
    start_time: float
    operation_key: str


class Unfinished(Struct, frozen=True):
    """A call that was let in and has not ended, or whose agent died over it."""

    operation_key: str
    resource: str
    verb: str


class JournalFile(Marks):
    """The marks, one transaction for each call."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._turn = threading.Lock()
        self.commits = 0
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        with _failing_at_start(path):
            self._marks = _connect(path, "FULL")
            # What a reboot makes void need not wait for the disk: answers, and processes.
            self._answers = _connect(path, "NORMAL")
            self._notes = _connect(path, "NORMAL")
            self._open = self._marks
            self.incarnation = self._prepare(path)

    def admit(
        self,
        operation: Operation,
        resource: str,
        verb: Verb,
        *,
        shared: bool = False,
        also: str = "",
        acts: bool = True,
    ) -> Answer | None:
        """Let a call act (None) and note that it does, or return its earlier answer.

        A secret answer is returned as its digest, and the call is noted as acting again. One that
        only joins another does not act. Raises Gone and Outdated, as `rules.admit`.
        """
        with self._transaction():
            earlier = rules.admit(self, operation, resource, verb, shared=shared, also=also)
            if acts and (earlier is None or earlier.secret):
                self._begin(operation.key, resource, verb)
            return earlier

    def finish(self, operation: Operation, resource: str, verb: Verb, answer: Answer) -> None:
        """Keep the answer of a call that has ended. Raises Gone if it was undone meanwhile."""
        with self._transaction(waits=False):
            rules.finish(self, operation, resource, verb, answer)
            if answer.status >= 400:
                self._drop_call(operation.key, resource, verb)

    def fail(self, operation: Operation, resource: str, verb: Verb) -> None:
        """Forget a call that failed: it may be run again."""
        with self._transaction(waits=False):
            self._drop_call(operation.key, resource, verb)

    def unfinished(self) -> list[Unfinished]:
        """Return the calls that were let in and have no answer."""
        query = "SELECT key, resource, verb FROM calls WHERE answer IS NULL ORDER BY at"
        with self._transaction():
            return [Unfinished(*row) for row in self._marks.execute(query)]

    def forget_answers(self) -> None:
        """Forget what was answered, and keep what must not be done: for a rebooted machine."""
        with self._transaction():
            self._marks.execute("DELETE FROM calls")

    def sweep(self, older_than: datetime, *, most: int, least: datetime) -> int:
        """Forget some of what nobody has touched since; return how many marks went, 0 at the end.

        Beyond `most` marks of a kind the oldest go earlier, but none that was touched since
        `least`.
        """
        gone = 0
        for table, keys in _KEYS.items():
            with self._transaction():
                by_age, latest = older_than.timestamp(), least.timestamp()
                beyond = self._open.execute(_BEYOND.format(table=table), (most,)).fetchone()
                until = max(by_age, min(beyond[0], latest)) if beyond else by_age
                some = _SOME.format(table=table, keys=keys)
                gone += self._open.execute(some, (until, FENCE_AT_ONCE)).rowcount
        return gone

    def note_process(self, pid: int, start_time: float, operation_key: str) -> None:
        """Note a subprocess, to be ended before a restarted agent serves."""
        statement = "INSERT OR REPLACE INTO processes VALUES (?, ?, ?)"
        with _failing():
            self._notes.execute(statement, (pid, start_time, operation_key))

    def forget_process(self, pid: int) -> None:
        """Strike a subprocess that has ended."""
        with _failing():
            self._notes.execute("DELETE FROM processes WHERE pid = ?", (pid,))

    def processes(self) -> list[Process]:
        """Return the subprocesses that have not been struck."""
        with _failing():
            rows = self._notes.execute(
                "SELECT pid, start_time, operation FROM processes"
            ).fetchall()
        return [Process(*row) for row in rows]

    def close(self) -> None:
        """Close the file."""
        with self._turn:
            self._marks.close()
            self._answers.close()
            self._notes.close()

    def _ask(self, statement: str, given: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        return self._open.execute(_STATEMENTS[statement], dict(given)).fetchall()

    def _time(self) -> float:
        return self._now()

    def _pack(self, answer: Answer) -> dict[str, Any]:
        return {"answer": msgspec.json.encode(answer)}

    def _unpack(self, *columns: Any) -> Answer | None:
        return None if columns[0] is None else typed.decode(columns[0], Answer)

    def _begin(self, key: str, resource: str, verb: Verb) -> None:
        own = {"key": key, "resource": resource, "verb": verb, "at": self._now()}
        self._ask("keep", {**own, "answer": None})

    def _drop_call(self, key: str, resource: str, verb: Verb) -> None:
        statement = (
            "DELETE FROM calls WHERE key = ? AND resource = ? AND verb = ? AND answer IS NULL"
        )
        self._open.execute(statement, (key, resource, verb))

    @contextmanager
    def _transaction(self, *, waits: bool = True) -> Generator[None]:
        """One transaction, which `waits` for the disk or else outlives the agent, not a reboot."""
        with self._turn, _failing():
            self._open = self._marks if waits else self._answers
            self._open.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._open.execute("COMMIT")
                self.commits += waits
            except BaseException:
                # A full disk makes SQLite roll back by itself.
                if self._open.in_transaction:
                    self._open.execute("ROLLBACK")
                raise

    def _prepare(self, path: Path) -> str:
        """Make the tables if they are missing; return the incarnation made with them."""
        with self._transaction():
            version = self._marks.execute("PRAGMA user_version").fetchone()[0]
            if version > _VERSION:
                raise Conflict(
                    f"The agent's journal {path} was written by a newer release of Mooring; start "
                    "that release."
                )
            if version == 0:
                for statement in filter(str.strip, _TABLES.split(";")):
                    self._marks.execute(statement)
                made = ("incarnation", str(uuid.uuid4()))
                self._marks.execute("INSERT INTO meta VALUES (?, ?)", made)
                self._marks.execute(f"PRAGMA user_version = {_VERSION}")
            query = "SELECT value FROM meta WHERE name = 'incarnation'"
            return self._marks.execute(query).fetchone()[0]


def _connect(path: Path, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path,
        isolation_level=None,
        check_same_thread=False,
        timeout=limits.STORE_BUSY_TIMEOUT_S,
    )
    set_write_ahead(connection)
    connection.execute(f"PRAGMA synchronous={synchronous}")
    return connection


@contextmanager
def _failing() -> Generator[None]:
    """Turn what SQLite says into Unavailable: sagas ask again, as it says nothing of their verb."""
    try:
        yield
    except sqlite3.Error as error:
        if _code(error) == sqlite3.SQLITE_FULL:
            said = (
                "The agent's journal has no room left on its disk, and the agent does nothing "
                "until somebody has made room."
            )
        else:
            said = "The agent's journal did not answer."
        raise Unavailable(said, private=_private(error)) from error


@contextmanager
def _failing_at_start(path: Path) -> Generator[None]:
    """Say of a journal that does not open which one it is, why, and what then helps."""
    try:
        yield
    except sqlite3.Error as error:
        if _code(error) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            said = (
                f"The agent's journal {path} is damaged. Move it away: the agent then starts as a "
                "new incarnation, and the control plane looks at the host again."
            )
        else:
            said = (
                f"The agent's journal {path} cannot be used: {error}. What it has is kept. See "
                "that its disk is whole and has room, then start the agent again."
            )
        raise Unavailable(said, private=_private(error)) from error


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _private(error: sqlite3.Error) -> str:
    return f"{getattr(error, 'sqlite_errorname', 'sqlite')}: {error}"
