"""Whether an event loop has come to a standstill: nothing it waits for comes by itself, or soon.

A simulated world has no sockets, so it stands still when no callback is ready, no thread or
database works for it and no timer of the real clock is due. That is seen at once; where it cannot
be seen, because there are sockets or processes, only time tells.
"""

from __future__ import annotations

import asyncio
import threading
from asyncio import base_events
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any
from weakref import WeakSet

from sqlalchemy.orm import Session

from mooring.store.call import Call

_OWN_SOCKETS = 1
"""By which other threads wake a loop."""
_THREADS = Path("/proc/self/task")
_AT_WORK = ("R", "D")
_working = set[asyncio.Future[Any]]()
_transactions = WeakSet[Call[Any]]()


def stands_still(soon_s: float) -> bool:
    """Whether nothing can happen in the running loop, but by its caller, for so many seconds.

    False where that cannot be told.
    """
    loop: Any = asyncio.get_running_loop()
    if not isinstance(loop, base_events.BaseEventLoop):
        return False
    ready, selector, timers = (vars(loop)[name] for name in ("_ready", "_selector", "_scheduled"))
    if ready or len(selector.get_map()) > _OWN_SOCKETS:
        return False
    if any(asked.get_loop() is loop for asked in _working):
        return False
    if is_owed():
        return False
    due = loop.time() + soon_s
    return all(timer.cancelled() or timer.when() > due for timer in timers)


def is_owed() -> bool:
    """Whether a database works for the running loop, or has not been heard by it yet."""
    loop = asyncio.get_running_loop()
    return any(call.loop is loop for call in _transactions)


def others_run() -> bool:
    """Whether a thread beside this one is at work, or would be if it had its turn, or its disk."""
    own = threading.get_native_id()
    return any(_state(task) in _AT_WORK for task in _THREADS.iterdir() if task.name != str(own))


def _state(task: Path) -> str:
    """Return the letter by which the system tells what a thread does; none for one that ended."""
    try:
        told = (task / "stat").read_text("ascii", "replace")
    except OSError:
        return ""
    return told.rpartition(")")[2].split()[0]


def _count_work() -> None:
    """Know of what loops have threads do, until the loops themselves know that it is done.

    They hear of it a moment after the thread has ended: so what they wait for is counted.
    """
    ask = base_events.BaseEventLoop.run_in_executor

    def counted(
        self: base_events.BaseEventLoop, executor: Executor | None, func: Any, *arguments: Any
    ) -> Any:
        asked: Any = ask(self, executor, func, *arguments)
        _working.add(asked)
        asked.add_done_callback(_working.discard)
        return asked

    setattr(base_events.BaseEventLoop, ask.__name__, counted)


def _count_transactions() -> None:
    """Know of what was asked of databases and is not delivered yet."""
    begin: Any = vars(Call)["__init__"]
    deliver: Any = vars(Call)["deliver"]

    def begun(self: Call[Any], fn: Callable[[Session], Any]) -> None:
        begin(self, fn)
        _transactions.add(self)

    def delivered(self: Call[Any]) -> None:
        deliver(self)
        _transactions.discard(self)

    Call.__init__ = begun
    Call.deliver = delivered


_count_work()
_count_transactions()
