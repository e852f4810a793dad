"""Moves a saga's bookmark inside one transaction: how a step went, and where that leads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec
from sqlalchemy.orm import Session

from mooring.errors import Bug, MooringError, Unavailable, from_record
from mooring.fence.rules import is_fenced
from mooring.limits import HOST_REST_S
from mooring.saga import children, journal, locks
from mooring.saga.define import REGISTRY, Child, Heading, Park, Step, Story, Together
from mooring.saga.journal import ABORT_INSISTED, ABORT_PREEMPTED, Bookmark, LostLeaseError
from mooring.saga.plan import Place, Plan
from mooring.saga.running import StepRun
from mooring.saga.slots import write_hindrance
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
from mooring.store import failures
from mooring.store.base import savepoint

S = TypeVar("S")

STUCK_AFTER_S = 3600.0
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 30.0
ABSORB_AFTER_ATTEMPTS = 2
COUNTED_REST_S = 300.0
_OUTCOMES: dict[Heading, str] = {
    "forward": "done",
    "back": "undone",
    "failing": "failed",
    "leaving": "failed",
    "owing": "absorbed",
}
_WORDS = {Done: "done", Failed: "failed", Rested: "parked"}


class Teller(Generic[S]):
    """Works on a copy of the bookmark, so that a roll-back leaves no trace of it."""

    def __init__(self, tools: Tools[S], work: Work[S], mark: Bookmark) -> None:
        self.tools, self.work, self.mark, self.notes = tools, work, mark, work.notes
        self.now = tools.clock.now()
        self._plan = work.plan()

    def plan(self) -> Plan:
        self._plan = self._plan.with_notes(self.notes)
        return self._plan

    def save(self, tx: Session) -> None:
        if self.mark.waits_for and journal.take_signal(tx, self.mark.waits_for):
            self._stay_up()
        has_ended = self.mark.state == "ended"
        if has_ended:
            # Before its own row: who takes its place draws the counter first, then changes that
            # row. The other way round each would wait for the other (`locks.serialize`).
            self.tools.let_go(tx, self.mark.id, None)
        known = self.mark.abort
        journal.save(tx, self.mark, self.now)
        if self.mark.state == "parked" and self.mark.abort != known:
            # Who asked found it at work, and wakes nobody: it sees to that instead of resting.
            self._stay_up()
            journal.save(tx, self.mark, self.now)
        if has_ended:
            self.tools.ended(tx, self.mark)
        self.tools.saved(tx, self.mark)

    def _stay_up(self) -> None:
        self.mark.state, self.mark.waits_for = "ready", ""
        self.mark.wake_at, self.mark.parked_since = None, None

    def run_transaction(self, tx: Session) -> bool:
        """Run the next place if it is a transaction or has nothing to do; else return False."""
        mark = self.mark
        place = self.plan().find(mark.heading, mark.step, mark.item)
        if place is None:
            self._lose_the_way()
            return True
        if must_turn_back(self.plan(), mark, place):
            self._turn_back(place, from_record(mark.error) if mark.error else journal.ABORTED)
            return True
        if isinstance(place.part, Child):
            key = self.work.saga.key_in(mark.round, place.key)
            parts = (tx, self.tools, mark, place.part, self.notes)
            self.tell(tx, self._timed(place, partial(children.drive, *parts, key=key)))
            return True
        step = place.part
        if mark.heading == "back" and step.undo is None:
            self._pass(tx, place)
            return True
        if not is_transaction(step, mark):
            return False
        mark.attempts += 1
        self.tell(tx, self._timed(place, lambda: self._call(tx, place, step)))
        return True

    def tell(self, tx: Session, turn: Turn) -> None:
        """Write one attempt into the timeline and decide where it leads."""
        mark, result = self.mark, turn.result
        if isinstance(result, Done) and not result.told:
            result = self._finish(tx, turn.place, result.notes)
        if not isinstance(result, Rested | TurnedAway):
            error = result.error if isinstance(result, Failed) else None
            journal.add_history(
                tx,
                mark,
                (turn.place.name, turn.place.item),
                _WORDS[type(result)],
                started_at=turn.started_at,
                duration_s=turn.duration_s,
                error=error,
            )
        mark.spent_s += turn.duration_s
        if isinstance(result, Done):
            self.notes = self.notes if result.notes is None else result.notes
            self._move_on(tx, turn.place)
        elif isinstance(result, Rested):
            self._rest(tx, turn.place, result.park)
        elif isinstance(result, TurnedAway):
            self._wait_at_door(tx, turn, result)
        else:
            self._fail(tx, turn.place, result.error)

    def _finish(self, tx: Session, place: Place, answer: Any) -> Result:
        """Write and tell what a place that did its work outside left to the bookmark's own."""
        notes = answer.notes if isinstance(answer, Together) else answer
        chapters = self._find_chapters(place, notes)
        if not chapters and not isinstance(answer, Together):
            return Done(notes, told=True)
        try:
            with savepoint(tx):
                if isinstance(answer, Together):
                    answer.write(tx)
                self._tell_story(tx, place, notes, chapters)
        except Exception as error:
            if failures.is_of_database(error):
                raise
            return Failed(error)
        return Done(notes, told=True)

    def _find_chapters(self, place: Place, answer: Any) -> list[Callable[..., None]]:
        """Return what comes true when this place is passed with these notes; None for its own."""
        story, mark, saga = self.work.saga.story, self.mark, self.work.saga
        notes = self.notes if answer is None else answer
        if saga.again and self._next_round(place, notes) is not None:
            return [saga.again.told]
        if story is None or mark.heading == "owing":
            return []
        plan = self.plan() if answer is None else self.plan().with_notes(answer)
        ends = plan.after(mark.heading, place) is None
        if mark.heading != "forward":
            return [story.failed] if ends else []
        is_answer = not mark.answered and _has_passed(plan, place, saga.answered_after)
        due = [(not mark.begun, story.begun), (is_answer, story.answered), (ends, story.ended)]
        due += [(True, chapter) for name, chapter in story.passed.items() if name == place.name]
        return [chapter for is_due, chapter in due if is_due]

    def _tell_story(
        self, tx: Session, place: Place, answer: Any, chapters: Sequence[Callable[..., None]]
    ) -> None:
        run = StepRun(self.tools, self.work, self.mark, place.key)
        for chapter in chapters:
            chapter(tx, self.notes if answer is None else answer, run)

    def _timed(self, place: Place, work: Callable[[], Result]) -> Turn:
        started = self.tools.clock.monotonic()
        result = work()
        return Turn(place, result, self.now, self.tools.clock.monotonic() - started)

    def _call(self, tx: Session, place: Place, step: Step) -> Result:
        mark = self.mark
        run = StepRun(self.tools, self.work, mark, place.key)
        function = choose(step, mark)
        arguments = (self.notes, place.item, run) if place.item else (self.notes, run)
        point = f"{self.work.saga.name}/{place.name}/{mark.heading}"
        try:
            self.tools.probe.at(f"{point}/before")
            with savepoint(tx):
                answer = function(tx, *arguments)
                self._tell_story(tx, place, answer, self._find_chapters(place, answer))
                self.tools.probe.at(f"{point}/after")
        except LostLeaseError:
            raise
        except Exception as error:
            # Whatever a step raises decides where the saga goes; a lost transaction is no answer.
            if failures.is_of_database(error):
                raise
            return Failed(error)
        return Done(answer, told=True)

    def _pass(self, tx: Session, place: Place) -> None:
        """Leave a place at which nothing is done, or nothing any more."""
        told = self._finish(tx, place, None)
        if isinstance(told, Failed):
            self.mark.attempts += 1
            self._pause()
        else:
            self._move_on(tx, place)

    def _move_on(self, tx: Session, place: Place) -> None:
        mark, saga, plan = self.mark, self.work.saga, self.plan()
        again = self._next_round(place, self.notes)
        self.notes = self.notes if again is None else again
        mark.notes = msgspec.to_builtins(self.notes)
        if again is not None:
            mark.heading, mark.error, mark.round = "forward", None, mark.round + 1
            self._stand_at(place)
            return
        if mark.heading == "forward":
            mark.begun = True
            mark.answered = mark.answered or _has_passed(plan, place, saga.answered_after)
            if not mark.visible and _has_passed(plan, place, saga.visible_after):
                mark.visible = True
                self._free(tx)
        self._stand_at(plan.after(mark.heading, place))

    def _free(self, tx: Session) -> None:
        """Let go of what the saga needs no more once its result is shown."""
        if self.work.saga.lets_go is not None:
            self.tools.let_go(tx, self.mark.id, self.work.saga.lets_go(self.notes))

    def _next_round(self, place: Place, notes: Any) -> Any:
        """Return the notes to turn forward with behind this undo; None where it unwinds the rest.

        No transaction of its own: what is told of the turn is told with the undo.
        """
        mark, again = self.mark, self.work.saga.again
        if again is None or mark.heading != "back" or place.name != again.step or mark.abort:
            return None
        return again.notes(notes, StepRun(self.tools, self.work, mark, place.key))

    def _stand_at(self, place: Place | None) -> None:
        mark = self.mark
        mark.attempts, mark.spent_s, mark.stuck = 0, 0.0, False
        mark.wake_at, mark.parked_since, mark.waits_for = None, None, ""
        if place is not None:
            mark.step, mark.item = place.name, place.item
            return
        mark.state = "ended"
        mark.outcome = _OUTCOMES[mark.heading]

    def _turn_back(self, place: Place, error: BaseException) -> None:
        mark = self.mark
        if error is journal.ABORTED:
            error = journal.why_ended_early(mark.abort)
        mark.error = mark.error or journal.encode_error(error)
        mark.heading = "back"
        self._stand_at(place)

    def _fail(self, tx: Session, place: Place, error: BaseException) -> None:
        mark, again = self.mark, journal.is_unavailable(error)
        behind = mark.heading == "forward" and self.plan().is_behind_pivot(place)
        if mark.heading == "forward" and not behind:
            if again and mark.spent_s < place.deadline_s and not mark.abort:
                self._pause()
            else:
                self._turn_back(place, error)
        elif behind and not again and self.work.saga.failed_end:
            mark.error, mark.heading = journal.encode_error(error), "failing"
            self._stand_at(self.plan().first("failing"))
        elif self._ends_unwinding(place, error):
            mark.undo_error, mark.heading = journal.encode_error(error), "leaving"
            self._stand_at(self.plan().first("leaving"))
        elif self._is_let_off(place, error):
            self._pass(tx, place)
        elif mark.attempts >= ABSORB_AFTER_ATTEMPTS and self._leave_to_heir(tx):
            self._be_absorbed(tx, error)
        else:
            self._pause()

    def _ends_unwinding(self, place: Place, error: BaseException) -> bool:
        """Whether a way back was refused for good, in a saga that has an end for that.

        A fence's refusal is none: somebody who came later has the thing in hand.
        """
        if self.mark.heading not in {"back", "failing"} or not self.work.saga.undo_ends:
            return False
        if journal.is_unavailable(error):
            return 0 < place.undo_attempts <= self.mark.attempts
        return isinstance(error, MooringError) and not is_fenced(error)

    def _is_let_off(self, place: Place, error: BaseException) -> bool:
        """Whether the saga goes on without this place: an operator said so, or nobody is owed.

        What another service refuses for good it does not want, unless it is owed until it is
        taken; one that fences the call off has gone on since.
        """
        if self.mark.abort == ABORT_INSISTED and place.may_be_forgone:
            return True
        if self.mark.heading != "owing" or journal.is_unavailable(error):
            return False
        is_refused = isinstance(error, MooringError) and not isinstance(error, Bug)
        return is_refused and (is_fenced(error) or not place.until_taken)

    def _be_absorbed(self, tx: Session, error: BaseException) -> None:
        """Leave the locks to the heir, and pay first what is owed to other services."""
        mark, told = self.mark, self.work.saga.story or Story()
        mark.error = mark.error or journal.encode_error(error)
        told.absorbed(tx, self.notes, StepRun(self.tools, self.work, mark, mark.step))
        mark.generations, mark.heading = list(self.work.generations.items()), "owing"
        self._stand_at(self.plan().first("owing"))
        if mark.state != "ended":
            self.tools.let_go(tx, mark.id, None)

    def _pause(self) -> None:
        mark = self.mark
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(mark.attempts - 1, 10))
        pause *= self.tools.random.uniform(0.75, 1.25)
        mark.state, mark.wake_at = "parked", self.now + timedelta(seconds=pause)
        mark.spent_s += pause
        mark.stuck = mark.spent_s >= STUCK_AFTER_S

    def _rest(self, tx: Session, place: Place, park: Park) -> None:
        mark = self.mark
        if park.notes is not None:
            self.notes = park.notes
            mark.notes = msgspec.to_builtins(park.notes)
        behind = mark.heading == "forward" and self.plan().is_behind_pivot(place)
        if behind and self._leave_to_heir(tx):
            self._be_absorbed(tx, journal.REPLACED)
            return
        if mark.spent_s > park.timeout_s:
            self._fail(tx, place, Unavailable(f"Waiting in {place.key} took too long.", final=True))
            return
        mark.attempts = max(0, mark.attempts - 1)
        mark.state, mark.waits_for, mark.parked_since = "parked", park.signal, self.now
        mark.wake_at = self.now + timedelta(seconds=min(park.seconds, COUNTED_REST_S))

    def _wait_at_door(self, tx: Session, turn: Turn, result: TurnedAway) -> None:
        """Rest until a host that was not asked may be: no attempt, but a silent one takes time."""
        mark, place, hindrance = self.mark, turn.place, result.hindrance
        mark.attempts = max(0, mark.attempts - 1)
        if hindrance.since is None:
            mark.spent_s -= turn.duration_s
        if mark.heading == "forward" and not self.plan().is_behind_pivot(place):
            if mark.abort or mark.spent_s >= place.deadline_s:
                self._turn_back(place, result.error)
                return
        elif self._is_let_off(place, result.error):
            self._pass(tx, place)
            return
        elif self._leave_to_heir(tx):
            self._be_absorbed(tx, result.error)
            return
        rest_s = HOST_REST_S * self.tools.random.uniform(0.75, 1.25)
        mark.state, mark.wake_at = "parked", self.now + timedelta(seconds=rest_s)
        mark.waits_for = write_hindrance(hindrance)
        mark.parked_since = self.now if hindrance.since else None
        mark.stuck = mark.spent_s >= STUCK_AFTER_S

    def _leave_to_heir(self, tx: Session) -> bool:
        """Leave this one's work to a saga that took its place, if one still waits for it.

        It may have given up waiting since it asked, and then nobody would end what this one began.
        From now on it waits for as long as it takes, also for others that hold locks of its.
        """
        if self.mark.abort < ABORT_PREEMPTED:
            return False
        locks.serialize(tx)
        return any(
            _preempts(journal.load(tx, saga_id)) and journal.bind_heir(tx, saga_id)
            for saga_id in locks.waiting_on(tx, self.mark.id)
        )

    def _lose_the_way(self) -> None:
        """Say that the notes have no place as the bookmark names: an Each changed its items."""
        mark = self.mark
        message = f"Saga {mark.name} has no place {mark.step}:{mark.item} for its notes."
        raise Bug("An internal error occurred.", private=message)


def _has_passed(plan: Plan, place: Place, name: str) -> bool:
    if place.name != name:
        return False
    following = plan.after("forward", place)
    return following is None or following.name != name


def _preempts(heir: Bookmark | None) -> bool:
    saga = REGISTRY.get((heir.name, heir.version)) if heir else None
    return saga is not None and saga.mode == "preempt"
