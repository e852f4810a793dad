"""Who lies down to wait while somebody comes for him is not left to sleep."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from mooring.errors import Conflict
from mooring.saga import journal
from mooring.saga.define import Park, Run, Saga, Step, exclusive
from mooring.saga.laws import LawProbe
from tests.saga.shop import Desk, Ledger, Order, Shop
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio
_waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")


class Look:
    """One look of a step, that lasts until it is let go on."""

    def __init__(self) -> None:
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()


_looks: list[Look] = []


async def await_courier(notes: Order, run: Run[Shop]) -> None:
    """Rest for half an hour, unless the courier was there when this began, or nobody wants him."""
    is_there = "courier" in run.service.ledger.parcels or run.given_up
    if _looks:
        look = _looks.pop()
        look.begun.set()
        await look.goes_on.wait()
    if not is_there:
        raise Park(signal=f"courier:{notes.order_id}", seconds=1800, timeout_s=7200)


AWAIT = Saga(
    "shop.await_courier",
    Order,
    Step("await_courier", await_courier),
    locks=lambda notes: [exclusive(f"order:{notes.order_id}")],
)


async def hand_over(notes: Order, run: Run[Shop]) -> None:
    del notes, run


AWAIT_LATE = Saga(
    "shop.await_courier_late",
    Order,
    Step("hand_over", hand_over),
    Step("await_courier", await_courier),
    locks=lambda notes: [exclusive(f"order:{notes.order_id}")],
    pivot="hand_over",
)


@pytest.fixture
def look() -> Look:
    """The next look of a step."""
    _looks[:] = [Look()]
    return _looks[0]


@pytest.fixture
async def shared_desk(postgres_url: str) -> AsyncIterator[Desk]:
    """A shop whose database several processes may use."""
    made = Desk(postgres_url, Ledger(), LawProbe())
    await made.open()
    yield made
    await made.close()


@pytest.mark.postgres
async def test_a_signal_wakes_who_lies_down_while_it_is_given(shared_desk: Desk) -> None:
    desk, is_given, may_commit = shared_desk, threading.Event(), threading.Event()

    def give(tx: Session) -> None:
        desk.engine.signal(tx, "courier:o1")
        is_given.set()
        assert may_commit.wait(PATIENCE_S)

    async def waits() -> bool:
        mark = await desk.store.read(lambda tx: journal.load(tx, saga_id))
        is_blocked = await desk.store.read(lambda tx: tx.scalar(_waiting))
        return bool(is_blocked) or (mark is not None and mark.state == "parked")

    giving = asyncio.create_task(desk.store.write(give))
    assert await asyncio.to_thread(is_given.wait, PATIENCE_S)
    saga_id = await desk.start(AWAIT, "o1")
    await until(waits, "the saga rests, or waits until it may")
    desk.ledger.parcels["courier"] = "here"
    may_commit.set()
    await giving
    await desk.engine.schedule.quiet()
    await desk.engine.ended(saga_id, 0.0)


async def test_a_signal_is_not_lost_on_who_looks_again_just_then(desk: Desk) -> None:
    saga_id = await desk.start(AWAIT, "o1")
    await desk.engine.schedule.quiet()
    look = Look()
    _looks[:] = [look]
    desk.clock.advance(1800)
    desk.engine.schedule.ring()
    await look.begun.wait()
    desk.ledger.parcels["courier"] = "here"
    await desk.store.write(lambda tx: desk.engine.signal(tx, "courier:o1"))
    look.goes_on.set()
    await desk.engine.schedule.quiet()
    await desk.engine.ended(saga_id, 0.0)


@pytest.mark.postgres
async def test_an_abort_by_another_process_reaches_who_is_about_to_rest(
    shared_desk: Desk, look: Look
) -> None:
    desk = shared_desk
    other = await desk.new_engine()
    saga_id = await desk.start(AWAIT, "o1")
    await look.begun.wait()
    await desk.store.write(lambda tx: other.abort(tx, saga_id))
    look.goes_on.set()
    await desk.engine.schedule.quiet()
    with pytest.raises(Conflict, match="was aborted"):
        await desk.engine.ended(saga_id, 0.0)
    await other.stop()


async def test_who_is_given_up_does_not_lie_down_to_wait(desk: Desk, look: Look) -> None:
    saga_id = await desk.start(AWAIT_LATE, "o1")
    await look.begun.wait()
    await desk.store.write(lambda tx: desk.engine.abort(tx, saga_id, is_asker=True))
    look.goes_on.set()
    await desk.engine.schedule.quiet()
    await desk.engine.ended(saga_id, 0.0)
