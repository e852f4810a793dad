"""Waiting for what others do at their own pace, however slow the machine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

PATIENCE_S = 120.0


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Return once something holds. Raises AssertionError, which says `what`, if it never does.

    Bounded by time, not by how often it looks: a disk that is slow to write fails no test.
    """
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not await holds():  # noqa: ASYNC110  (rows tell nobody that they change)
                await asyncio.sleep(0)
    except TimeoutError:
        raise AssertionError(f"Waited {PATIENCE_S:.0f} s in vain: {what}.") from None
