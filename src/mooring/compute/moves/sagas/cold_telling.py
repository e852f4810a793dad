"""What is told of a move in which the guest is off, and of its end (facts/compute.md 1.8, 12.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.actions.story import Told, begin_next, end_in_vain, send, tell
from mooring.compute.moves.sagas import kept_places
from mooring.compute.scheduling import tried

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.moves.sagas.move_notes import ColdMove
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


PREPARING = "compute_prep_resize"
"""The event of making a move ready."""


def _describe_move(notes: ColdMove) -> Told:
    return Told(
        event=PREPARING,
        host=notes.source,
        before=tried.words(notes.tried),
        stuck=kept_places.WAY_BACK,
    )


def _describe_confirm(notes: ColdMove) -> Told:
    return Told(
        event="compute_confirm_resize",
        host=notes.source,
        notice="resize_confirm",
        says_errors=False,
        stuck=kept_places.WAY_BACK,
    )


def _describe_revert(notes: ColdMove) -> Told:
    return Told(
        event="compute_revert_resize",
        host=notes.source,
        notice="resize_revert",
        says_errors=False,
        stuck=kept_places.WAY_BACK,
    )


_moved = tell(_describe_move, state=kept_places.say_where)
_reverted = tell(_describe_revert, state=kept_places.say_where)


def _prepare(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    _moved.begun(tx, notes, run)
    send(tx, notes, run, "resize_prep.start")


def _prepared(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    begin_next(tx, notes, run, "compute_resize_instance", notes.source)
    send(tx, notes, run, "resize_prep.end", "resize.start")


def _stopped(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    begin_next(tx, notes, run, "compute_finish_resize", notes.destination)
    send(tx, notes, run, "resize.end", "resize_finish.start")


def _end(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    if notes.has_moved:
        _moved.ended(tx, notes, run)
        send(tx, notes, run, "resize_finish.end")
    else:
        end_in_vain(tx, notes, run, _why(notes))
        send(tx, notes, run, "resize.error")


def _end_revert(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    if notes.has_moved:
        _reverted.ended(tx, notes, run)
    else:
        end_in_vain(tx, notes, run, _why(notes))
        send(tx, notes, run, "resize_revert.end")


def _why(notes: ColdMove) -> str:
    """Return why the guest did not go, and what to do where it runs nowhere now."""
    if not notes.lost:
        return notes.reason
    return (
        f"Host {notes.source} was forced down while the guest was off; reboot the server hard once "
        f"that host is up again. {notes.reason}"
    )


MOVED = replace(
    _moved,
    begun=_prepare,
    passed={"begin_switch": _prepared, "begin_start": _stopped},
    ended=_end,
)
CONFIRMED = tell(_describe_confirm, state=kept_places.say_where)
REVERTED = replace(_reverted, ended=_end_revert)
