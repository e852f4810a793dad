"""Connections to PostgreSQL that break in the middle of a transaction, where a law says so.

The connections are the driver's own, and count each statement and commit as it is sent: by
SQLAlchemy, or past it (`mooring.store.prepared`).
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Literal, Self, TypeVar

import psycopg
from msgspec import Struct
from psycopg.pq import TransactionStatus
from sqlalchemy import Engine, event

T = TypeVar("T")
COMMIT = 0
"""Stands for the end of a transaction among the numbers of its statements, which begin at 1."""
_LOOKS = ("backend_xid", "pg_xact_status")
"""What the store asks to learn how a commit ended that was not answered."""


class Loss(Struct, frozen=True):
    """Where each transaction loses its connection: at its n-th statement, or at its commit.

    `before` it was sent, or `after` the server did it, so that only the answer is lost.
    """

    nth: int
    when: Literal["before", "after"]


class _OfThread(threading.local):
    """Whose turn it is in one thread, in which the store repeats what was lost there."""

    is_spared = False
    """Whether the next transaction repeats one that was lost."""
    is_done = False
    """Whether the one that was lost is committed all the same: the server will say so."""


class Losses:
    """Breaks the connection of every transaction once, where `rule` says.

    What the store repeats then goes well, but that the server first has no place for a connection
    which would replace one that was lost before a statement.
    """

    def __init__(self) -> None:
        self.rule: Loss | None = None
        self.longest = 0
        """How many statements the longest transaction had so far."""
        self.lost: list[str] = []
        """At what connections were lost so far."""
        self._crowded = 0
        self._here = _OfThread()

    def begin(self, rule: Loss | None) -> None:
        """Count anew, and break connections by another rule, or none."""
        self.rule, self.longest, self.lost, self._crowded = rule, 0, [], 0

    def connect(self, arguments: Any, settings: dict[str, Any]) -> psycopg.Connection[Any]:
        """Connect to the server, if it has a place."""
        if self._crowded > 0:
            self._crowded -= 1
            raise psycopg.OperationalError("FATAL:  sorry, too many clients already")
        made = CountedConnection.connect(*arguments, cursor_factory=CountedCursor, **settings)
        made.losses = self
        return made

    def send(self, on: CountedConnection, statement: str, forward: Callable[[], T]) -> T:
        """Send a statement, and lose the connection before or after if it is this one's turn."""
        if on.autocommit:
            return forward()
        on.is_look = on.is_look or any(word in statement for word in _LOOKS)
        on.statements += 1
        self.longest = max(self.longest, on.statements)
        return self._lose_or(on, on.statements, statement, forward)

    def commit(self, on: CountedConnection, forward: Callable[[], None]) -> None:
        """Commit, and lose the connection before or after if it is the commit's turn."""
        self._lose_or(on, COMMIT, "COMMIT", forward)
        self.end(on)

    def end(self, on: CountedConnection) -> None:
        """Take note that a transaction has ended. A look ends nothing unless it found all done."""
        if not on.is_look or self._here.is_done:
            self._here.is_spared = self._here.is_done = False
        on.statements, on.is_look = 0, False

    def _lose_or(
        self, on: CountedConnection, nth: int, statement: str, forward: Callable[[], T]
    ) -> T:
        rule = self.rule
        if rule is None or nth != rule.nth or self._here.is_spared or on.is_look:
            return forward()
        self._here.is_spared = True
        self.lost.append(statement)
        if rule.when == "before":
            self._crowded += 1
            _break(on)
            return forward()
        answer = forward()
        self._here.is_done = nth == COMMIT
        _break(on)
        psycopg.Cursor(on).execute("SELECT 1")
        return answer


class CountedCursor(psycopg.Cursor[Any]):
    """Tells its connection what it sends."""

    def execute(self, query: Any, params: Any = None, **how: Any) -> Self:
        send = super().execute
        on = self.connection
        assert isinstance(on, CountedConnection)
        on.losses.send(on, str(query), lambda: send(query, params, **how))
        return self

    def executemany(self, query: Any, params_seq: Any, **how: Any) -> None:
        send = super().executemany
        on = self.connection
        assert isinstance(on, CountedConnection)
        on.losses.send(on, str(query), lambda: send(query, params_seq, **how))


class CountedConnection(psycopg.Connection[Any]):
    """A connection that knows how many statements its transaction has sent."""

    losses: Losses
    statements = 0
    is_look = False

    def commit(self) -> None:
        if self.info.transaction_status == TransactionStatus.IDLE:
            super().commit()
        else:
            self.losses.commit(self, super().commit)

    def rollback(self) -> None:
        super().rollback()
        if self.statements:
            self.losses.end(self)


def _break(on: psycopg.Connection[Any]) -> None:
    """Cut the line as a server that went away does: the driver finds out when it is used next."""
    with socket.socket(fileno=os.dup(on.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


@contextmanager
def losing() -> Generator[Losses]:
    """Make all connections to PostgreSQL that are opened meanwhile such that break."""
    losses = Losses()

    def connect(
        dialect: Any, _record: object, arguments: Any, settings: dict[str, Any]
    ) -> psycopg.Connection[Any] | None:
        return losses.connect(arguments, settings) if dialect.name == "postgresql" else None

    event.listen(Engine, "do_connect", connect)
    try:
        yield losses
    finally:
        event.remove(Engine, "do_connect", connect)
