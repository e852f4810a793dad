"""Sagas that somebody wants ended, at work or still waiting for their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Literal, TypeVar

import pytest
from sqlalchemy.orm import Session

from mooring.errors import Conflict, Unavailable
from mooring.saga import operations
from mooring.saga.define import REGISTRY, Park, Run, Saga, Step, exclusive, shared
from mooring.saga.engine import END_WAIT_S
from mooring.saga.locks import LOCK_WAIT_S
from tests.saga.shop import (
    CANCEL,
    PACK,
    SEND,
    Desk,
    Order,
    Shop,
    begin_cancelling,
    record_cancelled,
)

pytestmark = pytest.mark.anyio
T = TypeVar("T")


def count(tx: Session, notes: Order, run: Run[Shop]) -> None:
    del tx, notes, run


async def close(notes: Order, run: Run[Shop]) -> None:
    run.service.ledger.put(f"closed:{notes.order_id}", "closed")


async def linger(notes: Order, run: Run[Shop]) -> None:
    del notes, run
    raise Park(timeout_s=86400.0)


async def await_receipt(notes: Order, run: Run[Shop]) -> None:
    if run.given_up:
        raise Conflict("Nobody takes it any more.", private=notes.order_id)
    raise Park(timeout_s=86400.0)


DELIVER = Saga(
    "stall.deliver",
    Order,
    Step("await_receipt", await_receipt),
    locks=lambda notes: [exclusive(f"order:{notes.order_id}")],
    pivot="await_receipt",
    failed_end=[Step("close", close)],
)
TAKE_STOCK = Saga(
    "stall.take_stock",
    Order,
    Step("count", count),
    Step("close", close),
    locks=lambda _: [exclusive("shop")],
    mode="wait",
)
LINGER = Saga(
    "stall.linger",
    Order,
    Step("linger", linger),
    locks=lambda notes: [exclusive(f"order:{notes.order_id}")],
)
LOOK_AROUND = Saga(
    "stall.look_around", Order, Step("count", count), locks=lambda _: [shared("shop")], mode="wait"
)


async def test_what_is_ended_is_aborted_and_waited_for(desk: Desk) -> None:
    saga_id = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    await desk.engine.end([saga_id, "not one of ours"])
    assert ("shop.pack_order", "ended", "undone") in await desk.sagas()
    assert await desk.statuses() == {"o1": "new"}
    assert desk.ledger.parcels == {}
    await desk.engine.end([saga_id])


async def test_an_operation_that_has_ended_still_says_what_it_was_about(desk: Desk) -> None:
    saga_id = await desk.pack("o1")
    await desk.engine.ended(saga_id)
    [shown] = await desk.store.read(
        lambda tx: operations.list_operations(tx, desk.engine, everything=True)
    )
    assert (shown.id, shown.status, shown.locks) == (saga_id, "done", ("order:o1", "shop"))


async def test_what_is_past_the_pivot_is_waited_for_and_finished(desk: Desk) -> None:
    await desk.engine.ended(await desk.pack("o1"))
    desk.ledger.fail_next = [Unavailable("busy")]
    saga_id = await desk.start(SEND, "o1")
    await desk.engine.schedule.quiet()
    ending = asyncio.create_task(desk.engine.end([saga_id]))
    await desk.engine.settle()
    await ending
    assert await desk.statuses() == {"o1": "sent"}


async def test_what_is_past_the_pivot_is_told_that_its_asker_gave_it_up(desk: Desk) -> None:
    saga_id = await desk.start(DELIVER, "o1")
    await desk.engine.schedule.quiet()
    # An operator's abort changes nothing here, and is no word of the asker.
    with pytest.raises(Conflict, match="past the point of return"):
        await desk.store.write(lambda tx: desk.engine.abort(tx, saga_id))
    await desk.engine.schedule.quiet()
    assert ("stall.deliver", "parked", "") in await desk.sagas()
    await desk.engine.end([saga_id])
    assert ("stall.deliver", "ended", "failed") in await desk.sagas()
    assert desk.ledger.parcels == {"closed:o1": "closed"}
    await desk.engine.end([saga_id])


async def test_what_does_not_end_in_time_is_named(desk: Desk) -> None:
    saga_id = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    desk.ledger.fail_next = [Unavailable("gone") for _ in range(400)]
    ending = asyncio.create_task(desk.engine.end([saga_id]))
    while not ending.done():
        await desk.engine.settle(horizon_s=END_WAIT_S)
        await asyncio.wait({ending}, timeout=0.02)
    with pytest.raises(Unavailable, match=saga_id):
        await ending


async def test_an_abort_does_not_wait_for_a_lock(desk: Desk) -> None:
    await desk.pack("o1", wait=True)
    second = await desk.start(TAKE_STOCK, "o1")
    await desk.engine.schedule.quiet()
    await desk.engine.end([second])
    with pytest.raises(Conflict, match="aborted"):
        await desk.engine.ended(second)
    assert await desk.statuses() == {"o1": "packing"}


async def test_who_stood_behind_one_that_gave_up_waiting_is_served(desk: Desk) -> None:
    await desk.pack("o1", wait=True)
    second = await desk.start(TAKE_STOCK, "o1")
    third = await desk.start(LOOK_AROUND, "o1")
    await desk.engine.schedule.quiet()
    assert ("stall.look_around", "locked", "") in await desk.sagas()
    await desk.engine.end([second])
    await desk.engine.schedule.quiet()
    assert ("stall.look_around", "ended", "done") in await desk.sagas(), third


async def cancel(desk: Desk, *, wait_s: float) -> str:
    return await desk.engine.submit(
        lambda tx: desk.engine.start(tx, CANCEL, Order("o1"), wait_s=wait_s)
    )


async def test_nobody_is_absorbed_by_one_that_gave_up_waiting(desk: Desk) -> None:
    await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    desk.ledger.fail_next = [Unavailable("gone") for _ in range(4)]
    second = await cancel(desk, wait_s=0.1)
    await desk.engine.settle()
    with pytest.raises(Unavailable, match="too long"):
        await desk.engine.ended(second)
    assert ("shop.pack_order", "ended", "undone") in await desk.sagas()
    assert await desk.statuses() == {"o1": "new"}
    assert desk.ledger.parcels == {}


class SlowReader:
    """A store whose next reader of this saga is so slow that another saga ends meanwhile."""

    def __init__(self, desk: Desk, holder_id: str) -> None:
        self.kind: Literal["sqlite", "postgresql"] = desk.store.kind
        self.commits, self.commit_times = 0, desk.store.commit_times
        self._desk, self._store, self._holder_id = desk, desk.store, holder_id
        self.wake_at = desk.clock.now() + timedelta(seconds=0.1)

    async def read(self, fn: Callable[[Session], T]) -> T:
        found = await self._store.read(fn)
        desk, holder_id = self._desk, self._holder_id
        if holder_id and desk.clock.now() >= self.wake_at:
            self._holder_id = ""
            await self._store.write(lambda tx: desk.engine.retry(tx, holder_id))
            with suppress(Conflict):
                await desk.engine.ended(holder_id)
        return found

    async def write(self, fn: Callable[[Session], T]) -> T:
        return await self._store.write(fn)

    async def close(self) -> None:
        await self._store.close()


async def test_who_is_served_in_the_moment_of_giving_up_runs(desk: Desk) -> None:
    first = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    desk.ledger.fail_next = [Unavailable("gone")]
    second = await cancel(desk, wait_s=0.1)
    await desk.engine.schedule.quiet()
    desk.engine.store = SlowReader(desk, first)
    await desk.engine.settle()
    await desk.engine.ended(second)
    assert await desk.statuses() == {"o1": "cancelled"}


CLEAR = Saga(
    "stall.clear",
    Order,
    Step("begin_cancelling", begin_cancelling),
    Step("record_cancelled", record_cancelled),
    locks=lambda _: [exclusive("order:o1"), exclusive("order:o2")],
    mode="preempt",
    pivot="begin_cancelling",
)


@pytest.mark.parametrize("is_preempted", [True, False])
async def test_who_absorbed_one_holder_waits_for_the_other_without_end(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, *, is_preempted: bool
) -> None:
    await desk.add("o2")
    await desk.pack("o1", wait=True)
    other = await desk.engine.submit(lambda tx: desk.engine.start(tx, LINGER, Order("o2")))
    await desk.engine.schedule.quiet()
    # A release that does not know the other holder cannot end it.
    monkeypatch.delitem(REGISTRY, (LINGER.name, LINGER.version))
    desk.ledger.fail_next = [Unavailable("gone") for _ in range(2)]
    heir = await desk.start(CLEAR, "o1")
    await desk.engine.settle(60.0)
    assert ("shop.pack_order", "ended", "absorbed") in await desk.sagas()
    if is_preempted:
        await desk.start(CANCEL, "o2")
    await desk.engine.settle(3 * LOCK_WAIT_S)
    assert ("stall.clear", "locked", "") in await desk.sagas()
    monkeypatch.undo()
    desk.engine.schedule.wake(other)
    await desk.engine.settle()
    await desk.engine.ended(heir)
    assert (await desk.statuses())["o1"] == "cancelled"


async def let_go(notes: Order, run: Run[Shop]) -> None:
    run.service.ledger.remove(f"label:{notes.order_id}")


GIVE_AWAY = Saga(
    "stall.give_away",
    Order,
    Step("begin_cancelling", begin_cancelling),
    Step("let_go", let_go, may_be_forgone=True),
    Step("close", close),
    Step("record_cancelled", record_cancelled),
    pivot="begin_cancelling",
)


async def insist(desk: Desk, saga_id: str) -> None:
    await desk.store.write(lambda tx: desk.engine.abort(tx, saga_id, insists=True))
    await desk.engine.settle(60.0)


async def test_an_operator_s_abort_lets_go_of_what_may_be_forgone_and_of_nothing_else(
    desk: Desk,
) -> None:
    desk.ledger.fail_next = [Unavailable("gone") for _ in range(9)]
    saga_id = await desk.start(GIVE_AWAY, "o1")
    await desk.engine.schedule.quiet()
    with pytest.raises(Conflict, match="past the point of return"):
        await desk.store.write(lambda tx: desk.engine.abort(tx, saga_id))
    desk.ledger.fail_next = [Unavailable("gone") for _ in range(3)]
    await insist(desk, saga_id)
    await desk.engine.ended(saga_id)
    assert desk.ledger.fail_next == [], "close was tried until it went well"
    assert desk.ledger.parcels == {"closed:o1": "closed"}
    assert await desk.statuses() == {"o1": "cancelled"}


async def test_what_answers_after_all_is_done_and_not_forgone(desk: Desk) -> None:
    desk.ledger.parcels["label:o1"] = "1"
    desk.ledger.fail_next = [Unavailable("gone")]
    saga_id = await desk.start(GIVE_AWAY, "o1")
    await desk.engine.schedule.quiet()
    await insist(desk, saga_id)
    await desk.engine.ended(saga_id)
    assert desk.ledger.parcels == {"closed:o1": "closed"}


async def test_time_in_which_no_engine_ran_is_no_waiting(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    # A release that does not know the holder cannot end it.
    monkeypatch.delitem(REGISTRY, (PACK.name, PACK.version))
    second = await desk.start(CANCEL, "o1")
    await desk.engine.schedule.quiet()
    await desk.engine.stop()
    desk.clock.advance(2 * LOCK_WAIT_S)
    await desk.let_leases_end()
    monkeypatch.undo()
    desk.ledger.fail_next = [Unavailable("not now")]
    await desk.restart()
    await desk.engine.settle()
    await desk.engine.ended(second)
    with pytest.raises(Conflict, match="took its place"):
        await desk.engine.ended(first)
    assert await desk.statuses() == {"o1": "cancelled"}
    assert desk.ledger.parcels == {}
