"""The capacity that an array tells, asked once a minute; polls of hosts come more often."""

from __future__ import annotations

import time

from msgspec import Struct

from mooring import limits
from mooring.agent.mounts import Space
from mooring.agent.worker import Worker


class ToldSpace:
    """Asks a helper's verb `show_space`, and remembers its answer for a while."""

    def __init__(self, worker: Worker, access: Struct) -> None:
        self._worker, self._access = worker, access
        self._known, self._until = Space(0, 0), 0.0

    async def read(self) -> Space:
        """Return the size of a share. Raises Unavailable."""
        if time.monotonic() >= self._until:
            answer = await self._worker.ask(
                "show_space", self._access, timeout_s=limits.AGENT_ARRAY_S
            )
            self._known = Space(*answer)
            self._until = time.monotonic() + limits.AGENT_ARRAY_FRESH_S
        return self._known
