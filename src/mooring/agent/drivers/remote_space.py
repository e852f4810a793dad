"""The capacity that an array tells, asked once a minute; polls of hosts come more often."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from msgspec import Struct

from mooring.agent import limits
from mooring.agent.mounts import Space
from mooring.agent.worker import Worker
from mooring.errors import Unavailable, from_record, to_record


class ToldSpace:
    """Asks a helper's verb `show_space`, and remembers its answer for a while."""

    def __init__(self, worker: Worker, access: Struct) -> None:
        self._worker, self._access = worker, access
        self._known: Space | dict[str, Any] = Space(0, 0)
        self._until = 0.0
        self._turn = asyncio.Lock()

    async def read(self) -> Space:
        """Return the size of a share. Raises Unavailable.

        A refusal is remembered too: many wrong logins would lock an account. Whoever comes while it
        is asked has the same answer.
        """
        async with self._turn:
            if time.monotonic() >= self._until:
                self._known = await self._ask()
                self._until = time.monotonic() + limits.AGENT_ARRAY_FRESH_S
        if isinstance(self._known, dict):
            raise from_record(self._known)
        return self._known

    async def _ask(self) -> Space | dict[str, Any]:
        try:
            answer = await self._worker.ask(
                "show_space", self._access, timeout_s=limits.AGENT_ARRAY_S
            )
        except Unavailable as error:
            return to_record(error)
        return Space(*answer)
