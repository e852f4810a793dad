"""What keeps a simulated world from standing still: else its time would fly meanwhile."""

from __future__ import annotations

import asyncio
import socket
import threading
from hashlib import pbkdf2_hmac

import pytest
from sqlalchemy.orm import Session

from mooring.store.base import Store
from tests.stillness import others_run, stands_still
from tests.waiting import until

pytestmark = pytest.mark.anyio
SOON_S = 0.1


async def test_who_waits_for_what_nobody_does_stands_still() -> None:
    waiting = asyncio.create_task(asyncio.Event().wait())
    assert not stands_still(SOON_S)
    await asyncio.sleep(0)
    assert stands_still(SOON_S)
    waiting.cancel()


async def test_a_timer_that_is_due_soon_keeps_it_going() -> None:
    loop = asyncio.get_running_loop()
    soon, late = (loop.call_later(seconds, print) for seconds in (SOON_S / 2, 60.0))
    assert not stands_still(SOON_S)
    soon.cancel()
    assert stands_still(SOON_S)
    late.cancel()


async def test_a_thread_at_work_keeps_it_going_until_the_loop_knows_its_end() -> None:
    may_end = threading.Event()
    work = asyncio.ensure_future(asyncio.to_thread(may_end.wait, 60.0))
    await asyncio.sleep(0)
    assert not stands_still(SOON_S)
    may_end.set()
    await work
    await asyncio.sleep(0)
    assert stands_still(SOON_S)


async def test_a_transaction_keeps_it_going_though_its_caller_has_gone(store: Store) -> None:
    may_end = threading.Event()

    def wait(tx: Session) -> None:
        del tx
        may_end.wait(60.0)

    asking = asyncio.ensure_future(store.write(wait))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert not stands_still(SOON_S)
    may_end.set()

    async def has_ended() -> bool:
        return stands_still(SOON_S)

    await until(has_ended, "the transaction ends")


async def test_a_thread_that_has_work_is_told_from_one_that_waits() -> None:
    rounds, may_end = 3_000_000, threading.Event()

    async def is_at_work() -> bool:
        return others_run()

    async def rests() -> bool:
        return not others_run()

    waiting = asyncio.ensure_future(asyncio.to_thread(may_end.wait, 60.0))
    await until(rests, "who waits is not at work")
    # Without the interpreter's lock, so that this thread has its turns.
    work = asyncio.ensure_future(asyncio.to_thread(pbkdf2_hmac, "sha256", b"", b"", rounds))
    await until(is_at_work, "a thread is seen at work")
    assert not work.done()
    await work
    await until(rests, "the work is seen to be done")
    may_end.set()
    await waiting


async def test_of_a_world_with_sockets_nothing_is_said() -> None:
    ours, theirs = socket.socketpair()
    asyncio.get_running_loop().add_reader(ours, print)
    assert not stands_still(SOON_S)
    asyncio.get_running_loop().remove_reader(ours)
    assert stands_still(SOON_S)
    ours.close()
    theirs.close()
