"""Writes of many at one time, each of which would be a transaction of its own, in few of them.

    reports = Together(write_down)  # of a list of reports, a list of hosts
    ...
    host = await reports(report)  # a hundred of these at once are two transactions, not a hundred

While one transaction is under way, those who come meanwhile gather for the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from mooring.errors import Bug

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 100
"""In one transaction, so that nobody else's waits long."""


class Together(Generic[T, R]):
    """Calls `write` with lists of what it was called with, and gives each caller its own answer.

    `write` returns as many answers as it was given things, in their order, in one transaction: all
    of them or none. When it raises, each thing is written alone, so that one bad one spoils none;
    when it has another number of answers, all of them are written, and each is told Bug.
    """

    def __init__(self, write: Callable[[Sequence[T]], Awaitable[Sequence[R]]]) -> None:
        self._write = write
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def __call__(self, thing: T) -> R:
        """Write a thing down with others that come at the same time. Raises what `write` raises."""
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append((thing, answer))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all(), name="write together")
        return await answer

    async def end(self) -> None:
        """Wait until what was begun is written."""
        if self._writing is not None:
            await self._writing

    async def _write_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
            if not await self._write_some(batch) and len(batch) > 1:
                for one in batch:
                    await self._write_some([one])

    async def _write_some(self, batch: Sequence[tuple[T, asyncio.Future[R]]]) -> bool:
        """Write a batch and answer; False when it failed and is to be taken apart."""
        try:
            answers = await self._write([thing for thing, _ in batch])
        except Exception as error:  # noqa: BLE001  (who asked for it raises it)
            if len(batch) == 1 and not batch[0][1].done():
                batch[0][1].set_exception(error)
            return False
        waiting = [(at, answer) for at, (_, answer) in enumerate(batch) if not answer.done()]
        for at, answer in waiting:
            if len(answers) == len(batch):
                answer.set_result(answers[at])
            else:
                told = f"{len(batch)} things were written with {len(answers)} answers."
                answer.set_exception(Bug("An internal error occurred.", private=told))
        return True
