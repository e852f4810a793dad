"""One face for both fences, so that one test can hold them to the same rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from sqlalchemy import text
from sqlalchemy.orm import Session

from mooring.clock import SimulatedClock
from mooring.fence import table
from mooring.fence.file import JournalFile
from mooring.fence.growth import bounds
from mooring.fence.limits import FENCE_LEAST_S, FENCE_ROWS
from mooring.fence.operation import Operation
from mooring.fence.rules import Answer, Verb
from mooring.limits import FENCE_KEEP_S
from mooring.store.base import Store
from mooring.store.growth import prune
from tests.fence.journals import watching

_CAP, _UNCAP = "PRAGMA max_page_count=1", "PRAGMA max_page_count=1000000"
"""SQLite keeps the pages that it has; this bounds one connection's growth, not the file's."""
_NO_ROOM = """
CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$
"""


class Receiver(Protocol):
    """Whoever is called with operations."""

    async def admit(
        self, operation: Operation, resource: str, verb: Verb = "PUT", *, shared: bool = False
    ) -> Answer | None: ...

    async def finish(
        self, operation: Operation, resource: str, answer: Answer, verb: Verb = "PUT"
    ) -> None: ...

    async def sweep(self, now: datetime, most: int = FENCE_ROWS) -> int:
        """Forget what nobody can need any more at that time; return how many marks went."""
        ...

    async def fill(self) -> None:
        """Leave no room on the disk for an answer that is larger than a page."""
        ...

    async def make_room(self) -> None: ...

    async def close(self) -> None: ...


class Service:
    """A service, whose marks are rows of its database."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def admit(
        self, operation: Operation, resource: str, verb: Verb = "PUT", *, shared: bool = False
    ) -> Answer | None:
        return await self.store.write(
            lambda tx: table.admit(tx, operation, resource, verb=verb, shared=shared)
        )

    async def finish(
        self, operation: Operation, resource: str, answer: Answer, verb: Verb = "PUT"
    ) -> None:
        await self.store.write(
            lambda tx: table.record(tx, operation, resource, answer, answer.made, verb=verb)
        )

    async def bury(self, key: str, resource: str = "") -> Sequence[str]:
        return await self.store.write(lambda tx: table.bury(tx, key, resource))

    async def sweep(self, now: datetime, most: int = FENCE_ROWS) -> int:
        return await prune(None, self.store, SimulatedClock(now), bounds(most))

    async def fill(self) -> None:
        await self.store.write(_fill_table if self.store.kind == "postgresql" else _cap)

    async def make_room(self) -> None:
        await self.store.write(_empty_table if self.store.kind == "postgresql" else _uncap)

    async def close(self) -> None:
        await self.store.close()


def _cap(tx: Session) -> None:
    tx.execute(text(_CAP))


def _uncap(tx: Session) -> None:
    tx.execute(text(_UNCAP))


def _fill_table(tx: Session) -> None:
    """Let PostgreSQL say what it says of a full disk."""
    tx.execute(text(_NO_ROOM))
    when = "BEFORE INSERT OR UPDATE ON fence_answers"
    tx.execute(text(f"CREATE TRIGGER no_room {when} EXECUTE FUNCTION no_room()"))


def _empty_table(tx: Session) -> None:
    tx.execute(text("DROP TRIGGER no_room ON fence_answers"))


class Agent:
    """An agent, whose marks are in a file of its own."""

    def __init__(self, path: Path) -> None:
        with watching() as self._journals:
            self.file = JournalFile(path)

    async def admit(
        self, operation: Operation, resource: str, verb: Verb = "PUT", *, shared: bool = False
    ) -> Answer | None:
        return self.file.admit(operation, resource, verb, shared=shared)

    async def finish(
        self, operation: Operation, resource: str, answer: Answer, verb: Verb = "PUT"
    ) -> None:
        self.file.finish(operation, resource, verb, answer)

    async def sweep(self, now: datetime, most: int = FENCE_ROWS) -> int:
        since = now - timedelta(seconds=FENCE_KEEP_S)
        least = now - timedelta(seconds=FENCE_LEAST_S)
        return self.file.sweep(since, most=most, least=least)

    async def fill(self) -> None:
        for connection in self._journals.opened:
            connection.execute(_CAP)

    async def make_room(self) -> None:
        for connection in self._journals.opened:
            connection.execute(_UNCAP)

    async def close(self) -> None:
        self.file.close()
