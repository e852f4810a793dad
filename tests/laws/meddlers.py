"""What may befall a call: it, or its answer, is lost; it comes twice, late, or to a dead host."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from mooring.errors import MooringError
from mooring.neighbour import NoAnswer, Response
from tests.cloud import SimulatedCloud
from tests.laws.sites import Call


class Meddling:
    """Counts calls, and treats the n-th (from 1) as `kind` says; with n 0 it only counts."""

    def __init__(self, cloud: SimulatedCloud, kind: str = "", nth: int = 0) -> None:
        self.cloud, self.kind, self.nth = cloud, kind, nth
        self.calls: list[str] = []
        self._same: list[tuple[str, str]] = []
        self.late: Callable[[], Awaitable[Any]] | None = None
        self.held, self.released = asyncio.Event(), asyncio.Event()

    @property
    def name(self) -> str:
        """The call that was meddled with.

        Who waits for another service looks as often as it takes, so a scenario may make fewer calls
        than when they were counted.
        """
        made = self.calls[self.nth - 1] if self.nth <= len(self.calls) else "not made this time"
        return f"call {self.nth} ({made})"

    async def pass_on(self, call: Call) -> Any:
        """Deliver a call in the way of this kind."""
        self.calls.append(call.what)
        # Actions of one volume have one path: what tells them apart is the operation.
        self._same.append((call.what, call.operation.partition(";")[0]))
        again = len(self.calls) > self.nth > 0 and self._same[-1] == self._same[self.nth - 1]
        if len(self.calls) != self.nth and not (again and self.kind == "never"):
            return await call.forward()
        return await getattr(self, f"_{self.kind}")(call)

    async def deliver_late(self) -> None:
        """Deliver what was held back, to whoever is there; its answer goes nowhere."""
        if self.late is not None:
            with contextlib.suppress(MooringError, NoAnswer):
                await _drop(await self.late())

    def release(self) -> None:
        """Let the call that is held go on, and time with it."""
        self.cloud.is_still = False
        self.released.set()

    async def _lost(self, call: Call) -> Any:
        raise call.lost()

    async def _unanswered(self, call: Call) -> Any:
        await _drop(await call.forward())
        raise call.lost()

    async def _twice(self, call: Call) -> Any:
        await _drop(await call.forward())
        return await call.forward()

    async def _late(self, call: Call) -> Any:
        self.late = call.forward
        raise call.lost()

    async def _never(self, call: Call) -> Any:
        return await self._late(call)

    async def _expired(self, call: Call) -> Any:
        self.cloud.clock.advance(self.cloud.settings.token_lifetime_s + 1.0)
        return await call.forward()

    async def _held_before(self, call: Call) -> Any:
        await self.hold()
        return await call.forward()

    async def _held_after(self, call: Call) -> Any:
        try:
            return await call.forward()
        finally:
            await self.hold()

    async def hold(self) -> None:
        """Let time stand still until `release`."""
        self.cloud.is_still = True
        self.held.set()
        await self.released.wait()


class DeadHost:
    """A host that answers nothing any more from its n-th call on, until it is `revived`."""

    def __init__(self, host: str, nth: int) -> None:
        self.host, self.nth = host, nth
        self.count, self.revived = 0, False

    async def pass_on(self, call: Call) -> Any:
        """Deliver a call, unless it is for the dead."""
        self.count += call.at == self.host
        if call.at == self.host and self.count >= self.nth and not self.revived:
            raise call.lost()
        return await call.forward()


async def _drop(answer: Any) -> None:
    if isinstance(answer, Response):
        await answer.aclose()
