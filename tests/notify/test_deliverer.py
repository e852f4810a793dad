"""Delivery: each notification at least once, in order, by one process at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest
from sqlalchemy import text

from mooring.clock import RealClock, SimulatedClock
from mooring.errors import Invalid, Unavailable
from mooring.limits import NOTIFY_LONGEST_PAUSE_S, NOTIFY_SWEEP_S
from mooring.notify import lease, outbox
from mooring.notify.deliverer import Deliverer
from mooring.notify.outbox import Notification, Outbox
from mooring.store.base import Store, open_store

pytestmark = pytest.mark.anyio


class Receiver:
    """A target that takes what `answer` lets it."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.tries = 0
        self.is_closed = False
        self.answer: Callable[[str], None] = lambda event: None
        self.wanted = asyncio.Event()
        self.count = 0

    async def deliver(self, notification: Notification) -> None:
        self.tries += 1
        self.answer(notification.event_type)
        self.taken.append(notification.event_type)
        if len(self.taken) >= self.count:
            self.wanted.set()

    async def close(self) -> None:
        self.is_closed = True

    async def has(self, count: int) -> list[str]:
        """Return what was taken once there are so many."""
        self.count = count
        self.wanted.clear()
        if len(self.taken) < count:
            async with asyncio.timeout(30):
                await self.wanted.wait()
        return self.taken


async def send(store: Store, box: Outbox, *events: str) -> None:
    for event in events:
        await store.write(lambda tx, event=event: box.send(tx, event, {}, publisher="p"))


def refuse(event: str) -> None:
    message = f"{event} cannot be taken now."
    raise Unavailable(message)


async def all_noted(store: Store) -> None:
    """Return once it is noted of everything that it was delivered: else it is delivered again."""
    async with asyncio.timeout(30):
        while await store.read(lambda tx: outbox.read(tx, "hook")):
            pass


@asynccontextmanager
async def running(deliverer: Deliverer) -> AsyncGenerator[None]:
    task = asyncio.create_task(deliverer.run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_waits_and_what_comes_is_delivered_in_order(store: Store) -> None:
    box, receiver = Outbox(RealClock(), ["hook"]), Receiver()
    await send(store, box, "a", "b")
    deliverer = Deliverer(box, store, {"hook": receiver}, owner="one", random=Random(1))
    async with running(deliverer):
        assert await receiver.has(2) == ["a", "b"]
        await send(store, box, "c", "d")
        assert await receiver.has(4) == ["a", "b", "c", "d"]

    assert receiver.is_closed


async def test_a_target_that_is_down_gets_all_of_it_later(
    store: Store, clock: SimulatedClock
) -> None:
    box, receiver = Outbox(clock, ["hook"]), Receiver()
    deliverer = Deliverer(box, store, {"hook": receiver}, owner="one", random=Random(1))
    await send(store, box, "a", "b", "c")

    def down_from_b(event: str) -> None:
        if event != "a":
            refuse(event)

    receiver.answer = down_from_b
    with pytest.raises(Unavailable):
        await deliverer.deliver("hook")
    waiting = [one.event_type for one in await store.read(lambda tx: outbox.read(tx, "hook"))]
    assert (receiver.taken, waiting) == (["a"], ["b", "c"])

    receiver.answer = lambda event: None
    assert await deliverer.deliver("hook")
    assert receiver.taken == ["a", "b", "c"]
    assert not await deliverer.deliver("hook")


class Impatient(SimulatedClock):
    """Sleeps no pause, and remembers how long it would have been; the sweep sleeps for ever."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self.count, self.reached = count, asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        if seconds == NOTIFY_SWEEP_S or len(self.pauses) == self.count:
            await super().sleep(seconds)
        self.pauses.append(seconds)
        if len(self.pauses) == self.count:
            self.reached.set()


async def test_the_pauses_of_a_target_that_is_down_grow(store: Store) -> None:
    clock = Impatient(9)
    box, receiver = Outbox(clock, ["hook"]), Receiver()
    receiver.answer = refuse
    await send(store, box, "a")
    async with running(Deliverer(box, store, {"hook": receiver}, owner="one", random=Random(1))):
        async with asyncio.timeout(30):
            await clock.reached.wait()

    assert all(2**n * 0.7 < pause < 2**n * 1.3 for n, pause in enumerate(clock.pauses[:6]))
    assert NOTIFY_LONGEST_PAUSE_S * 0.7 < clock.pauses[-1] < NOTIFY_LONGEST_PAUSE_S * 1.3


async def test_a_target_that_is_down_holds_up_no_other(store: Store) -> None:
    box, down, up = Outbox(RealClock(), ["down", "up"]), Receiver(), Receiver()
    down.answer = refuse
    targets = {"down": down, "up": up}
    async with running(Deliverer(box, store, targets, owner="one", random=Random(1))):
        await send(store, box, "a", "b")
        assert await up.has(2) == ["a", "b"]

    assert down.taken == []
    waiting = await store.read(lambda tx: outbox.read(tx, "down"))
    assert [one.event_type for one in waiting] == ["a", "b"]


async def test_what_a_target_refuses_for_good_is_dropped(
    store: Store, clock: SimulatedClock
) -> None:
    box, receiver = Outbox(clock, ["hook"]), Receiver()
    deliverer = Deliverer(box, store, {"hook": receiver}, owner="one", random=Random(1))
    await send(store, box, "a", "bad", "c")

    def picky(event: str) -> None:
        if event == "bad":
            raise Invalid("It is bad.")

    receiver.answer = picky
    await deliverer.deliver("hook")
    assert receiver.taken == ["a", "c"]
    assert await store.read(lambda tx: outbox.read(tx, "hook")) == []


async def test_a_process_that_dies_before_it_forgets_delivers_again(
    store: Store, clock: SimulatedClock
) -> None:
    box, receiver = Outbox(clock, ["hook"]), Receiver()
    await send(store, box, "a")
    (one,) = await store.read(lambda tx: outbox.read(tx, "hook"))
    await receiver.deliver(one)

    next_process = Deliverer(box, store, {"hook": receiver}, owner="two", random=Random(1))
    await next_process.deliver("hook")
    assert receiver.taken == ["a", "a"]


@pytest.mark.postgres
async def test_one_of_several_processes_delivers_and_another_succeeds_it(
    postgres_url: str, service: str
) -> None:
    first, second = [await open_store(postgres_url, service) for _ in range(2)]
    boxes = [Outbox(RealClock(), ["hook"]) for _ in range(2)]
    one, two = Receiver(), Receiver()
    living = Deliverer(boxes[0], first, {"hook": one}, owner="one", random=Random(1))
    waiting = Deliverer(boxes[1], second, {"hook": two}, owner="two", random=Random(2))
    async with running(living):
        await send(first, boxes[0], "a")
        await one.has(1)
        async with running(waiting):
            await send(second, boxes[1], "b", "c")
            assert await one.has(3) == ["a", "b", "c"]
            await all_noted(first)
            assert two.taken == []
            assert not await second.write(lambda tx: lease.take(tx, "hook", "two"))

    await send(second, boxes[1], "d")
    async with running(waiting):
        assert await two.has(1) == ["d"]
        await all_noted(second)
    await first.write(lambda tx: lease.take(tx, "hook", "dead"))
    await first.write(
        lambda tx: tx.execute(
            text("UPDATE notify_deliverers SET lease_until = lease_until - interval '31 seconds'")
        )
    )
    await send(second, boxes[1], "e")
    async with running(waiting):
        assert await two.has(2) == ["d", "e"]
    await first.close()
    await second.close()
