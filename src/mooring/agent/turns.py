"""Turns: who works on a thing keeps others waiting, in the order of their coming."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager


class Turns:
    """Locks by name, for one event loop. A name that nobody wants is forgotten."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._wanted: Counter[str] = Counter()

    @asynccontextmanager
    async def take(self, *names: str) -> AsyncGenerator[None]:
        """Have the turn of all names in the body; two that want the same never block each other."""
        async with AsyncExitStack() as stack:
            for name in sorted(set(names)):
                await stack.enter_async_context(self._one(name))
            yield

    @asynccontextmanager
    async def _one(self, name: str) -> AsyncGenerator[None]:
        lock = self._locks.setdefault(name, asyncio.Lock())
        self._wanted[name] += 1
        try:
            async with lock:
                yield
        finally:
            self._wanted[name] -= 1
            if not self._wanted[name]:
                del self._wanted[name], self._locks[name]
