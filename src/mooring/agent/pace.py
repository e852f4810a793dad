"""How fast bytes may go: whoever sends takes them first, and waits when there are none left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


class Pace:
    """A bound on bytes a second for all who send together; 0 is none. For one event loop.

    Nothing is saved up: who was slow before is not faster afterwards.
    """

    def __init__(
        self,
        bytes_per_s: int,
        *,
        now: Callable[[], float] = time.monotonic,
        rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._bytes_per_s, self._now, self._rest = bytes_per_s, now, rest
        self._free_at = 0.0

    async def take(self, count: int) -> None:
        """Return when that many bytes may be sent."""
        if not self._bytes_per_s:
            return
        begin = max(self._now(), self._free_at)
        self._free_at = begin + count / self._bytes_per_s
        if (wait_s := begin - self._now()) > 0:
            await self._rest(wait_s)
