"""Threads that are waited for, whatever comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from mooring.errors import Bug

T = TypeVar("T")


def answering(fn: Callable[[], T]) -> Callable[[], T]:
    """Return the same as `fn`, which raises nothing that cannot be handed over to a caller.

    No future takes a StopIteration: whoever waited for it would wait for ever.
    """

    def answer() -> T:
        try:
            return fn()
        except StopIteration as error:
            raise Bug(
                "An internal error occurred; what was asked for may be done in part. The log "
                "explains it.",
                private="StopIteration was raised in a thread",
            ) from error

    return answer


async def run_to_end(fn: Callable[[], T], executor: Executor | None = None) -> T:
    """Run `fn` in a thread and return only when it has ended, also when cancelled meanwhile.

    `asyncio.to_thread` returns at once when cancelled and leaves its thread at work: a verb that
    were ended so would go on behind the back of the one that ended it.
    """
    future = asyncio.get_running_loop().run_in_executor(executor, answering(fn))
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
