"""The slots of one service: how many sagas work at a time, and who needs none just now.

A saga that asks a host, or waits at its door, has no slot meanwhile: however many hosts are slow or
silent, none of them keeps the sagas of another from working. It comes back without waiting, so that
what has begun ends before anything new begins; only new sagas wait for a free slot. Calls to other
services need no slot either, but only so many may wait for their answers (`SLOT_CALLS`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime

from mooring.bulkhead import Hindrance
from mooring.limits import SLOT_CALLS


class Slots:
    """Counts who works and who waits for another service; `changed` is called when room is made."""

    def __init__(self, bound: int, changed: Callable[[], None]) -> None:
        self._bound, self._changed = bound, changed
        self.working = self.calling = 0

    def is_free(self) -> bool:
        """Whether one more saga may begin."""
        return self.working < self._bound and self.calling < self._bound * SLOT_CALLS

    def enter(self) -> None:
        """Count one that works, also above the bound: it has begun before."""
        self.working += 1

    def leave(self) -> None:
        """Count one less."""
        self.working -= 1
        self._changed()

    def call(self, change: int) -> None:
        """Count one more or one less who waits for another service."""
        self.calling += change
        if change < 0:
            self._changed()


class Place:
    """What one running saga takes of the slots: the `Effort` of `mooring.bulkhead`.

    A step may ask several at once, and may leave behind who still asks when it has ended.
    """

    def __init__(self, slots: Slots, called_back: Callable[[], None]) -> None:
        self._slots, self._called_back = slots, called_back
        self._away, self._has_ended = 0, False
        self.hindrance: Hindrance | None = None
        """Which host owes this one an answer, and since when."""
        slots.enter()

    @contextmanager
    def away(self, *, at_host: bool) -> Generator[None]:
        """Need no slot for as long as a host, or another service, is asked."""
        self._away += 1
        if self._away == 1 and not self._has_ended:
            self._slots.leave()
        if not at_host:
            self._slots.call(1)
        try:
            yield
        finally:
            if not at_host:
                self._slots.call(-1)
            self._away -= 1
            if self._away == 0 and not self._has_ended:
                self._slots.enter()

    @contextmanager
    def asks(self, hindrance: Hindrance) -> Generator[None]:
        """Note which host owes an answer, and since when."""
        self.hindrance = hindrance
        try:
            yield
        finally:
            self.hindrance = None

    def answers(self) -> None:
        """Learn that the host at whose door this one was turned away answers again."""
        self._called_back()

    def end(self) -> None:
        """Give the slot back for good, whatever the saga left behind."""
        self._has_ended = True
        if self._away == 0:
            self._slots.leave()


_TURNED_AWAY = "host:"


def write_hindrance(hindrance: Hindrance) -> str:
    """Return what a bookmark waits for when its saga was turned away at a host's door."""
    since = hindrance.since.isoformat() if hindrance.since else ""
    return f"{_TURNED_AWAY}{since} {hindrance.host}"


def read_hindrance(waits_for: str) -> Hindrance | None:
    """Return what `write_hindrance` wrote; None for a signal."""
    if not waits_for.startswith(_TURNED_AWAY):
        return None
    since, _, host = waits_for.removeprefix(_TURNED_AWAY).partition(" ")
    return Hindrance(host, datetime.fromisoformat(since) if since else None)
