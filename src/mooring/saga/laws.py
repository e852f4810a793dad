"""The laws that every saga obeys, for any world that can be snapshotted, crashed and restarted.

A world is whatever the saga acts on: a service with its database and hosts, or a whole cloud. The
laws know sagas only by `REGISTRY`, and worlds only by the protocol below, so a new saga is held to
every law as soon as a scenario reaches it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from msgspec import Struct

from mooring.errors import Conflict
from mooring.saga.define import REGISTRY, Each, Saga, Step


class Crash(BaseException):
    """The process dies here. No handler may catch it."""


class LawProbe:
    """Remembers each point that is passed, and fails or crashes at the one it was armed for.

    `crashed` stays set from a crash on, until whoever restarts the process clears it.
    """

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.fired = 0
        self.crashed = False
        self._armed: dict[str, tuple[int, Callable[[], BaseException]]] = {}

    def arm(self, point: str, make: Callable[[], BaseException], *, nth: int = 1) -> None:
        """Raise at the n-th passing of a point from now on, once."""
        self._armed[point] = (nth, make)

    def disarm(self) -> None:
        """Let every point be passed again."""
        self._armed.clear()

    def at(self, point: str) -> None:
        """Pass a point."""
        self.passed.append(point)
        if point not in self._armed:
            return
        left, make = self._armed.pop(point)
        if left > 1:
            self._armed[point] = (left - 1, make)
            return
        self.fired += 1
        error = make()
        self.crashed = self.crashed or isinstance(error, Crash)
        raise error


class World(Protocol):
    """What a scenario arranged: everything stands ready for the one act under test."""

    probe: LawProbe

    async def act(self) -> None:
        """Ask for the operation, as a client would. A refusal is no exception."""
        ...

    async def settle(self) -> None:
        """Return when nothing moves any more. Raises Crash when a process died meanwhile."""
        ...

    async def restart(self) -> None:
        """Let every process die as it stands, and start it again on what it left."""
        ...

    async def snapshot(self) -> dict[str, Any]:
        """Return all that can be seen, by name; times and histories left out."""
        ...

    async def ending(self, saga: Saga[Any]) -> str:
        """Return the outcome of the newest saga of this name; empty when none was started."""
        ...

    async def complaints(self) -> list[str]:
        """Return what is stuck, has no owner, or does not add up: empty when all is well."""
        ...


class Broken(AssertionError):
    """A law was broken."""


class Outcome(Struct, frozen=True):
    """The two ends a scenario may come to, learnt by running it once undisturbed."""

    before: dict[str, Any]
    after: dict[str, Any]
    points: tuple[str, ...]


async def learn(world: World) -> Outcome:
    """Run a scenario undisturbed: what the world was, what it becomes, which points it passes."""
    before = await world.snapshot()
    world.probe.passed.clear()
    await world.act()
    await world.settle()
    await require_peace(world, "undisturbed")
    points = tuple(dict.fromkeys(world.probe.passed))
    return Outcome(before, await world.snapshot(), points)


async def hold_failure(world: World, saga: Saga[Any], point: str, outcome: Outcome) -> None:
    """Law *fail*: an error at a point leaves the world as before plus residue, or ends the saga."""
    world.probe.arm(point, lambda: Conflict("A law let this step fail."))
    await world.act()
    await world.settle()
    require_fired(world, point)
    await require_peace(world, f"failing at {point}")
    await require_end(world, saga, outcome, f"failing at {point}")


async def hold_crash(world: World, saga: Saga[Any], point: str, outcome: Outcome) -> None:
    """Law *crash*: after a crash at a point, the restart ends the saga one way or the other."""
    world.probe.arm(point, Crash)
    await live_through(world)
    require_fired(world, point)
    await require_peace(world, f"crashing at {point}")
    await require_end(world, saga, outcome, f"crashing at {point}")


async def hold_crash_in_undo(
    world: World, saga: Saga[Any], failing: str, point: str, outcome: Outcome
) -> None:
    """Law *crash in undo*: the saga fails at one point, then dies while it unwinds at another."""
    world.probe.arm(failing, lambda: Conflict("A law let this step fail."))
    world.probe.arm(point, Crash)
    await live_through(world)
    await require_peace(world, f"failing at {failing}, crashing at {point}")
    await require_end(world, saga, outcome, f"failing at {failing}, crashing at {point}")


async def hold_refusal(
    world: World, saga: Saga[Any], failing: str, refused: str, *, crash: str = ""
) -> bool:
    """Law *refusal*: an undo that is refused for good leads to its end, also through a crash.

    Returns whether the undo was come to. Nothing is undone behind the refusal, and every step of
    `undo_ends` is run. A first step may be in the request's own transaction: when it fails, there
    never was an operation.
    """
    world.probe.arm(failing, lambda: Conflict("A law let this step fail."))
    world.probe.arm(refused, lambda: Conflict("A law refused this undo."))
    if crash:
        world.probe.arm(crash, Crash)
    await live_through(world)
    passed, when = world.probe.passed, f"failing at {failing}, refused at {refused}"
    if refused not in passed:
        return False
    await require_peace(world, when)
    if not (ending := await world.ending(saga)):
        return False
    if ending != "failed":
        message = f"{when}: it ended '{ending}'"
        raise Broken(message)
    behind = passed[passed.index(refused) + 1 :]
    unwinding = [
        f"{point.rpartition('/')[0]}/before" for point in points_of(saga) if "/back/" in point
    ]
    undone = [point for point in unwinding if point in behind]
    missing = [
        step.name
        for step in saga.undo_ends
        if f"{saga.name}/{step.name}/leaving/after" not in behind
    ]
    if undone or missing:
        message = f"{when}: it still ran {undone}, and never {missing}"
        raise Broken(message)
    return True


def points_of(saga: Saga[Any]) -> list[str]:
    """Return every point of a saga, generated from its definition, for kill and coverage lists.

    From the pivot on nothing is undone. A first step that is the pivot may have an undo all the
    same, for a saga whose locks did not come in time; no failure of a step leads there.
    """
    found: list[str] = []
    may_unwind = True
    for part in saga.steps:
        for step in part.steps if isinstance(part, Each) else (part,):
            may_unwind = may_unwind and step.name != saga.pivot
            if isinstance(step, Step):
                found += _points(saga, step, "forward", is_transaction=step.do_is_transaction)
            if isinstance(step, Step) and step.undo is not None and may_unwind:
                found += _points(saga, step, "back", is_transaction=step.undo_is_transaction)
    for step in saga.failed_end:
        found += _points(saga, step, "failing", is_transaction=step.do_is_transaction)
    for step in saga.undo_ends:
        found += _points(saga, step, "leaving", is_transaction=step.do_is_transaction)
    return found


def debts_of(saga: Saga[Any]) -> list[str]:
    """Return every point of what a saga owes when another one absorbs it."""
    steps = [(step, step.do_is_transaction) for step in saga.owes]
    return [
        point
        for step, is_tx in steps
        for point in _points(saga, step, "owing", is_transaction=is_tx)
    ]


def _points(saga: Saga[Any], step: Step, heading: str, *, is_transaction: bool) -> list[str]:
    # A transaction has no moment of its own between its work and the commit of its bookmark.
    moments = ("before", "after") if is_transaction else ("before", "after", "saved")
    return [f"{saga.name}/{step.name}/{heading}/{moment}" for moment in moments]


def sagas_of(*services: str) -> list[Saga[Any]]:
    """Return the newest definition of every saga of these services, in order of their names."""
    newest: dict[str, Saga[Any]] = {}
    for (name, _), saga in sorted(REGISTRY.items()):
        if name.partition(".")[0] in services:
            newest[name] = saga
    return list(newest.values())


async def live_through(world: World) -> None:
    """Act and settle through crashes, restarting after each."""
    if await _crashes(world.act):
        await world.restart()
    for _ in range(10):
        if not await _crashes(world.settle):
            return
        await world.restart()
    raise Broken("the world crashes for ever")


async def _crashes(do: Callable[[], Awaitable[None]]) -> bool:
    try:
        await do()
    except Crash:
        return True
    return False


def require_fired(world: World, point: str) -> None:
    """Raise Broken when nothing that was armed was passed."""
    if not world.probe.fired:
        message = f"the scenario never passed {point}"
        raise Broken(message)


async def require_peace(world: World, when: str) -> None:
    """Raise Broken when anything is stuck, has no owner, or does not add up."""
    complaints = await world.complaints()
    if complaints:
        message = f"{when}: " + "; ".join(complaints)
        raise Broken(message)


async def require_end(
    world: World, saga: Saga[Any], outcome: Outcome, when: str, *, may_be_refused: bool = False
) -> None:
    """Raise Broken unless the world is as before (plus residue), as after, or ended as declared.

    `may_be_refused`: an undo may have been refused for good, so that `undo_ends` were run.
    """
    now, ending = await world.snapshot(), await world.ending(saga)
    if ending == "failed" and (saga.failed_end or (saga.undo_ends and may_be_refused)):
        return
    if ending == "failed" and saga.kept_after and _equal(now, outcome.after, saga.residue):
        return
    # A saga that another one starts only when it must may not be needed for the same end.
    if ending in ("done", "") and now == outcome.after:
        return
    if ending in ("undone", "") and _equal(now, outcome.before, saga.residue):
        return
    difference = _difference(now, outcome, saga.residue)
    message = f"{when}: it ended '{ending}', and the world is\n{difference}"
    raise Broken(message)


def _equal(one: dict[str, Any], other: dict[str, Any], residue: tuple[str, ...]) -> bool:
    names = (one.keys() | other.keys()) - set(residue)
    return all(one.get(name) == other.get(name) for name in names)


def _difference(now: dict[str, Any], outcome: Outcome, residue: tuple[str, ...]) -> str:
    lines: list[str] = []
    for name in sorted(now.keys() | outcome.before.keys() | outcome.after.keys()):
        if name in residue:
            continue
        found = now.get(name)
        if found != outcome.before.get(name) or found != outcome.after.get(name):
            lines.append(f"  {name}: {found!r}")
            lines.append(f"    before: {outcome.before.get(name)!r}")
            lines.append(f"    after:  {outcome.after.get(name)!r}")
    return "\n".join(lines)
