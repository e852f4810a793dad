"""Switches on a simulated world: fail the next call, hold it until told, make it slow."""

from __future__ import annotations

import asyncio

from mooring.errors import MooringError


class _Gate:
    def __init__(self) -> None:
        self.opened, self.reached = asyncio.Event(), asyncio.Event()


class Knobs:
    """Passed by every simulated call, under its own name; untouched, it lets all pass."""

    def __init__(self) -> None:
        self._failures: dict[str, list[MooringError | OSError]] = {}
        self._gates: dict[str, _Gate] = {}
        self._pauses: dict[str, float] = {}
        self.passed: dict[str, int] = {}
        """How often each point was reached."""

    def fail(self, point: str, error: MooringError | OSError, *, times: int = 1) -> None:
        """Let the next calls at a point fail so; with an OSError as if storage had."""
        self._failures.setdefault(point, []).extend([error] * times)

    def hold(self, point: str) -> None:
        """Let every call at a point wait until `release`."""
        self._gates.setdefault(point, _Gate())

    async def held(self, point: str) -> None:
        """Return once a call waits at a point that is held."""
        await self._gates[point].reached.wait()

    def release(self, point: str) -> None:
        """Let those go on that wait, and those that come."""
        if gate := self._gates.pop(point, None):
            gate.opened.set()

    def slow(self, point: str, seconds: float) -> None:
        """Let every call at a point take so long; 0 ends it."""
        self._pauses[point] = seconds

    async def at(self, point: str) -> None:
        """Pass a point."""
        self.passed[point] = self.passed.get(point, 0) + 1
        if seconds := self._pauses.get(point, 0.0):
            await asyncio.sleep(seconds)
        if gate := self._gates.get(point):
            gate.reached.set()
            await gate.opened.wait()
        if queue := self._failures.get(point):
            raise queue.pop(0)
