"""How what is done to a server is told: instance action and event, fault, notifications.

One story for every saga of compute. The engine tells it (`mooring.saga.define.Story`), so a saga
says what its event and its notifications are called, and its steps say nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mooring.compute.actions import actions, faults, notices
from mooring.errors import Conflict
from mooring.saga.define import Story

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.saga.define import Run


class Told(Struct, frozen=True, kw_only=True):
    """What a saga's notes have to say of it; they have `server_id` and `action_id` anyway.

    event        the event of the instance action (facts/compute.md 1.8); empty where it has none
    host         where it happens
    notice       the notification without its phase, as "reboot"; empty where upstream has none
    says_errors  whether its failure is told by a notification, too
    members      what its notifications have beside the server, as `volume_id`
    unawaited    its user was answered before it began, so that a refusal leaves a trace, too
    """

    event: str = ""
    host: str | None = None
    notice: str = ""
    says_errors: bool = True
    members: dict[str, Any] = {}
    unawaited: bool = False


def tell(
    describe: Callable[[Any], Told],
    *,
    from_answer: bool = False,
    leave: Callable[..., None] | None = None,
) -> Story:
    """Return the story of a saga whose notes `describe` looks at.

    It begins with the first step, or `from_answer`: then what was refused before was answered to
    the user, so its action is forgotten and nothing else is told of it. `leave(tx, notes, run)`
    marks the rows of one that was absorbed, for whoever took its place.
    """
    teller = _Teller(describe, from_answer=from_answer)
    begin = {"answered": teller.begin} if from_answer else {"begun": teller.begin}

    def absorb(tx: Session, notes: Any, run: Run[Compute]) -> None:
        teller.absorb(tx, notes, run)
        if leave is not None:
            leave(tx, notes, run)

    return Story(ended=teller.end, failed=teller.fail, absorbed=absorb, **begin)


class _Teller:
    """The chapters. What a saga of ours notes is told of by its saga alone, so notes are `Any`."""

    def __init__(self, describe: Callable[[Any], Told], *, from_answer: bool) -> None:
        self._describe, self._from_answer = describe, from_answer

    def begin(self, tx: Session, notes: Any, run: Run[Compute]) -> None:
        """Open the event, and say that it starts."""
        told = self._describe(notes)
        if told.event:
            actions.begin_event(tx, notes.action_id, told.event, run.now(), host=told.host)
        self._notify(tx, notes, run, "start")

    def end(self, tx: Session, notes: Any, run: Run[Compute]) -> None:
        """Close the event, and say that it is done."""
        actions.succeed(tx, notes.action_id, run.now())
        self._notify(tx, notes, run, "end")

    def fail(self, tx: Session, notes: Any, run: Run[Compute]) -> None:
        """Leave a fault with the server and close the event; what never began is not notified."""
        is_refused = self._from_answer and not run.answered
        if is_refused and not self._describe(notes).unawaited:
            actions.forget(tx, notes.action_id)
            return
        faults.record(tx, notes.server_id, run.error, run.now())
        actions.fail(tx, notes.action_id, run.error, run.now())
        if run.begun and self._describe(notes).says_errors:
            self._notify(tx, notes, run, "error")

    def absorb(self, tx: Session, notes: Any, run: Run[Compute]) -> None:
        """Close the event: nobody else does."""
        taken = Conflict("Another operation took its place.")
        actions.fail(tx, notes.action_id, taken, run.now())

    def _notify(self, tx: Session, notes: Any, run: Run[Compute], phase: str) -> None:
        told = self._describe(notes)
        if told.notice:
            notices.send(
                tx,
                run.service,
                notes.server_id,
                f"{told.notice}.{phase}",
                action_id=notes.action_id,
                error=run.error,
                **told.members,
            )
