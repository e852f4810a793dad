"""What is told of a move while it lasts, and how it went (facts/compute.md 1.8, 12.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.actions.story import Told, end_in_vain, send, tell
from mooring.compute.moves.sagas import kept_places
from mooring.compute.scheduling import tried

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.moves.sagas.move_notes import LiveMigrate
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


EVENT = "compute_live_migration"


def _describe(notes: LiveMigrate) -> Told:
    return Told(
        event=EVENT,
        host=notes.source,
        before=tried.words(notes.tried),
        stuck=kept_places.WAY_BACK,
    )


_told = tell(_describe, state=kept_places.say_where)


def _begin(tx: Session, notes: LiveMigrate, run: Run[Compute]) -> None:
    _told.begun(tx, notes, run)
    send(tx, notes, run, "live_migration_pre.start")


def _made_ready(tx: Session, notes: LiveMigrate, run: Run[Compute]) -> None:
    send(tx, notes, run, "live_migration_pre.end")


def _placed(tx: Session, notes: LiveMigrate, run: Run[Compute]) -> None:
    send(tx, notes, run, f"{_outcome(notes)}.start")


def _end(tx: Session, notes: LiveMigrate, run: Run[Compute]) -> None:
    send(tx, notes, run, f"{_outcome(notes)}.end")
    if notes.has_moved:
        _told.ended(tx, notes, run)
        return
    end_in_vain(tx, notes, run, notes.reason)


def _outcome(notes: LiveMigrate) -> str:
    return "live_migration_post" if notes.has_moved else "live_migration_rollback"


STORY = replace(
    _told,
    begun=_begin,
    passed={"begin_sending": _made_ready, "place_server": _placed},
    ended=_end,
)
