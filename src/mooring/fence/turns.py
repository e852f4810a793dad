"""One at a time, in the order of asking; and threads that are waited for, whatever comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


class Turns:
    """A queue for each name; a name that nobody waits for takes no room."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def take(self, name: str) -> AsyncGenerator[None]:
        """Wait for the turn at `name`, and hold it inside."""
        lock, users = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[name]
            if users == 1:
                del self._locks[name]
            else:
                self._locks[name] = (lock, users - 1)


async def run_to_end(fn: Callable[[], T]) -> T:
    """Run `fn` in a thread and return only when it has ended, also when cancelled meanwhile.

    `asyncio.to_thread` returns at once when cancelled and leaves its thread at work: a verb that
    were ended so would go on behind the back of the one that ended it.
    """
    future = asyncio.ensure_future(asyncio.to_thread(fn))
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        future.exception()
        raise cancelled
    return future.result()
