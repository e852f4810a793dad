"""Named points in the code where a test can fail, stop or kill the process that passes them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Protocol

from mooring.errors import Conflict

Passing = Callable[[str], None]
"""Passes a moment in the middle of what it was made for."""


class Probe(Protocol):
    """Is told each point that is passed; raises, or never returns, where a test wants it so."""

    def at(self, point: str) -> None:
        """Pass the point, named `<owner>/<what>/<when>`."""
        ...


class NoProbe:
    """Production: every point is passed."""

    def at(self, point: str) -> None:
        del point


class HarnessProbe:
    """Does at points what the setting `kill_at` says: ends this process, or lets a step fail."""

    def __init__(self, kills: dict[str, int], failures: frozenset[str]) -> None:
        self._kills, self._failures = kills, failures

    def at(self, point: str) -> None:
        if point in self._failures:
            message = f"The kill harness let {point} fail."
            raise Conflict(message)
        left = self._kills.get(point)
        if left is None:
            return
        self._kills[point] = left - 1
        if left == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def passing_in(probe: Probe, verb: str) -> Passing:
    """Return what passes the moments in the middle of a host's verb."""
    return lambda moment: probe.at(f"agent/{verb}/{moment}")


def from_setting(text: str) -> Probe:
    """Read the setting `kill_at`: empty in production.

    For the kill harness it lists, with commas between, `POINT` or `POINT@N` (end this process with
    SIGKILL at the N-th passing) and `!POINT` (fail with Conflict at every passing).
    """
    kills: dict[str, int] = {}
    failures: set[str] = set()
    for part in filter(None, text.split(",")):
        point, _, nth = part.removeprefix("!").partition("@")
        if part.startswith("!"):
            failures.add(point)
        else:
            kills[point] = int(nth or "1")
    return HarnessProbe(kills, frozenset(failures)) if kills or failures else NoProbe()
