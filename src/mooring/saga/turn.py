"""What one turn of a saga is made of: the work in hand, and how a step went."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from random import Random
from typing import Any, Generic, TypeVar

from msgspec import Struct
from sqlalchemy.orm import Session

from mooring import typed
from mooring.bulkhead import Hindrance
from mooring.clock import Clock
from mooring.probe import Probe
from mooring.saga import journal, locks
from mooring.saga.define import Child, Park, Saga, Step
from mooring.saga.journal import Bookmark
from mooring.saga.plan import Place, Plan
from mooring.saga.seal import Sealer
from mooring.store.base import Store

S = TypeVar("S")


class Done(Struct):
    """A step went well. `told`: so did what its saga's story tells there."""

    notes: Any = None
    told: bool = False


class Failed(Struct):
    """A step did not go well."""

    error: BaseException


class Rested(Struct):
    """A step asks to be run again later."""

    park: Park


class TurnedAway(Struct):
    """A step could not ask a host, which is silent or busy; its failure tells so."""

    error: BaseException
    hindrance: Hindrance


Result = Done | Failed | Rested | TurnedAway


class Turn(Struct):
    """The outside work of one place, finished and not yet written down."""

    place: Place
    result: Result
    started_at: datetime
    duration_s: float


class Work(Generic[S]):
    """One saga while this process advances it."""

    def __init__(self, mark: Bookmark, saga: Saga[Any], generations: dict[str, int]) -> None:
        self.mark, self.saga, self.generations = mark, saga, generations
        self.notes = typed.convert(mark.notes, saga.notes)
        self._plan = Plan(saga, self.notes)
        self.saved: Bookmark | None = None
        """What was committed last; `mark` becomes it when the runner has its turn."""
        self.step_task: asyncio.Task[Any] | None = None
        self.interrupted = False

    def plan(self) -> Plan:
        """Return the saga laid out for its present notes."""
        self._plan = self._plan.with_notes(self.notes)
        return self._plan

    def heed(self, abort: int) -> None:
        """Stop for an abort that another process wrote down, unless that is known already."""
        if abort > self.mark.abort and not self.interrupted:
            self.interrupt()

    def interrupt(self) -> None:
        """Stop the outside work of a step that may still be unwound."""
        place = self.plan().find(self.mark.heading, self.mark.step, self.mark.item)
        if self.mark.heading != "forward" or place is None or self.plan().is_behind_pivot(place):
            return
        self.interrupted = True
        if self.step_task is not None:
            self.step_task.cancel()


class Tools(Struct, Generic[S]):
    """What the engine hands to its runners."""

    service: S
    store: Store
    clock: Clock
    random: Random
    probe: Probe
    sealer: Sealer
    ended: Callable[[Session, Bookmark], None]
    saved: Callable[[Session, Bookmark], None]
    start_child: Callable[[Session, Saga[Any], Any, str, Bookmark], None]
    abort_child: Callable[[Session, str], None]
    let_go: Callable[[Session, str, Sequence[str] | None], None]


def is_transaction(part: Step | Child, mark: Bookmark) -> bool:
    """Whether this part, in the bookmark's heading, runs inside the bookmark's transaction."""
    if isinstance(part, Child):
        return True
    if mark.heading == "back":
        return part.undo is None or part.undo_is_transaction
    return part.do_is_transaction


def must_turn_back(plan: Plan, mark: Bookmark, place: Place) -> bool:
    """Whether an abort was asked for that this place still allows."""
    return mark.heading == "forward" and mark.abort > 0 and not plan.is_behind_pivot(place)


def choose(part: Step, mark: Bookmark) -> Callable[..., Any]:
    """Return the function of a step for the bookmark's heading."""
    function = part.undo if mark.heading == "back" else part.do
    return function or _nothing


def _nothing(*_: object) -> None:
    """Undo a step that has no undo."""


def load_work(
    tx: Session, saga_id: str, registry: dict[tuple[str, int], Saga[Any]]
) -> tuple[Bookmark, Saga[Any] | None, dict[str, int]] | None:
    """Read what is needed to advance a saga: its bookmark, its definition if known, its locks."""
    mark = journal.load(tx, saga_id)
    if mark is None:
        return None
    held = (
        locks.generations(tx, saga_id) if mark.heading != "owing" else dict(mark.generations or ())
    )
    return mark, registry.get((mark.name, mark.version)), held
