"""Connections to a SQLite file that are kept for one transaction after the other."""

from __future__ import annotations

from collections import deque

from sqlalchemy import Connection, Engine


class Lane:
    """A connection that is kept for one transaction after the other."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None

    def begin(self) -> Connection:
        """Begin a transaction, at a new connection if there is none."""
        if self._connection is None:
            self._connection = self._engine.connect()
        self._connection.begin()
        return self._connection

    def rests(self) -> bool:
        """Whether no transaction is open."""
        return self._connection is None or not self._connection.in_transaction()

    def abandon(self) -> None:
        """Give up a connection whose transaction failed; the next one gets a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


class Lanes:
    """Lanes for threads that read at the same time: as many as have ever done so."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._idle: deque[Lane] = deque()

    def take(self) -> Lane:
        """Return a lane that nobody reads on, a new one if there is none."""
        try:
            return self._idle.pop()
        except IndexError:
            return Lane(self._engine)

    def give_back(self, lane: Lane) -> None:
        """Leave a lane to whoever reads next."""
        self._idle.append(lane)

    def close(self) -> None:
        """Close all lanes; nobody may be reading."""
        while self._idle:
            self._idle.pop().close()
