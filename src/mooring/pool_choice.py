"""Which of the pools gets what is new, and in words what speaks against all others.

For the volume and the share service, which know their own pools and say of each what speaks
against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from msgspec import Struct


class HasRoom(Protocol):
    """A pool as a service knows it."""

    @property
    def left_gib(self) -> float:
        """The GiB that may still be promised in it."""
        ...


R = TypeVar("R", bound=HasRoom)


class Reason(Struct, frozen=True, order=True):
    """What speaks against a pool, in words for its users: they name no host and no pool."""

    words: str
    """They stand behind a number of pools: "2 that are disabled"."""
    advice: str = ""
    """A sentence that says what would help; empty where nothing does."""


DISABLED = Reason("that are disabled", "An administrator can enable what is disabled.")
SILENT = Reason("whose host is silent", "Try again when the hosts answer.")
BROKEN = Reason("that do not work", "An administrator learns from mooring doctor what fails.")
_NONE = "there are none. An administrator adds a host that has one."


def other_zone(what: str) -> Reason:
    """Return that the pool is in another zone than `what` is to be in."""
    return Reason("in another availability zone", f"Ask for a {what} in another zone.")


def without_room(what: str) -> Reason:
    """Return that the pool has not enough room for `what`."""
    return Reason("without the room", f"Delete {what}s, or add storage.")


def unfit(what: str) -> Reason:
    """Return that the pool cannot do what the type of `what` asks for."""
    return Reason(f"without what the {what} type asks for", f"Ask for another {what} type.")


class Choice(Struct, Generic[R], frozen=True):
    """The pool with the most room among those that nothing speaks against, if there is one."""

    best: R | None
    against: dict[Reason, int]
    """How many pools each reason speaks against."""

    def explain(self) -> str:
        """Return in words what speaks against the pools, and what would help."""
        if not self.against:
            return f"Pools: {_NONE}"
        reasons = sorted(self.against)
        counted = "; ".join(f"{self.against[reason]} {reason.words}" for reason in reasons)
        advice = dict.fromkeys(reason.advice for reason in reasons if reason.advice)
        return " ".join([f"Pools: {counted}.", *advice])


def choose(rooms: Iterable[R], find_reason: Callable[[R], Reason | None]) -> Choice[R]:
    """Choose among pools, of which `find_reason` says what speaks against one; None is nothing."""
    suited: list[R] = []
    against = Counter[Reason]()
    for room in rooms:
        reason = find_reason(room)
        if reason is None:
            suited.append(room)
        else:
            against[reason] += 1
    best = max(suited, key=lambda room: room.left_gib, default=None)
    return Choice(best, dict(against))


def first(reasons: Iterable[tuple[bool, Reason]]) -> Reason | None:
    """Return the first reason that holds."""
    return next((reason for speaks_against, reason in reasons if speaks_against), None)
