"""News of the host, kept in memory: a hint for whoever asks to read the truth sooner."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from datetime import UTC, datetime

from mooring.agent.hypervisor import News
from mooring.agent.limits import AGENT_EVENTS
from mooring.agent_api.hosts import Event


class EventLog:
    """The last news. Numbers grow, also over a restart, because they begin at the time of day.

    Where the clock was set back meanwhile they do not; see `after`.
    """

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=AGENT_EVENTS)
        self._last = time.time_ns() // 1000
        self._changed = asyncio.Event()

    @property
    def last(self) -> int:
        """The number of the newest event."""
        return self._last

    def add(self, news: News) -> None:
        """Take in news, and wake those who wait for any."""
        self._last += 1
        event = Event(
            number=self._last,
            kind=news.kind,
            time=datetime.now(UTC).isoformat(),
            server_id=news.server_id,
            volume_id=news.volume_id,
            reason=news.reason,
        )
        self._events.append(event)
        self._changed.set()
        self._changed = asyncio.Event()

    async def after(self, number: int, wait_s: float) -> list[Event]:
        """Return what is newer than a number, waiting for the first.

        All of it is newer than a number that was not reached yet: an agent gave it whose clock was
        ahead of ours.
        """
        if number > self._last:
            number = 0
        deadline = time.monotonic() + wait_s
        while not (found := [event for event in self._events if event.number > number]):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except TimeoutError:
                break
        return found
