"""Advance one saga: from where its bookmark stands to its next rest, or to its end.

Each turn is: do the outside work of one step, then one transaction that writes down how it went,
moves the bookmark, and runs every following step that is a transaction itself.
"""

from __future__ import annotations

import asyncio
import copy
from functools import partial
from typing import Any, Generic, TypeVar

import structlog
from sqlalchemy.orm import Session

from mooring.bulkhead import hindrance_of
from mooring.errors import Unavailable
from mooring.saga import journal
from mooring.saga.define import Child, Park, Step
from mooring.saga.journal import Bookmark
from mooring.saga.plan import Place
from mooring.saga.running import StepRun
from mooring.saga.teller import Teller
from mooring.saga.turn import (
    Done,
    Failed,
    Rested,
    Result,
    Tools,
    Turn,
    TurnedAway,
    Work,
    choose,
    is_transaction,
    must_turn_back,
)

S = TypeVar("S")
log = structlog.get_logger()


def tell_trouble(service: str, saga_id: str, error: Exception) -> None:
    """Write down what kept a saga from being advanced: in one line where it passes by itself.

    A database that is away, or full, meets every saga again and again.
    """
    shown = {"saga": saga_id, "service": service}
    if isinstance(error, Unavailable):
        log.warning("saga.trouble", error=str(error), **shown)
    else:
        log.error("saga.trouble", exc_info=error, **shown)


class Runner(Generic[S]):
    """Advances sagas one at a time; the engine runs several runners' work side by side."""

    def __init__(self, tools: Tools[S]) -> None:
        self.tools = tools

    async def advance(self, work: Work[S]) -> None:
        """Run the saga until it rests or ends. Raises LostLeaseError when another one owns it."""
        turn: Turn | None = None
        while work.mark.state == "ready":
            outside = self._find_outside(work) if turn is None else None
            if outside is None:
                mark, notes = await self.tools.store.write(
                    partial(self.write_down, work=work, turn=turn)
                )
                self.tools.probe.at(f"{work.saga.name}/{work.mark.step}/{work.mark.heading}/saved")
                work.mark, work.notes, turn = mark, notes, None
            else:
                turn = await self._perform(work, *outside)

    def _find_outside(self, work: Work[S]) -> tuple[Place, Step] | None:
        """Return the place whose outside work comes next, or None when a transaction does."""
        if work.interrupted:
            # An abort came while nothing was performed. A transaction reads what was asked for.
            work.interrupted = False
            return None
        mark = work.mark
        place = work.plan().find(mark.heading, mark.step, mark.item)
        if place is None or isinstance(place.part, Child) or is_transaction(place.part, mark):
            return None
        return None if must_turn_back(work.plan(), mark, place) else (place, place.part)

    async def _perform(self, work: Work[S], place: Place, step: Step) -> Turn:
        mark, started_at = work.mark, self.tools.clock.now()
        started, before = (
            self.tools.clock.monotonic(),
            f"{work.saga.name}/{place.name}/{mark.heading}",
        )
        mark.attempts += 1
        run = StepRun(self.tools, work, mark, place.key)
        function = choose(step, mark)
        arguments = (work.notes, place.item, run) if place.item else (work.notes, run)

        async def guarded() -> Any:
            self.tools.probe.at(f"{before}/before")
            async with asyncio.timeout(step.deadline_s):
                answer = await function(*arguments)
            self.tools.probe.at(f"{before}/after")
            return answer

        work.step_task = asyncio.create_task(guarded())
        try:
            result: Result = Done(await work.step_task)
        except Park as park:
            result = Rested(park)
        except TimeoutError:
            late = Unavailable(f"Step {place.key} did not end within {step.deadline_s} s.")
            result = Failed(late)
        except asyncio.CancelledError:
            if not work.interrupted:
                raise
            work.interrupted = False
            result = Failed(journal.ABORTED)
        except Exception as error:  # noqa: BLE001  (whatever a step raises decides where the saga goes)
            hindrance = hindrance_of(error)
            result = TurnedAway(error, hindrance) if hindrance else Failed(error)
        finally:
            work.step_task = None
        return Turn(place, result, started_at, self.tools.clock.monotonic() - started)

    def write_down(self, tx: Session, work: Work[S], turn: Turn | None) -> tuple[Bookmark, Any]:
        """Write how a turn went and run what transactions follow. Changes only copies."""
        teller = Teller(self.tools, work, copy.copy(work.mark))
        if turn is not None:
            teller.tell(tx, turn)
        while teller.mark.state == "ready" and teller.run_transaction(tx):
            pass
        teller.save(tx)
        return teller.mark, teller.notes
