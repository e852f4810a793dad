"""The emulators of simulated guests: they answer at once, unless a test lets one hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from mooring.agent.guest_calls import GuestCalls
from mooring.errors import Unavailable

T = TypeVar("T")


class Emulators:
    """What stands between the simulated hypervisor and its guests. `answer_s`: of `GuestCalls`."""

    def __init__(self, answer_s: float) -> None:
        self.calls = GuestCalls(answer_s)
        self._hung: dict[str, asyncio.Future[None]] = {}

    def hang(self, server_id: str) -> None:
        """Let a guest's emulator answer nothing, as one does that was stopped by SIGSTOP."""
        self._hung.setdefault(server_id, asyncio.get_running_loop().create_future())

    def go_on(self, server_id: str) -> None:
        """Let it answer again: first what it was asked meanwhile."""
        if (gate := self._hung.pop(server_id, None)) is not None:
            gate.set_result(None)

    async def ask(self, server_id: str, fn: Callable[[], T]) -> T:
        """Return what a guest's emulator answers. Raises Unavailable for one that hangs."""
        if server_id not in self._hung and self.calls.is_idle(server_id):
            return fn()
        return await self.calls.ask(server_id, lambda: self._answer(server_id, fn))

    async def end(self, server_id: str, fn: Callable[[], T]) -> T:
        """End a guest's emulator, whatever it does; `fn` is what comes of that."""
        ended = fn()
        if (gate := self._hung.pop(server_id, None)) is not None:
            gate.set_exception(Unavailable("The emulator ended in the middle. Look at the guest."))
            # It may be that nobody asked.
            gate.exception()
        await self.calls.until_quiet(server_id, was_ended=True)
        return ended

    async def _answer(self, server_id: str, fn: Callable[[], T]) -> T:
        if (gate := self._hung.get(server_id)) is not None:
            await asyncio.shield(gate)
        return fn()
