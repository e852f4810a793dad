"""Threads that are waited for, whatever comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")


async def run_to_end(fn: Callable[[], T], executor: Executor | None = None) -> T:
    """Run `fn` in a thread and return only when it has ended, also when cancelled meanwhile.

    `asyncio.to_thread` returns at once when cancelled and leaves its thread at work: a verb that
    were ended so would go on behind the back of the one that ended it.
    """
    future = asyncio.get_running_loop().run_in_executor(executor, fn)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        future.exception()
        raise cancelled
    return future.result()
