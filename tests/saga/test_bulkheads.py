"""What one host holds up holds up nothing else: doors, slots, and steps that were turned away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest

from mooring.bulkhead import Bulkheads, Door, Rounds, hindrance_of
from mooring.errors import MooringError, Unavailable
from mooring.limits import HOST_CALLS_AT_ONCE
from mooring.saga import journal
from mooring.saga.define import Run, Saga, Step, exclusive
from mooring.saga.journal import Bookmark
from mooring.saga.slots import read_hindrance
from tests.saga.shop import Desk, Ledger, Order, Shop

pytestmark = pytest.mark.anyio


class Town(Ledger):
    """A ledger that hosts keep, each behind its door; a frozen one answers when it thaws."""

    def __init__(self) -> None:
        super().__init__()
        self.doors = Bulkheads()
        self.asked: list[str] = []
        self.frozen: dict[str, asyncio.Event] = {}
        self.strays: list[asyncio.Task[None]] = []
        self._news = asyncio.Event()

    async def ask(self, host: str) -> None:
        door = self.doors[host]
        async with door.passage(reads=False):
            self.asked.append(host)
            self._news.set()
            if host in self.frozen:
                await self.frozen[host].wait()
            door.answered()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds that the next call may bring about."""
        while not holds():
            self._news.clear()
            await self._news.wait()


def town_of(run: Run[Shop]) -> Town:
    assert isinstance(run.service.ledger, Town)
    return run.service.ledger


def host_of(notes: Order) -> str:
    return notes.order_id.partition("/")[0]


async def visit(notes: Order, run: Run[Shop]) -> None:
    await town_of(run).ask(host_of(notes))


async def take_leave(notes: Order, run: Run[Shop]) -> None:
    await town_of(run).ask(host_of(notes))


async def send_somebody(notes: Order, run: Run[Shop]) -> None:
    """Ask in a task that outlives the step."""
    town = town_of(run)
    town.strays.append(asyncio.create_task(town.ask(host_of(notes))))


async def rest(notes: Order, run: Run[Shop]) -> None:
    del notes, run


VISIT = Saga(
    "town.visit",
    Order,
    Step("visit", visit, take_leave),
    locks=lambda notes: [exclusive(f"order:{notes.order_id}")],
)
SEND = Saga("town.send", Order, Step("send", send_somebody), locks=lambda _: [])
INSIST = Saga(
    "town.insist",
    Order,
    Step("visit", visit, may_be_forgone=True),
    pivot="visit",
    locks=lambda _: [],
)
HEIR = Saga(
    "town.inherit",
    Order,
    Step("rest", rest),
    locks=lambda notes: [exclusive(f"order:{notes.order_id}")],
    mode="preempt",
)


@pytest.fixture
async def town(desk: Desk) -> AsyncGenerator[Town]:
    town = desk.ledger = Town()
    await desk.restart()
    town.doors = Bulkheads(desk.clock)
    yield town
    for task in town.strays:
        task.cancel()
    await asyncio.gather(*town.strays, return_exceptions=True)


@pytest.fixture
async def asker(town: Town) -> AsyncGenerator[Door]:
    """Somebody who asks h2 all the time, which is silent."""
    door = town.doors["h2"]
    door.missed(door.now())
    async with door.passage(reads=True):
        yield door


async def mark_of(desk: Desk, saga_id: str) -> Bookmark:
    mark = await desk.store.read(lambda tx: journal.load(tx, saga_id))
    assert mark is not None
    return mark


async def outcome(desk: Desk, saga_id: str) -> str:
    return (await mark_of(desk, saga_id)).outcome


async def test_forty_calls_to_a_frozen_host_keep_no_slot_from_another(
    desk: Desk, town: Town
) -> None:
    thaw = town.frozen["h2"] = asyncio.Event()
    frozen = [await desk.start(VISIT, f"h2/{number}") for number in range(40)]
    await town.until(lambda: town.asked.count("h2") == HOST_CALLS_AT_ONCE)
    await desk.engine.ended(await desk.start(VISIT, "h1/0"))
    assert town.asked.count("h2") == HOST_CALLS_AT_ONCE
    thaw.set()
    await desk.engine.settle()
    assert {await outcome(desk, one) for one in frozen} == {"done"}


async def test_a_silent_host_is_asked_by_one_and_called_back_by_its_answer(
    desk: Desk, town: Town, asker: Door
) -> None:
    waiting = [await desk.start(VISIT, f"h2/{number}") for number in range(5)]
    await desk.engine.schedule.quiet()
    marks = [await mark_of(desk, one) for one in waiting]
    assert town.asked == []
    assert {(mark.state, mark.attempts) for mark in marks} == {("parked", 0)}
    assert {read_hindrance(mark.waits_for) for mark in marks} == set(town.doors.silent())
    asker.answered()
    await desk.engine.settle(0)
    assert {await outcome(desk, one) for one in waiting} == {"done"}


async def test_what_waits_for_a_silent_host_is_given_up_after_its_deadline(
    desk: Desk, town: Town, asker: Door
) -> None:
    waiting = await desk.start(VISIT, "h2/0")
    await desk.engine.settle(280)
    assert (await mark_of(desk, waiting)).heading == "forward"
    await desk.engine.settle(600)
    mark = await mark_of(desk, waiting)
    assert (mark.heading, mark.state, mark.attempts) == ("back", "parked", 0)
    asker.answered()
    await desk.engine.settle(0)
    with pytest.raises(Unavailable, match="Host h2 has not answered for"):
        await desk.engine.ended(waiting)
    assert town.asked == ["h2"]  # the undo alone


async def test_an_abort_ends_the_waiting_for_a_silent_host(
    desk: Desk, town: Town, asker: Door
) -> None:
    waiting = await desk.start(VISIT, "h2/0")
    await desk.engine.schedule.quiet()
    await desk.store.write(lambda tx: desk.engine.abort(tx, waiting))
    await desk.engine.settle(0)
    assert (await mark_of(desk, waiting)).heading == "back"
    asker.answered()
    await desk.engine.settle(0)
    assert (town.asked, await outcome(desk, waiting)) == (["h2"], "undone")


async def test_the_waiting_outlives_a_kill(desk: Desk, town: Town, asker: Door) -> None:
    waiting = await desk.start(VISIT, "h2/0")
    await desk.engine.schedule.quiet()
    await desk.let_leases_end()
    await desk.restart()
    await desk.engine.settle(60)
    assert (await mark_of(desk, waiting)).attempts == 0
    asker.answered()
    await desk.engine.settle(60)
    assert (town.asked, await outcome(desk, waiting)) == (["h2"], "done")


async def test_the_waiting_in_a_row_outlives_a_kill(desk: Desk, town: Town) -> None:
    thaw = town.frozen["h2"] = asyncio.Event()
    frozen = [await desk.start(VISIT, f"h2/{number}") for number in range(20)]
    await town.until(lambda: town.asked.count("h2") == HOST_CALLS_AT_ONCE)
    await desk.let_leases_end()
    await desk.restart()
    thaw.set()
    await desk.engine.settle()
    assert {await outcome(desk, one) for one in frozen} == {"done"}


async def test_another_process_goes_on_with_what_waits(desk: Desk, town: Town, asker: Door) -> None:
    waiting = await desk.start(VISIT, "h2/0")
    await desk.engine.schedule.quiet()
    await desk.let_leases_end()
    other = await desk.new_engine()
    asker.answered()
    await desk.engine.settle(0)
    assert town.asked == []  # the first process asks nothing any more
    await other.settle(60)
    assert (town.asked, await outcome(desk, waiting)) == (["h2"], "done")
    await other.stop()


async def test_who_waits_for_a_silent_host_leaves_its_undo_to_an_heir(
    desk: Desk, town: Town, asker: Door
) -> None:
    del asker
    waiting = await desk.start(VISIT, "h2/0")
    await desk.engine.schedule.quiet()
    heir = await desk.start(HEIR, "h2/0")
    await desk.engine.settle(30)
    assert (await outcome(desk, waiting), await outcome(desk, heir)) == ("absorbed", "done")
    assert town.asked == []


async def test_an_operator_lets_go_of_what_a_silent_host_was_to_do(
    desk: Desk, town: Town, asker: Door
) -> None:
    del asker
    waiting = await desk.start(INSIST, "h2/0")
    await desk.engine.schedule.quiet()
    await desk.store.write(lambda tx: desk.engine.abort(tx, waiting, insists=True))
    await desk.engine.settle(30)
    assert (town.asked, await outcome(desk, waiting)) == ([], "done")


async def test_a_task_that_outlives_its_step_keeps_its_place_at_the_door(
    desk: Desk, town: Town
) -> None:
    thaw = town.frozen["h2"] = asyncio.Event()
    for number in range(HOST_CALLS_AT_ONCE):
        await desk.engine.ended(await desk.start(SEND, f"h2/{number}"))
    await town.until(lambda: town.asked.count("h2") == HOST_CALLS_AT_ONCE)
    late = await desk.start(VISIT, "h2/late")
    # As many again as there are slots: none of them was lost with a step that had ended.
    for number in range(2 * HOST_CALLS_AT_ONCE):
        await desk.engine.ended(await desk.start(VISIT, f"h1/{number}"))
    assert town.asked.count("h2") == HOST_CALLS_AT_ONCE
    thaw.set()
    await asyncio.gather(desk.engine.ended(late), *town.strays)
    # Nor does a slot stay taken by those whose steps had ended.
    await desk.engine.ended(await desk.start(VISIT, "h1/after"))


async def test_who_is_cancelled_in_the_row_takes_no_place_along() -> None:
    door = Door("h1", places=1)
    inside, row = door.passage(reads=False), [door.passage(reads=False) for _ in range(2)]
    await inside.__aenter__()
    waiting = [asyncio.create_task(passage.__aenter__()) for passage in row]
    await asyncio.sleep(0)
    await inside.__aexit__()
    waiting[0].cancel()  # it was given the place, and does not know yet
    await waiting[1]


async def test_a_host_busy_with_changes_still_says_how_it_is() -> None:
    door = Door("h1", places=1)
    async with door.passage(reads=False), door.passage(reads=True):
        door.answered()


async def test_whoever_stands_in_the_row_is_turned_away_when_the_host_falls_silent() -> None:
    door = Door("h1", places=1)
    async with door.passage(reads=False):
        waiting = asyncio.create_task(door.passage(reads=False).__aenter__())
        await asyncio.sleep(0)
        door.missed(door.now())
        with pytest.raises(Unavailable) as turned_away:
            await waiting
    assert hindrance_of(turned_away.value) is not None


async def test_a_loop_hears_what_somebody_else_is_answered() -> None:
    door = Door("h1")
    door.missed(door.now())
    asker = door.passage(reads=True)
    await asker.__aenter__()
    loop = asyncio.create_task(door.passage(reads=True).__aenter__())
    await asyncio.sleep(0)
    assert not loop.done()
    door.answered()
    await loop
    await asker.__aexit__()


async def test_a_loop_asks_when_somebody_else_asked_in_vain() -> None:
    door = Door("h1")
    door.missed(door.now())
    asker = door.passage(reads=True)
    await asker.__aenter__()
    loop = asyncio.create_task(door.passage(reads=True).__aenter__())
    await asyncio.sleep(0)
    await asker.__aexit__()
    await loop


async def test_a_slow_host_delays_the_visit_to_no_other() -> None:
    seen: list[str] = []
    rounds, forever = Rounds(), asyncio.Event()

    async def visit_host(name: str) -> None:
        seen.append(name)
        if name == "slow":
            await forever.wait()
        if name == "broken":
            raise MooringError("It broke.")

    for _ in range(2):
        rounds.begin(["slow", "quick"], visit_host)
        await asyncio.sleep(0)
    assert seen == ["slow", "quick", "quick"]
    rounds.begin(["broken"], visit_host)
    await asyncio.sleep(0)
    with pytest.raises(MooringError):
        rounds.begin(["broken"], visit_host)
    await rounds.end()
