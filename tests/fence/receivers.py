"""One face for both fences, so that one test can hold them to the same rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from mooring.fence import table
from mooring.fence.file import JournalFile
from mooring.fence.operation import Operation
from mooring.fence.rules import Answer, Verb
from mooring.store.base import Store


class Receiver(Protocol):
    """Whoever is called with operations."""

    async def admit(
        self, operation: Operation, resource: str, verb: Verb = "PUT", *, shared: bool = False
    ) -> Answer | None: ...

    async def finish(
        self, operation: Operation, resource: str, answer: Answer, verb: Verb = "PUT"
    ) -> None: ...

    async def sweep(self, older_than: datetime) -> int: ...

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

    async def sweep(self, older_than: datetime) -> int:
        return await self.store.write(lambda tx: table.sweep(tx, older_than))

    async def close(self) -> None:
        await self.store.close()


class Agent:
    """An agent, whose marks are in a file of its own."""

    def __init__(self, file: JournalFile) -> None:
        self.file = file

    async def admit(
        self, operation: Operation, resource: str, verb: Verb = "PUT", *, shared: bool = False
    ) -> Answer | None:
        return self.file.admit(operation, resource, verb, shared=shared)

    async def finish(
        self, operation: Operation, resource: str, answer: Answer, verb: Verb = "PUT"
    ) -> None:
        self.file.finish(operation, resource, verb, answer)

    async def sweep(self, older_than: datetime) -> int:
        return self.file.sweep(older_than)

    async def close(self) -> None:
        self.file.close()
