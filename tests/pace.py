"""Lets the sagas of several services come to rest together, and turns the clock they share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from mooring.clock import SimulatedClock
from mooring.saga.engine import Engine
from mooring.saga.laws import LawProbe
from tests.stillness import is_owed, others_run, stands_still

HORIZON_S = 7200.0
SHORT_S = 61.0
LOOK_S, LOOKS, MOST_LOOKS = 0.02, 5, 1500
MOST_WORK_S = 2.0
"""Of the processor's: who works on and on is left to it, however little of it he gets."""
MOMENT_S = 0.002
BUSY_S = 0.004


class Pace:
    """The time of one simulated world. `engines` tells which there are at this moment."""

    def __init__(
        self, clock: SimulatedClock, probe: LawProbe, engines: Callable[[], Sequence[Engine[Any]]]
    ) -> None:
        self.clock, self.probe, self._engines = clock, probe, engines
        self.before_turn: Callable[[], Awaitable[None]] | None = None
        """Looks around each time before the clock is turned."""

    async def rest(self, horizon_s: float = HORIZON_S) -> None:
        """Return when nothing moves nor will within the horizon, or when a process died."""
        limit = self.clock.now() + timedelta(seconds=horizon_s)
        while True:
            await self.run_out()
            if self.probe.crashed or self.is_over(limit):
                return
            await self.turn()

    def is_over(self, limit: datetime | None = None) -> bool:
        """Whether nothing moves, nor will until a time: if none is given, for a long while."""
        at = self._next_wake()
        limit = limit or self.clock.now() + timedelta(seconds=HORIZON_S)
        return self._is_quiet() and (at is None or at > limit)

    async def run_out(self) -> None:
        """Return when nothing runs, or when what runs waits for one who sleeps.

        A saga of one service may wait for the answer of another whose own saga rests: then the
        clock must be turned for both.
        """
        while not self.probe.crashed and not self._is_quiet():
            is_stalled = await self._run_on()
            at = self._next_wake()
            if is_stalled and at is not None and at - self.clock.now() < timedelta(seconds=SHORT_S):
                return

    async def let_answer(self, asking: asyncio.Future[Any]) -> None:
        """Wait while a database owes an answer to somebody who is no saga.

        Else time would fly for the sagas while a client's request is at its database.
        """
        turns = 0
        while turns or is_owed():
            if is_owed():
                turns = LOOKS
                await asyncio.wait({asking}, timeout=MOMENT_S)
            else:
                # Who was answered may be about to ask for more.
                turns -= 1
                await asyncio.sleep(0)
            if asking.done() or self.probe.crashed:
                return

    async def turn(self) -> None:
        """Turn the clock to the next timer, and let those run whose time has come."""
        at = self._next_wake()
        is_far = at is not None and at - self.clock.now() >= timedelta(seconds=SHORT_S)
        if at is None or (is_far and not self._is_quiet()):
            # Another client has turned it, and what woke has not begun to run yet.
            await asyncio.sleep(0)
            return
        if self.before_turn is not None:
            await self.before_turn()
        self._advance(max(0.0, (at - self.clock.now()).total_seconds()))

    async def pass_time(self, seconds: float) -> None:
        """Turn the clock whatever is at work, and let those run whose time has come.

        What has begun gets as far as it can before, or its waiting would begin after the turn.
        """
        await self._run_on()
        self._advance(seconds)
        await self._run_on()

    async def _run_on(self) -> bool:
        """Let sagas run until none can, or until they stand still; tell whether some still do.

        Where that is not seen at once, what stands still takes no time of the processor, one look
        after the other. A moment proves nothing on a busy machine: nobody may have had a turn.
        """
        quiet = [asyncio.ensure_future(each.schedule.quiet()) for each in self._engines()]
        still, end = 0, time.process_time() + MOST_WORK_S
        for _ in range(MOST_LOOKS):
            before = time.process_time()
            if before > end or await self._look(quiet):
                break
            still = still + 1 if self._is_idle(before) else 0
            if still == LOOKS or self.probe.crashed or all(one.done() for one in quiet):
                break
        is_stalled = not all(one.done() for one in quiet)
        for one in quiet:
            one.cancel()
        return is_stalled

    async def _look(self, quiet: Sequence[asyncio.Future[Any]]) -> bool:
        """Let everybody go on for a moment; tell whether it is seen that nobody can any more."""
        end = time.monotonic() + LOOK_S
        while time.monotonic() < end:
            done, _ = await asyncio.wait(quiet, timeout=MOMENT_S)
            if len(done) == len(quiet) or self.probe.crashed:
                return False
            if stands_still(LOOKS * LOOK_S):
                return True
        return False

    def _is_idle(self, since: float) -> bool:
        """Whether nobody has worked since a moment of `process_time`, here or beside, nor would.

        A thread that had no turn for some looks has worked as little as one that waits.
        """
        has_worked = time.process_time() - since >= BUSY_S
        return not has_worked and not is_owed() and not others_run()

    def _advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for engine in self._engines():
            engine.schedule.ring()

    def _is_quiet(self) -> bool:
        return all(engine.schedule.is_quiet() for engine in self._engines())

    def _next_wake(self) -> datetime | None:
        times = [engine.schedule.next_wake() for engine in self._engines()]
        return min((at for at in times if at is not None), default=None)
