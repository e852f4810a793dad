"""The journal: bookmarks read and written, each save guarded by the epoch of the one who saves."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, CursorResult, Table, bindparam, delete, insert, select, update
from sqlalchemy.orm import Session

from mooring.errors import Conflict, MooringError, to_record
from mooring.saga.define import Heading
from mooring.saga.tables import HistoryRow, SagaRow, SignalRow
from mooring.store.prepared import Prepared
from mooring.store.turns import take_turn

_sagas = cast("Table", SagaRow.__table__)
_history = cast("Table", HistoryRow.__table__)
_signals = cast("Table", SignalRow.__table__)

ABORT_ASKED = 1
ABORT_PREEMPTED = 2
ABORT_INSISTED = 3


ABORTED = Conflict("The operation was aborted.")
REPLACED = Conflict("Another operation took its place, such as a deletion or a reset.")
"""Why a saga unwinds that was asked to, and one that another saga pre-empted."""


def why_ended_early(abort: int) -> Conflict:
    """Return why a saga unwinds of which this was asked."""
    return REPLACED if abort == ABORT_PREEMPTED else ABORTED


class LostLeaseError(Exception):
    """Somebody else owns this saga now. Stop at once; undo nothing, save nothing."""


class Bookmark(Struct):
    """A saga as its runner holds it in memory; the columns of `SagaRow` that a runner needs."""

    id: str
    name: str
    version: int
    state: str
    step: str
    item: str
    notes: Any
    owner: str
    wake_at: datetime | None
    sealed_who: bytes | None
    project_id: str
    request_id: str
    parent_id: str
    heading: Heading = "forward"
    error: Any = None
    undo_error: Any = None
    generations: list[tuple[str, int]] | None = None
    epoch: int = 1
    waits_for: str = ""
    parked_since: datetime | None = None
    attempts: int = 0
    spent_s: float = 0.0
    stuck: bool = False
    abort: int = 0
    round: int = 1
    begun: bool = False
    answered: bool = False
    visible: bool = False
    outcome: str = ""


_LOADED = Bookmark.__struct_fields__
_SAVED = (
    *("state", "heading", "step", "item", "notes", "error", "wake_at", "waits_for", "parked_since"),
    *("attempts", "spent_s", "stuck", "begun", "answered", "visible", "outcome"),
    *("undo_error", "generations", "round"),
)
_add = insert(_sagas).inline()
_wake = Prepared(
    update(_sagas)
    .where(_sagas.c.waits_for == bindparam("of_name"), _sagas.c.state == "parked")
    .returning(_sagas.c.id),
    str,
)
_add_with_time = Prepared(_add)
_load = Prepared(
    select(*(_sagas.c[name] for name in _LOADED)).where(_sagas.c.id == bindparam("of_id")),
    lambda *values: Bookmark(**dict(zip(_LOADED, values, strict=True))),
)
_save = Prepared(
    update(_sagas)
    .where(_sagas.c.id == bindparam("of_id"), _sagas.c.epoch == bindparam("of_epoch"))
    .returning(_sagas.c.abort),
    int,
)
_add_history = Prepared(insert(_history).inline())
_take_signal = Prepared(
    delete(_signals).where(_signals.c.name == bindparam("of_name")).returning(_signals.c.id), int
)


def add(
    tx: Session, mark: Bookmark, now: datetime, lease_until: datetime | ColumnElement[datetime]
) -> None:
    """Write down a new saga, whose lease ends at a time or at what the database reckons."""
    row = {name: getattr(mark, name) for name in _LOADED}
    row |= {"progress": 0, "created_at": now, "updated_at": now}
    # Only a value can be a parameter: what the database reckons is part of the statement.
    if isinstance(lease_until, datetime):
        _add_with_time.run(tx, {**row, "lease_until": lease_until})
    else:
        tx.execute(_add.values(lease_until=lease_until), row)


def load(tx: Session, saga_id: str) -> Bookmark | None:
    """Return the bookmark of a saga, or None when it was swept."""
    return _load.first(tx, of_id=saga_id)


def save(tx: Session, mark: Bookmark, now: datetime) -> None:
    """Write the bookmark. Raises LostLeaseError when the saga has another owner by now.

    The abort flag is not written but read: it belongs to those who ask, not to the runner.
    """
    values = {name: getattr(mark, name) for name in _SAVED} | {"updated_at": now}
    if mark.state == "ended":
        values |= {"ended_at": now, "sealed_who": None}
    abort = _save.first(tx, **values, of_id=mark.id, of_epoch=mark.epoch)
    if abort is None:
        raise LostLeaseError(mark.id)
    mark.abort = abort


def bind_heir(tx: Session, saga_id: str) -> bool:
    """Let a saga wait for its locks without end; False when it was to give up and owes nobody."""
    free = (_sagas.c.abort == 0) | _sagas.c.wake_at.is_(None)
    mine = update(_sagas).where(_sagas.c.id == saga_id, _sagas.c.state == "locked", free)
    return tx.execute(mine.values(wake_at=None).returning(_sagas.c.id)).first() is not None


def note_progress(tx: Session, mark: Bookmark, percent: int) -> None:
    """Write how far the present step is. Raises LostLeaseError as `save` does."""
    mine = update(_sagas).where(_sagas.c.id == mark.id, _sagas.c.epoch == mark.epoch)
    result = cast("CursorResult[Any]", tx.execute(mine.values(progress=percent)))
    if result.rowcount == 0:
        raise LostLeaseError(mark.id)


def add_history(
    tx: Session,
    mark: Bookmark,
    place: tuple[str, str],
    result: str,
    *,
    started_at: datetime,
    duration_s: float,
    error: BaseException | None = None,
) -> None:
    """Add one attempt to the timeline."""
    line: dict[str, Any] = {
        "saga_id": mark.id,
        "step": place[0],
        "item": place[1],
        "heading": mark.heading,
        "attempt": mark.attempts,
        "result": result,
        "error": None if error is None else to_record(error),
        "epoch": mark.epoch,
        "started_at": started_at,
        "duration_ms": round(duration_s * 1000),
    }
    _add_history.run(tx, line)


def take_signal(tx: Session, name: str) -> bool:
    """Take every signal of this name that waits; return whether there was one."""
    _meet(tx, name)
    return bool(_take_signal.all(tx, of_name=name))


def has_signal(tx: Session, name: str) -> bool:
    """Return whether a signal of this name waits, and leave it there."""
    return tx.execute(select(_signals.c.id).where(_signals.c.name == name)).first() is not None


def give_signal(tx: Session, name: str, payload: Any, now: datetime) -> list[str]:
    """Wake the sagas that wait for this name and return their ids; with none, keep the signal."""
    _meet(tx, name)
    found = _wake.all(tx, of_name=name, state="ready", waits_for="", wake_at=None)
    if not found:
        tx.execute(insert(_signals).values(name=name, payload=payload, created_at=now))
    return found


def _meet(tx: Session, name: str) -> None:
    """Let nobody else give a signal, or look whether it was given, until this transaction ends.

    On PostgreSQL who gives it would not see who just lies down to wait for it, nor be seen: the
    signal would be kept, and whom it is for would sleep.
    """
    take_turn(tx, f"signal.{name}")


def word_for(saga_id: str) -> str:
    """Return the name of the signal that another service gives when it did what a saga asked."""
    return f"word:{saga_id}"


def encode_error(error: BaseException) -> dict[str, Any]:
    """Return an error as the bookmark keeps it."""
    return cast("dict[str, Any]", msgspec.to_builtins(to_record(error), enc_hook=str))


def is_unavailable(error: BaseException) -> bool:
    """Whether asking again may help. An error with the detail `final` says that it will not."""
    return (
        isinstance(error, MooringError)
        and not error.detail.get("final")
        and (error.kind == "unavailable" or bool(error.detail.get("busy")))
    )
