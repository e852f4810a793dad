"""Hands the outbox of one service to its targets: each row at least once, in order.

Each target is served by itself: one that is down waits with growing pauses and holds up neither
the service, which only writes rows, nor the other targets. What waits too long is swept.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING

import structlog

from mooring.errors import Invalid, MooringError
from mooring.limits import (
    NOTIFY_AT_ONCE,
    NOTIFY_LEASE_S,
    NOTIFY_LONGEST_PAUSE_S,
    NOTIFY_POLL_S,
    NOTIFY_SWEEP_S,
)
from mooring.notify import lease, outbox

if TYPE_CHECKING:
    from mooring.notify.outbox import Notification, Outbox
    from mooring.notify.targets import Target
    from mooring.store.base import Store

FIRST_PAUSE_S = 1.0
log = structlog.get_logger()


class Deliverer:
    """Delivers for one service in one process. `owner` names this process among others."""

    def __init__(
        self,
        box: Outbox,
        store: Store,
        targets: Mapping[str, Target],
        *,
        owner: str,
        random: Random,
    ) -> None:
        self._box, self._store, self._targets = box, store, dict(targets)
        self._owner, self._random, self._clock = owner, random, box.clock
        self._news = {name: asyncio.Event() for name in targets}
        self._leased: dict[str, float] = {}
        box.listen(self._tell)

    async def run(self) -> None:
        """Deliver and sweep until cancelled."""
        chores = [self._serve(name) for name in self._targets]
        tasks = [asyncio.ensure_future(chore) for chore in (*chores, self._sweep_for_ever())]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for target in self._targets.values():
                await target.close()

    async def deliver(self, name: str) -> bool:
        """Hand over what waits for a target, a batch at most; False when nothing did.

        Raises what the target raised; what it had taken before that is not handed over again.
        """
        if not await self._may_deliver(name):
            return False
        begun = self._clock.monotonic()
        waiting = await self._store.read(lambda tx: outbox.read(tx, name, NOTIFY_AT_ONCE))
        taken: list[Notification] = []
        try:
            for one in waiting:
                await self._hand_over(name, one)
                taken.append(one)
                # Another process may deliver once the lease is over, so a slow target gets less.
                if self._clock.monotonic() - begun > NOTIFY_LEASE_S / 3:
                    break
        finally:
            if taken:
                await self._store.write(lambda tx: outbox.forget(tx, taken))
        return bool(waiting)

    async def sweep(self) -> None:
        """Keep the outbox within its bounds, and say what was lost by it."""
        now = self._clock.now()
        gone = await self._store.write(lambda tx: outbox.sweep(tx, now))
        if any(gone[name] for name in gone if name != outbox.KEEP):
            log.error("notifications were dropped: their target was down too long", **gone)

    async def _hand_over(self, name: str, one: Notification) -> None:
        try:
            await self._targets[name].deliver(one)
        except Invalid as error:
            log.warning(
                "a notification was refused for good and dropped",
                target=name,
                message_id=one.message_id,
                event_type=one.event_type,
                error=str(error),
            )

    async def _serve(self, name: str) -> None:
        failures, news = 0, self._news[name]
        try:
            while True:
                news.clear()
                try:
                    found = await self.deliver(name)
                    failures = 0
                except Exception as error:  # noqa: BLE001  (a target may break in any way; it must end nothing)
                    failures += 1
                    self._complain(name, failures, error)
                    await self._clock.sleep(self._pause(failures))
                    continue
                if not found:
                    await self._wait(news)
        finally:
            await self._give_back(name)

    async def _wait(self, news: asyncio.Event) -> None:
        """Wait for news of this process; of others only a look at the database tells."""
        if not lease.is_shared(self._store):
            await news.wait()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NOTIFY_POLL_S):
                await news.wait()

    async def _may_deliver(self, name: str) -> bool:
        """Whether this process has the target to itself for long enough."""
        if not lease.is_shared(self._store):
            return True
        now = self._clock.monotonic()
        # A sixth for the age of the lease, a third for a batch, a third for its last call.
        if now - self._leased.get(name, now - NOTIFY_LEASE_S) < NOTIFY_LEASE_S / 6:
            return True
        self._leased.pop(name, None)
        if not await self._store.write(lambda tx: lease.take(tx, name, self._owner)):
            return False
        self._leased[name] = now
        return True

    async def _give_back(self, name: str) -> None:
        if self._leased.pop(name, None) is not None:
            with contextlib.suppress(MooringError):
                await self._store.write(lambda tx: lease.give_back(tx, name, self._owner))

    def _complain(self, name: str, failures: int, error: Exception) -> None:
        # Once is a hiccup; after that the log tells it less and less often.
        if failures & (failures - 1) == 0:
            log.warning("notifications wait", target=name, failures=failures, error=str(error))

    def _pause(self, failures: int) -> float:
        pause = min(NOTIFY_LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures - 1, 10))
        return pause * self._random.uniform(0.75, 1.25)

    async def _sweep_for_ever(self) -> None:
        while True:
            try:
                await self.sweep()
            except MooringError as error:
                log.warning("the outbox was not swept", error=str(error))
            await self._clock.sleep(NOTIFY_SWEEP_S)

    def _tell(self) -> None:
        for news in self._news.values():
            news.set()
