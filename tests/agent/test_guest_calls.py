"""Calls into guests' emulators: one at a time each, and a call that hangs holds up nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from mooring.agent.guest_calls import GuestCalls, run_apart
from mooring.errors import Bug, Conflict, Unavailable
from mooring.fence.threads import run_to_end

pytestmark = pytest.mark.anyio
SOON_S, LATE_S = 0.01, 60.0
MANY = 64


class Emulator:
    """Answers nothing until it is told to; counts what it was asked."""

    def __init__(self) -> None:
        self.asked, self.answers = 0, asyncio.Event()

    async def work(self) -> int:
        self.asked += 1
        number = self.asked
        await self.answers.wait()
        return number


async def refuse() -> int:
    raise Conflict("No.")


async def refused(asking: Awaitable[object]) -> None:
    with pytest.raises(Unavailable, match="does not answer"):
        await asking


async def test_a_call_that_hangs_is_left_and_the_next_are_refused_unasked() -> None:
    calls, emulator = GuestCalls(SOON_S), Emulator()
    await refused(calls.ask("g", emulator.work))
    calls.answer_s = LATE_S
    await refused(calls.ask("g", emulator.work))
    await refused(calls.until_quiet("g"))
    assert emulator.asked == 1
    emulator.answers.set()
    await calls.until_quiet("g", was_ended=True)
    assert await calls.ask("g", emulator.work) == 2


async def test_calls_to_one_guest_come_one_after_the_other() -> None:
    calls, emulator = GuestCalls(LATE_S), Emulator()
    first, second = (asyncio.create_task(calls.ask("g", emulator.work)) for _ in range(2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert emulator.asked == 1
    emulator.answers.set()
    assert (await first, await second) == (1, 2)
    await asyncio.sleep(0)
    assert calls.is_idle("g")


async def test_a_call_that_waited_for_its_turn_in_vain_is_taken_back() -> None:
    calls, emulator, later = GuestCalls(SOON_S), Emulator(), Emulator()
    both = (calls.ask("g", emulator.work), calls.ask("g", later.work))
    found = await asyncio.gather(*both, return_exceptions=True)
    assert [type(one) for one in found] == [Unavailable, Unavailable]
    emulator.answers.set()
    later.answers.set()
    await calls.until_quiet("g", was_ended=True)
    assert (emulator.asked, later.asked) == (1, 0)


async def test_a_caller_who_is_cancelled_sees_the_end_of_what_was_begun() -> None:
    calls, emulator = GuestCalls(LATE_S), Emulator()
    asking = asyncio.create_task(calls.ask("g", emulator.work))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asking.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not asking.done()
    emulator.answers.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await calls.until_quiet("g")


async def test_a_call_that_was_given_more_time_is_waited_for() -> None:
    calls, emulator = GuestCalls(SOON_S), Emulator()
    asyncio.get_running_loop().call_later(5 * SOON_S, emulator.answers.set)
    assert await calls.ask("g", emulator.work, LATE_S) == 1


def test_what_goes_on_after_its_caller_and_loop_ended_ends_quietly() -> None:
    begins, goes_on, left = threading.Event(), threading.Event(), list[threading.Thread]()

    def work() -> None:
        left.append(threading.current_thread())
        begins.set()
        goes_on.wait()

    async def leave() -> None:
        asking = asyncio.create_task(run_apart(work, "guest"))
        await asyncio.to_thread(begins.wait)
        asking.cancel()

    asyncio.run(leave())
    goes_on.set()
    # What it could not hand over would be raised in that thread, and fail this test.
    left[0].join()


async def test_what_a_call_raises_is_its_callers() -> None:
    calls = GuestCalls(LATE_S)
    with pytest.raises(Conflict):
        await calls.ask("g", refuse)
    await calls.until_quiet("g")


async def run_in_pool(fn: Callable[[], int]) -> int:
    return await run_to_end(fn)


async def run_alone(fn: Callable[[], int]) -> int:
    return await run_apart(fn, "guest")


@pytest.mark.parametrize("run", [run_alone, run_in_pool])
async def test_a_call_that_finds_nothing_more_in_a_row_ends(
    run: Callable[[Callable[[], int]], Awaitable[int]],
) -> None:
    calls, row = GuestCalls(LATE_S), iter(list[int]())
    asking = asyncio.ensure_future(calls.ask("g", lambda: run(lambda: next(row))))
    done, _ = await asyncio.wait({asking}, timeout=LATE_S / 6)
    assert done
    with pytest.raises(Bug, match="StopIteration"):
        await asking
    await calls.until_quiet("g")


async def test_guests_that_hang_take_no_thread_from_the_others() -> None:
    calls, goes_on = GuestCalls(SOON_S), threading.Event()
    hanging = [
        calls.ask(f"g{number}", lambda: run_apart(goes_on.wait, "guest")) for number in range(MANY)
    ]
    found = await asyncio.gather(*hanging, return_exceptions=True)
    calls.answer_s = LATE_S
    answered = await calls.ask("other", lambda: run_apart(lambda: 42, "guest"))
    goes_on.set()
    for number in range(MANY):
        await calls.until_quiet(f"g{number}", was_ended=True)
    assert {type(one) for one in found} == {Unavailable}
    assert answered == 42
