"""What comes between two things that an engine does is not lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest
from sqlalchemy.orm import Session

from mooring.saga.define import Run, Saga, Step
from tests.saga.shop import Desk, Ledger, Order, Shop

pytestmark = pytest.mark.anyio
T = TypeVar("T")


class BusyLedger(Ledger):
    """A ledger that notes what was ever written, is busy, and lets nobody go until it is free."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []
        self.busy, self.free = asyncio.Event(), asyncio.Event()

    def put(self, key: str, value: str) -> None:
        self.written.append(key)
        super().put(key, value)


async def occupy(notes: Order, run: Run[Shop]) -> None:
    del notes
    assert isinstance(run.service.ledger, BusyLedger)
    run.service.ledger.busy.set()
    await run.service.ledger.free.wait()


async def dawdle(notes: Order, run: Run[Shop]) -> None:
    del notes, run
    await asyncio.Event().wait()


OCCUPY = Saga("stall.occupy", Order, Step("occupy", occupy), locks=lambda _: [])
DAWDLE = Saga(
    "stall.dawdle", Order, Step("occupy", occupy), Step("dawdle", dawdle), locks=lambda _: []
)


@pytest.fixture
async def ledger(desk: Desk) -> BusyLedger:
    busy = desk.ledger = BusyLedger()
    await desk.restart()
    return busy


async def turn_loop() -> None:
    """Let every task that can run on come to where it waits for something else."""
    for _ in range(20):
        await asyncio.sleep(0)


@asynccontextmanager
async def writes_wait(desk: Desk) -> AsyncGenerator[None]:
    """Let the writes of the block wait for each other: SQLite commits them as a group."""
    writing, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hold(tx: Session) -> None:
        del tx
        loop.call_soon_threadsafe(writing.set)
        assert go_on.wait(30)

    holding = asyncio.create_task(desk.store.write(hold))
    await writing.wait()
    yield
    go_on.set()
    await holding


async def test_what_is_aborted_before_it_has_a_slot_does_nothing_outside(
    desk: Desk, ledger: BusyLedger
) -> None:
    for _ in range(16):
        await desk.start(OCCUPY, "o1")
    saga_id = await desk.pack("o1")
    await desk.store.write(lambda tx: desk.engine.abort(tx, saga_id))
    ledger.free.set()
    await desk.engine.schedule.quiet()
    assert ("shop.pack_order", "ended", "undone") in await desk.sagas()
    assert ledger.written == []


async def test_whoever_comes_to_watch_behind_a_commit_sees_it(
    desk: Desk, ledger: BusyLedger
) -> None:
    saga_id = await desk.start(OCCUPY, "o1")
    await ledger.busy.wait()

    async def watch() -> None:
        await desk.store.write(lambda _: None)
        await desk.engine.ended(saga_id)

    async with writes_wait(desk):
        watching = asyncio.create_task(watch())
        await turn_loop()
        ledger.free.set()
        await turn_loop()
    # Who missed it would look again after five seconds.
    async with asyncio.timeout(4):
        await watching


async def test_an_abort_that_is_committed_with_the_step_before_stops_the_next(
    desk: Desk, ledger: BusyLedger
) -> None:
    saga_id = await desk.start(DAWDLE, "o1")
    await ledger.busy.wait()
    async with writes_wait(desk):
        ledger.free.set()
        await turn_loop()
        aborting = asyncio.create_task(desk.store.write(lambda tx: desk.engine.abort(tx, saga_id)))
        await turn_loop()
    await aborting
    async with asyncio.timeout(10):
        await desk.engine.schedule.quiet()
    assert ("stall.dawdle", "ended", "undone") in await desk.sagas()


async def test_an_abort_that_comes_while_a_saga_is_read_is_not_lost(
    desk: Desk, ledger: BusyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    saga_id = await desk.start(DAWDLE, "o1")
    await ledger.busy.wait()
    await desk.let_leases_end()
    await desk.close()
    await desk.open()
    has_read, go_on = asyncio.Event(), asyncio.Event()
    read = desk.store.read

    async def read_slowly(fn: Callable[[Session], T]) -> T:
        found = await read(fn)
        has_read.set()
        await go_on.wait()
        return found

    monkeypatch.setattr(desk.store, "read", read_slowly)
    await has_read.wait()
    await desk.store.write(lambda tx: desk.engine.abort(tx, saga_id))
    go_on.set()
    async with asyncio.timeout(10):
        await desk.engine.schedule.quiet()
    monkeypatch.undo()
    assert ("stall.dawdle", "ended", "undone") in await desk.sagas()
