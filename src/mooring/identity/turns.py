"""Turns at something that takes a processor, dealt out fairly among those who ask from afar.

Somebody who asks a thousand times waits for himself: each address has a row of its own, and the
first of each row has his turn before the second of any.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mooring.errors import Unavailable


class FairTurns:
    """So many turns at a time, and so many who wait in the row of one address."""

    def __init__(self, places: int, waiting: int) -> None:
        self._free, self._waiting = places, waiting
        self._rows: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncGenerator[None]:
        """Wait for a turn and have it until the block ends.

        Raises Unavailable when too many wait from this address already.
        """
        await self._enter(address)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, address: str) -> None:
        if self._free > 0:
            self._free -= 1
            return
        row = self._rows.setdefault(address, deque())
        if len(row) >= self._waiting:
            raise Unavailable("Too many logins from your address wait for their turn. Try again.")
        turn = asyncio.get_running_loop().create_future()
        row.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        """Give the turn to the first of the next row; who was cancelled meanwhile wants none."""
        while self._rows:
            address, row = self._rows.popitem(last=False)
            turn = row.popleft()
            if row:
                self._rows[address] = row
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
