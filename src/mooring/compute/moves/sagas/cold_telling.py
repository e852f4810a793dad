"""What is told of a move in which the guest is off, and of its end (facts/compute.md 1.8, 12.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.actions import actions, faults, notices
from mooring.compute.actions.story import Told, tell
from mooring.compute.scheduling import tried
from mooring.errors import Conflict

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.moves.sagas.move_notes import ColdMove
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


PREPARING = "compute_prep_resize"
"""The event of making a move ready."""


def _describe_move(notes: ColdMove) -> Told:
    return Told(event=PREPARING, host=notes.source, before=tried.words(notes.tried))


def _describe_confirm(notes: ColdMove) -> Told:
    return Told(
        event="compute_confirm_resize",
        host=notes.source,
        notice="resize_confirm",
        says_errors=False,
    )


def _describe_revert(notes: ColdMove) -> Told:
    return Told(
        event="compute_revert_resize",
        host=notes.source,
        notice="resize_revert",
        says_errors=False,
    )


_moved, _reverted = tell(_describe_move), tell(_describe_revert)


def _prepare(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    _moved.begun(tx, notes, run)
    _send(tx, notes, run, "resize_prep.start")


def _prepared(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    _next(tx, notes, run, "compute_resize_instance", notes.source)
    _send(tx, notes, run, "resize_prep.end", "resize.start")


def _stopped(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    _next(tx, notes, run, "compute_finish_resize", notes.destination)
    _send(tx, notes, run, "resize.end", "resize_finish.start")


def _end(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    if notes.has_moved:
        _moved.ended(tx, notes, run)
        _send(tx, notes, run, "resize_finish.end")
    else:
        _stay(tx, notes, run)
        _send(tx, notes, run, "resize.error")


def _end_revert(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    if notes.has_moved:
        _reverted.ended(tx, notes, run)
    else:
        _stay(tx, notes, run)
        _send(tx, notes, run, "resize_revert.end")


def _stay(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    """Tell why the server is where it was, and well: what its user asked for came to nothing."""
    stayed = Conflict(notes.reason)
    faults.record(tx, notes.server_id, stayed, run.now())
    actions.fail(tx, notes.action_id, stayed, run.now())


def _next(tx: Session, notes: ColdMove, run: Run[Compute], event: str, host: str) -> None:
    actions.succeed(tx, notes.action_id, run.now())
    actions.begin_event(tx, notes.action_id, event, run.now(), host=host)


def _send(tx: Session, notes: ColdMove, run: Run[Compute], *events: str) -> None:
    for event in events:
        notices.send(tx, run.service, notes.server_id, event, action_id=notes.action_id)


MOVED = replace(
    _moved,
    begun=_prepare,
    passed={"begin_switch": _prepared, "begin_start": _stopped},
    ended=_end,
)
CONFIRMED = tell(_describe_confirm)
REVERTED = replace(_reverted, ended=_end_revert)
