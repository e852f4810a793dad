"""When resting sagas wake. A row says a time of day; here it is counted by the monotonic clock.

The time of day may step by hours, and nobody who rests for a second is to sleep through them.
"""

from __future__ import annotations

import heapq
import math
from datetime import datetime

from msgspec import Struct

from mooring.clock import Clock

TICK_S = 1e-6
"""What a time of day can tell apart: a rest that is shorter is over."""


class _Rest(Struct):
    until: datetime
    since: float
    due: float


class Timers:
    """The rests of one process. What another one wrote down is read by the time of day."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rests: dict[str, _Rest] = {}
        self._heap: list[tuple[float, str]] = []

    def set(self, saga_id: str, until: datetime, *, longest_s: float = math.inf) -> None:
        """Let a saga rest until a time of day, as it is now, and for at most `longest_s`."""
        since = self._clock.monotonic()
        rest_s = min((until - self._clock.now()).total_seconds(), longest_s)
        known = self._rests.get(saga_id)
        if known is not None and known.until == until:
            rest_s, since = known.due - since, known.since
        due = self._clock.monotonic() + max(0.0, rest_s)
        self._rests[saga_id] = _Rest(until, since, due)
        heapq.heappush(self._heap, (due, saga_id))

    def is_over(self, saga_id: str, until: datetime) -> bool:
        """Whether a saga whose row says `until` has rested long enough."""
        rest = self._rests.get(saga_id)
        if rest is None or rest.until != until:
            return until <= self._clock.now()
        return rest.due <= self._clock.monotonic() + TICK_S

    def rested_s(self, saga_id: str, since: datetime) -> float:
        """Return for how long a saga has rested, which its row says it does since a time."""
        rest = self._rests.get(saga_id)
        if rest is None:
            return max(0.0, (self._clock.now() - since).total_seconds())
        return self._clock.monotonic() - rest.since

    def forget(self, saga_id: str) -> None:
        """Forget the rest of a saga that goes on, or that is not ours any more."""
        self._rests.pop(saga_id, None)

    def next_s(self) -> float | None:
        """Return in how many seconds the first rest is over, or None."""
        if not self._heap:
            return None
        return max(0.0, self._heap[0][0] - self._clock.monotonic())

    def ring(self) -> list[str]:
        """Return the sagas whose rest is over, each once for every time it was set."""
        over: list[str] = []
        while self._heap and self._heap[0][0] <= self._clock.monotonic() + TICK_S:
            over.append(heapq.heappop(self._heap)[1])
        return over
