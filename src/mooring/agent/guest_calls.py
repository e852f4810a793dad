"""Calls into the emulators of guests, one at a time each. Nobody waits for one that hangs.

An emulator that is stopped, or waits for dead storage, answers nothing, and a call into it cannot
be taken back: it ends when the emulator goes on or ends. Until then every other call to that guest
is refused at once, so what is at work never comes behind the back of what follows it. Those to
other guests go on: a call that hangs has none of their threads.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from mooring.errors import Unavailable
from mooring.fence.threads import answering

T = TypeVar("T")


class _Lane:
    """The calls to one guest: how many there are, which one is at work, and whether it hangs."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.at_work: asyncio.Task[Any] | None = None
        self.began_at = 0.0
        self.hangs = False
        self.calls = 0


class GuestCalls:
    """The lanes of all guests of one host, for one event loop."""

    def __init__(self, answer_s: float) -> None:
        self.answer_s = answer_s
        """How long each call may take, in seconds."""
        self._lanes: dict[str, _Lane] = {}

    def is_idle(self, server_id: str) -> bool:
        """Whether nothing is asked of a guest's emulator."""
        return server_id not in self._lanes

    async def ask(
        self, server_id: str, work: Callable[[], Awaitable[T]], within_s: float | None = None
    ) -> T:
        """Let `work` ask a guest's emulator, after all that came before; return what it returns.

        Raises Unavailable when that does not end within `within_s` seconds, by default `answer_s`:
        then it goes on by itself, and all others are refused until it ends. A caller who is
        cancelled waits as long.
        """
        lane = self._lanes.setdefault(server_id, _Lane())
        if lane.hangs:
            raise _refusal(server_id, lane)
        lane.calls += 1
        call = asyncio.create_task(_run(lane, work))
        call.add_done_callback(partial(self._leave, server_id, lane))
        try:
            await self._wait(call, self.answer_s if within_s is None else within_s)
        finally:
            if not call.done():
                _give_up(lane, call)
        if not call.done():
            raise _refusal(server_id, lane)
        return call.result()

    async def until_quiet(self, server_id: str, *, was_ended: bool = False) -> None:
        """Return when no call is at work in a guest's emulator. Raises Unavailable, as `ask` does.

        One that hangs is waited for when its emulator `was_ended`.
        """
        lane = self._lanes.get(server_id)
        if lane is None or (call := lane.at_work) is None:
            return
        if was_ended or not lane.hangs:
            await self._wait(call, self.answer_s)
        if not call.done():
            raise _refusal(server_id, lane)

    async def _wait(self, call: asyncio.Task[Any], within_s: float) -> None:
        """Wait for a call, but not for long, also when cancelled meanwhile."""
        deadline = time.monotonic() + within_s
        cancelled: asyncio.CancelledError | None = None
        while not call.done() and (left := deadline - time.monotonic()) > 0:
            try:
                await asyncio.wait({call}, timeout=left)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def _leave(self, server_id: str, lane: _Lane, call: asyncio.Task[Any]) -> None:
        if not call.cancelled():
            # Nobody may come back for what it raises.
            call.exception()
        lane.calls -= 1
        if not lane.calls:
            del self._lanes[server_id]


async def run_apart(fn: Callable[[], T], name: str) -> T:
    """Run `fn` in a thread of its own, which keeps no pool's place and no process from ending."""
    answer, work = Future[T](), answering(fn)
    # A caller who leaves takes nothing back: what was begun goes on, and has somewhere to end.
    answer.set_running_or_notify_cancel()

    def run() -> None:
        try:
            answer.set_result(work())
        except Exception as error:  # noqa: BLE001 (the caller gets it, whatever it is)
            answer.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await asyncio.wrap_future(answer)


async def _run(lane: _Lane, work: Callable[[], Awaitable[T]]) -> T:
    async with lane.turn:
        lane.at_work, lane.began_at = asyncio.current_task(), time.monotonic()
        try:
            return await work()
        finally:
            lane.at_work, lane.hangs = None, False


def _give_up(lane: _Lane, call: asyncio.Task[Any]) -> None:
    """Leave a call that is at work to itself, and take back one that waits for its turn."""
    if lane.at_work is call:
        lane.hangs = True
    else:
        call.cancel()


def _refusal(server_id: str, lane: _Lane) -> Unavailable:
    seconds = round(time.monotonic() - lane.began_at)
    return Unavailable(
        f"The guest of server {server_id} does not answer: its emulator has been silent for "
        f"{seconds} s. Wait until it goes on, or stop the server, reboot it hard or delete it."
    )
