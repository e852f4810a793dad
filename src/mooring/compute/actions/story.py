"""How what is done to a server is told: instance action and event, fault, notifications.

One story for every saga of compute. The engine tells it (`mooring.saga.define.Story`), so a saga
says what its event and its notifications are called, and its steps say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mooring.compute.actions import actions, faults, notices
from mooring.compute.hosts import guests
from mooring.errors import KINDS, Conflict
from mooring.saga.define import Story

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.errors import MooringError
    from mooring.saga.define import Run


SAYS_ALL: Mapping[str, Any] = {"says_all": True}
"""In the detail of an error that tells itself how the server is then, and what to do."""


class Told(Struct, frozen=True, kw_only=True):
    """What a saga's notes have to say of it; they have `server_id` and `action_id` anyway.

    event        the event of the instance action (facts/compute.md 1.8); empty where it has none
    host         where it happens; None before a host was found
    zone         the zone of that host, where the server may have left it by the end
    notice       the notification without its phase, as "reboot"; empty where upstream has none
    says_errors  whether its failure is told by a notification, too
    members      what its notifications have beside the server, as `volume_id`
    details      what was left undone although it went well, for the event
    before       what went wrong in the rounds before, which its failure tells, too
    stuck        what is told first where the way back was refused, too; `{why}` in it is why
    unawaited    its user was answered before it began, so that a refusal leaves a trace, too
    came_true    what it was for was found to be so though it failed: it is told as gone well
    """

    event: str = ""
    host: str | None = None
    zone: str | None = None
    notice: str = ""
    says_errors: bool = True
    members: dict[str, Any] = {}
    details: str = ""
    before: str = ""
    stuck: str = ""
    unawaited: bool = False
    came_true: bool = False


def _say_nothing(notes: Any, run: Run[Compute]) -> str:
    del notes, run
    return ""


def tell(
    describe: Callable[[Any], Told],
    *,
    state: Callable[[Any, Run[Compute]], str] = _say_nothing,
    from_answer: bool = False,
    begins_after: str = "",
    parts: Mapping[str, str] | None = None,
    leave: Callable[..., None] | None = None,
) -> Story:
    """Return the story of a saga whose notes `describe` looks at.

    Of one that fails `state(notes, run)` says how the server is by now and what to do, which is
    told before all else: a fault's message is cut behind its first words. An error that tells so
    itself (`SAYS_ALL`) stands alone.
    It begins with the first step, or `from_answer`: then what was refused before was answered to
    the user, so its action is forgotten and nothing else is told of it. `begins_after` names the
    step with which it begins where it is another one. `parts` have notifications of their own, by
    the step that ends them: they begin with the whole. `leave(tx, notes, run)` marks the rows of
    one that was absorbed, for whoever took its place.
    """
    teller = _Teller(describe, state, from_answer=from_answer, parts=parts or {})
    passed: dict[str, Callable[..., None]] = {
        step: partial(teller.end_part, name) for step, name in (parts or {}).items()
    }
    begin: dict[str, Any] = {"answered" if from_answer else "begun": teller.begin}
    if begins_after:
        begin, passed[begins_after] = {}, teller.begin

    def absorb(tx: Session, notes: Any, run: Run[Compute]) -> None:
        teller.absorb(tx, notes, run)
        if leave is not None:
            leave(tx, notes, run)

    return Story(passed=passed, ended=teller.end, failed=teller.fail, absorbed=absorb, **begin)


def send(tx: Session, notes: Any, run: Run[Compute], *events: str) -> None:
    """Send notifications of a story that has more of them than one."""
    for event in events:
        notices.send(tx, run.service, notes.server_id, event, action_id=notes.action_id)


def begin_next(tx: Session, notes: Any, run: Run[Compute], event: str, host: str) -> None:
    """Close an event that went well, and open the next one of the same action."""
    actions.succeed(tx, notes.action_id, run.now())
    actions.begin_event(tx, notes.action_id, event, run.now(), host=host)


def begin_anew(tx: Session, notes: Any, run: Run[Compute], event: str, host: str) -> None:
    """Close an event that ended badly, and open another one of its name."""
    actions.fail_events(tx, notes.action_id, run.error, run.now())
    actions.begin_event(tx, notes.action_id, event, run.now(), host=host)


def end_in_vain(tx: Session, notes: Any, run: Run[Compute], reason: str) -> None:
    """Tell why the server is as it was, and well: what its user asked for came to nothing."""
    why = Conflict(reason)
    faults.record(tx, notes.server_id, why, run.now())
    actions.fail(tx, notes.action_id, why, run.now())


def tell_of_round(describe: Callable[[Any], Told]) -> Callable[..., None]:
    """Return what is told of a round that failed, where a saga begins again."""
    return _Teller(describe, _say_nothing, from_answer=False, parts={}).fail_round


class _Teller:
    """The chapters. What a saga of ours notes is told of by its saga alone, so notes are `Any`."""

    def __init__(
        self,
        describe: Callable[[Any], Told],
        state: Callable[[Any, Run[Compute]], str],
        *,
        from_answer: bool,
        parts: Mapping[str, str],
    ) -> None:
        self._describe, self._state = describe, state
        self._from_answer, self._parts = from_answer, parts

    def begin(self, tx: Session, notes: Any, run: Run[Compute]) -> None:
        """Open the event, and say that it starts."""
        told = self._describe(notes)
        if told.event:
            actions.begin_event(tx, notes.action_id, told.event, run.now(), host=told.host)
        self._notify(tx, notes, run, "start")
        for name in self._parts.values():
            self._send(tx, notes, run, f"{name}.start")

    def end_part(self, name: str, tx: Session, notes: Any, run: Run[Compute]) -> None:
        """Say that a part of it is done."""
        self._send(tx, notes, run, f"{name}.end")

    def end(self, tx: Session, notes: Any, run: Run[Compute]) -> None:
        """Close the event, and say that it is done."""
        details = self._describe(notes).details or None
        actions.succeed(tx, notes.action_id, run.now(), details=details)
        self._notify(tx, notes, run, "end")

    def fail(self, tx: Session, notes: Any, run: Run[Compute]) -> None:
        """Leave a fault with the server and close the event; what never began is not notified."""
        is_refused, told = self._from_answer and not run.answered, self._describe(notes)
        if is_refused and not told.unawaited:
            actions.forget(tx, notes.action_id)
            return
        if told.came_true:
            self.end(tx, notes, run)
            return
        before = told.before
        if told.stuck and run.undo_error is not None:
            before = told.stuck.format(why=run.undo_error.public)
        # What was refused on the way back it did not know of.
        says_all = run.error and run.error.detail.keys() >= SAYS_ALL.keys() and not run.undo_error
        state = "" if says_all else self._state(notes, run)
        why = _after(f"{state} {before}".strip(), run.error)
        faults.record(tx, notes.server_id, why, run.now())
        actions.fail(tx, notes.action_id, why, run.now())
        if run.begun and told.says_errors:
            self._notify(tx, notes, run, "error")

    def fail_round(self, tx: Session, notes: Any, run: Run[Compute]) -> None:
        """Close the event and say what went wrong: another one begins, of the same action."""
        actions.fail_events(tx, notes.action_id, run.error, run.now())
        if self._describe(notes).says_errors:
            self._notify(tx, notes, run, "error")

    def absorb(self, tx: Session, notes: Any, run: Run[Compute]) -> None:
        """Close the event: nobody else does."""
        taken = Conflict("Another operation took its place.")
        actions.fail(tx, notes.action_id, taken, run.now())

    def _notify(self, tx: Session, notes: Any, run: Run[Compute], phase: str) -> None:
        told = self._describe(notes)
        if not told.notice:
            return
        if phase == "error" and not told.host:
            notices.send_build_failure(tx, run.service, notes.server_id, run.error)
        else:
            self._send(tx, notes, run, f"{told.notice}.{phase}")

    def _send(self, tx: Session, notes: Any, run: Run[Compute], event: str) -> None:
        told = self._describe(notes)
        notices.send(
            tx,
            run.service,
            notes.server_id,
            event,
            action_id=notes.action_id,
            place=(told.host, told.zone) if told.zone else None,
            error=run.error,
            **told.members,
        )


def _after(before: str, error: MooringError | None) -> MooringError | None:
    """Return an error that tells what went wrong before it, too."""
    if error is None or not before:
        return error
    host = error.detail.get(guests.BY_HOST)
    last = f"On {host} it failed: {error.public}" if host else error.public
    return KINDS[error.kind](f"{before} {last}", private=error.private)
