"""Time, handed in: the real clock, and one that tests turn by hand."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """What a service may know about time."""

    def now(self) -> datetime:
        """Return the time of day, in UTC and aware of it."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only ever grow."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        ...


class RealClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SimulatedClock:
    """A clock that stands still until `advance` turns it; sleepers wake in order of their times."""

    def __init__(self, start: datetime | None = None) -> None:
        self._start = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._elapsed, self._stepped = 0.0, 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = itertools.count()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed + self._stepped)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._count), future))
        await future

    def next_wake(self) -> float | None:
        """Return in how many seconds the first sleeper wakes, or None when nobody sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return max(0.0, self._sleepers[0][0] - self._elapsed) if self._sleepers else None

    def step(self, seconds: float) -> None:
        """Set the time of day forward or back, as an operator does: no time passes."""
        self._stepped += seconds

    def advance(self, seconds: float) -> None:
        """Turn the clock and wake whoever's time has come."""
        self._elapsed += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed:
            future = heapq.heappop(self._sleepers)[2]
            if not future.done():
                future.set_result(None)
