"""A few chunks of bytes between two tasks, and what is raised when the other side is silent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

from mooring import limits

T = TypeVar("T")


class NoAnswer(Exception):
    """No answer came, or not all of it. What was asked for may have happened, or may still."""


class TooLate(NoAnswer):
    """No answer came within the time that the caller gave it."""


async def within(wait_s: float | None, waiting: Awaitable[T]) -> T:
    """Return what comes within `wait_s` seconds; None waits for ever. Raises TooLate."""
    if wait_s is None:
        return await waiting
    try:
        async with asyncio.timeout(wait_s):
            return await waiting
    except TimeoutError as error:
        raise TooLate(f"Nothing came within {wait_s:g} s.") from error


class Pipe:
    """A few chunks on their way from one writer to one reader; either may leave before the end."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._room, self._news = asyncio.Event(), asyncio.Event()
        self._ended = self._broken = self._left = False

    async def fill(self, source: AsyncIterator[bytes], wait_s: float | None) -> None:
        """Put in all that comes, as far as the reader wants it. Raises TooLate."""
        async for chunk in source:
            if chunk and not await within(wait_s, self.put(chunk)):
                break
        self.end()

    async def put(self, chunk: bytes) -> bool:
        """Add a chunk once there is room; False when the reader has left."""
        while len(self._chunks) >= limits.NEIGHBOUR_CHUNKS and not self._left:
            self._room.clear()
            await self._room.wait()
        if self._left:
            await asyncio.sleep(0)  # so that a writer who never waits hears that nobody reads
            return False
        self._chunks.append(chunk)
        self._news.set()
        return True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """Take the next chunk. Raises NoAnswer when the writer left before the end."""
        while not self._chunks:
            if self._broken:
                raise NoAnswer("What was sent broke off.")
            if self._ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        self._room.set()
        return self._chunks.popleft()

    def end(self) -> None:
        """Say that no chunk will follow."""
        self._ended = True
        self._news.set()

    def break_off(self) -> None:
        """Say that chunks are missing, unless the end was there already."""
        self._broken = not self._ended
        self._news.set()

    def leave(self) -> None:
        """Say that no chunk will be read."""
        self._left = True
        self._chunks.clear()
        self._room.set()
