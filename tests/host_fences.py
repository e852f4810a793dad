"""A host fence that runs no command: it notes whom it was asked for, and does what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mooring.host_fence import Still, none_is_set, not_ended


async def _do_nothing(host: str) -> None:
    del host


class SimulatedFence:
    """Implements `HostFence`."""

    def __init__(self) -> None:
        self.is_set = True
        self.asked: list[str] = []
        """Whom it was asked to end, in order."""
        self.begun = asyncio.Event()
        """Whether it was asked once."""
        self.refusal: tuple[str, str] | None = None
        """How it fails, and what it says then; None while it does not."""
        self.turn = asyncio.Event()
        """Whoever asks waits for this, as for others who are fenced first."""
        self.turn.set()
        self.opens = asyncio.Event()
        """It is at work until this is set."""
        self.opens.set()
        self.ends: Callable[[str], Awaitable[None]] = _do_nothing
        """Ends a host."""

    @property
    def is_there(self) -> bool:
        return self.is_set

    async def end(self, host: str, still: Still | None = None) -> str:
        if not self.is_set:
            raise none_is_set(host)
        await self.turn.wait()
        if still is not None:
            await still()
        self.asked.append(host)
        self.begun.set()
        await self.opens.wait()
        if self.refusal is not None:
            raise not_ended(host, *self.refusal)
        await self.ends(host)
        return f"exit 0 of switch-off {host}"
