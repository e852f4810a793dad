"""Bulkheads: work for one host has a bound of its own, and a silent host holds up nobody else's.

Every call to a host goes through its `Door`. A host that leaves one call without an answer is
known as silent at once: from then on one caller at a time asks it, and all others are turned away
until it answers anything. A step that is turned away rests and holds nothing; it comes back when
the host answers, or after a while (see `mooring.saga.slots`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from mooring.clock import Clock, RealClock
from mooring.errors import Unavailable
from mooring.limits import HOST_CALLS_AT_ONCE, HOST_DOOR_WAIT_S

TURNED_AWAY = "turned_away"
"""The detail of an Unavailable that says: the host was not asked, for this `Hindrance`."""


class Hindrance(Struct, frozen=True):
    """Why a host was not asked: it has been silent `since`, or, with None, it is busy."""

    host: str
    since: datetime | None = None

    def describe(self, now: datetime, name: str = "") -> str:
        """Return it as a sentence without its full stop; `name` stands for the host's own."""
        who = name or f"Host {self.host}"
        if self.since is None:
            return f"{who} is busy with other operations"
        seconds = max(0, round((now - self.since).total_seconds()))
        return f"{who} has not answered for {seconds} s"


class Effort(Protocol):
    """Whoever works in one of a service's slots, as a door sees it."""

    def away(self, *, at_host: bool) -> AbstractContextManager[None]:
        """Need no slot for as long as a host, or another service, is asked."""
        ...

    def asks(self, hindrance: Hindrance) -> AbstractContextManager[None]:
        """Note which host owes an answer, and since when."""
        ...

    def answers(self) -> None:
        """Learn that the host at whose door this one was turned away answers again."""
        ...


_effort: ContextVar[Effort | None] = ContextVar("effort", default=None)


def carry(effort: Effort | None) -> None:
    """Let this task, and what it starts, work for `effort`."""
    _effort.set(effort)


def calling() -> AbstractContextManager[None]:
    """Need no slot while another service is asked; nothing for whoever has none."""
    effort = _effort.get()
    return effort.away(at_host=False) if effort else nullcontext()


def outside() -> AbstractContextManager[None]:
    """Need no slot while a program of the operator's works; nothing for whoever has none."""
    effort = _effort.get()
    return effort.away(at_host=True) if effort else nullcontext()


def hindrance_of(error: BaseException) -> Hindrance | None:
    """Return why a host was not asked at all, if that is what an error says."""
    found = error.detail.get(TURNED_AWAY) if isinstance(error, Unavailable) else None
    return found if isinstance(found, Hindrance) else None


class Room:
    """So many callers at once; the others wait in a row."""

    def __init__(self, places: int) -> None:
        self.free = places
        self._row: deque[asyncio.Future[bool]] = deque()

    async def enter(self, patience_s: float) -> bool:
        """Take a place, or return False when none came free in time or all were turned away."""
        if self.free > 0 and not self._row:
            self.free -= 1
            return True
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._row.append(turn)
        try:
            async with asyncio.timeout(patience_s):
                return await turn
        except TimeoutError:
            return self._withdraw(turn)
        except asyncio.CancelledError:
            if self._withdraw(turn):
                self.leave()
            raise

    def _withdraw(self, turn: asyncio.Future[bool]) -> bool:
        """Stand in the row no more; whether a place was given at the very last moment."""
        if turn.done() and not turn.cancelled():
            return turn.result()
        with contextlib.suppress(ValueError):
            self._row.remove(turn)
        return False

    def leave(self) -> None:
        """Give a place back, to the first who waits."""
        while self._row:
            turn = self._row.popleft()
            if not turn.done():
                turn.set_result(True)
                return
        self.free += 1

    def turn_away(self) -> None:
        """Send away all who wait."""
        row, self._row = self._row, deque()
        for turn in row:
            if not turn.done():
                turn.set_result(False)


class Door:
    """The way to one host, for all callers of this process.

    Those who read and those who change something have a row each: a host that is at work on many
    long changes is still asked how it is.
    """

    def __init__(
        self, host: str, clock: Clock | None = None, places: int = HOST_CALLS_AT_ONCE
    ) -> None:
        self.host, self._clock = host, clock or RealClock()
        self.silent_since: datetime | None = None
        self._readers, self._changers = Room(places), Room(places)
        self._asker: Passage | None = None
        self._turned_away: list[Effort] = []
        self._word = asyncio.Event()

    def passage(self, *, reads: bool) -> Passage:
        """Return the way through for one call: an asynchronous context manager.

        Raises Unavailable with the detail `TURNED_AWAY` when the host is silent and somebody else
        asks it already, or when no place comes free within `HOST_DOOR_WAIT_S`. Who works for no
        saga listens so long to what the other one is answered.
        """
        return Passage(self, self._readers if reads else self._changers)

    def asking(self, asked_at: datetime) -> AbstractContextManager[None]:
        """Let operators see who waits for the answer to a call made at `asked_at`."""
        effort = _effort.get()
        since = self.silent_since or asked_at
        return effort.asks(Hindrance(self.host, since)) if effort else nullcontext()

    def missed(self, asked_at: datetime) -> None:
        """Note that a call made at `asked_at` was not answered."""
        if self.silent_since is None:
            self.silent_since = asked_at
        self._readers.turn_away()
        self._changers.turn_away()

    def answered(self) -> None:
        """Note that the host answered, whatever it said, and call back who was turned away."""
        self.silent_since = None
        self._spread_word()
        callers, self._turned_away = self._turned_away, []
        for effort in callers:
            effort.answers()

    def now(self) -> datetime:
        """Return the time, as the door reckons it."""
        return self._clock.now()

    def begin(self, passage: Passage) -> None:
        """Let a caller be the one who asks a silent host. Raises Unavailable when one does."""
        if self.silent_since is None:
            return
        if self._asker is not None:
            raise self.refusal()
        self._asker = passage

    def end(self, passage: Passage) -> None:
        """Let somebody else ask."""
        if self._asker is passage:
            self._asker = None
            self._spread_word()

    async def listen(self) -> None:
        """Wait while somebody else asks a silent host, but not for long.

        For loops and requests, which do not come again by themselves.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HOST_DOOR_WAIT_S):
                while self.silent_since is not None and self._asker is not None:
                    await self._word.wait()

    def _spread_word(self) -> None:
        word, self._word = self._word, asyncio.Event()
        word.set()

    def refusal(self) -> Unavailable:
        """Return the error for one who is turned away, and remember whom to call back."""
        hindrance, effort = Hindrance(self.host, self.silent_since), _effort.get()
        if effort is not None and self.silent_since is not None:
            self._turned_away.append(effort)
        away: dict[str, Hindrance] = {TURNED_AWAY: hindrance}
        said = hindrance.describe(self.now())
        return Unavailable(f"{said}. Nothing was asked of it.", private="", **away)


class Passage:
    """One call on its way through a door. Its place is its own, whoever waits for its end."""

    def __init__(self, door: Door, room: Room) -> None:
        self._door, self._room = door, room
        self._leave = contextlib.ExitStack()

    async def __aenter__(self) -> None:
        effort = _effort.get()
        with contextlib.ExitStack() as stack:
            if effort is None:
                await self._door.listen()
            else:
                stack.enter_context(effort.away(at_host=True))
            self._door.begin(self)
            stack.callback(self._door.end, self)
            if not await self._room.enter(HOST_DOOR_WAIT_S):
                raise self._door.refusal()
            stack.callback(self._room.leave)
            self._leave = stack.pop_all()

    async def __aexit__(self, *_: object) -> None:
        self._leave.close()


class Rounds:
    """What a loop does at each host again and again: a host that takes long delays no other."""

    def __init__(self) -> None:
        self._visits: dict[str, asyncio.Task[None]] = {}

    def begin(
        self, hosts: Iterable[str], visit: Callable[[str], Coroutine[Any, Any, None]]
    ) -> None:
        """Begin a visit to each host that has none; raise what an earlier visit raised."""
        for host in hosts:
            earlier = self._visits.get(host)
            if earlier is not None and not earlier.done():
                continue
            if earlier is not None:
                earlier.result()
            self._visits[host] = asyncio.create_task(visit(host), name=f"visit to {host}")

    async def end(self) -> None:
        """Stop all visits."""
        for task in self._visits.values():
            task.cancel()
        await asyncio.gather(*self._visits.values(), return_exceptions=True)


class Bulkheads:
    """The doors of all hosts, made when first asked for."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = clock or RealClock()
        self._doors: dict[str, Door] = {}

    def __getitem__(self, host: str) -> Door:
        """Return a host's door."""
        return self._doors.setdefault(host, Door(host, self._clock))

    def __iter__(self) -> Iterator[Door]:
        return iter(self._doors.values())

    def silent(self) -> list[Hindrance]:
        """Return the hosts that are known to be silent, by name."""
        found = (Hindrance(door.host, door.silent_since) for door in self if door.silent_since)
        return sorted(found, key=lambda each: each.host)

    def tell_silent(self) -> dict[str, str]:
        """Return a sentence on each host that is known to be silent, by name."""
        now = self._clock.now()
        return {each.host: f"{each.describe(now)}." for each in self.silent()}
