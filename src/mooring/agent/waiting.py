"""Waiting for what tells nobody when it happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


async def until(condition: Callable[[], bool], timeout_s: float, *, pause_s: float = 0.05) -> bool:
    """Look again and again; return whether the condition came to hold in time."""

    async def look() -> bool:
        return condition()

    return await until_told(look, timeout_s, pause_s=pause_s)


async def until_told(
    condition: Callable[[], Awaitable[bool]], timeout_s: float, *, pause_s: float = 0.1
) -> bool:
    """Ask again and again; return whether the condition came to hold in time."""
    deadline = time.monotonic() + timeout_s
    while not await condition():
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(pause_s)
    return True
