"""Sagas that another one starts and waits for."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid5

from msgspec import Struct
from sqlalchemy.orm import Session

from mooring.errors import MooringError, from_record
from mooring.saga import journal
from mooring.saga.define import Child, Park, Saga
from mooring.saga.journal import Bookmark
from mooring.saga.turn import Done, Failed, Rested, Result, Tools
from mooring.store.base import savepoint


def drive(
    tx: Session, tools: Tools[Any], mark: Bookmark, child: Child, notes: Any, *, key: str
) -> Result:
    """Start the child where its parent stands, or see how it goes; going back, end or undo it.

    `key`: what its place is called in the parent's round.
    """
    child_id = child_saga_id(mark.id, key)
    if mark.heading != "back":
        return _await(tx, tools, mark, child_id, (child.saga, child.notes(notes)))
    made = journal.load(tx, child_id)
    if made is not None and made.state != "ended":
        tools.abort_child(tx, child_id)
        return Rested(_until_ended(child_id))
    if made is None or made.outcome != "done" or child.undo is None:
        return Done()
    undo_id = child_saga_id(mark.id, f"{key}/undo")
    return _await(tx, tools, mark, undo_id, (child.undo[0], child.undo[1](notes)))


def _await(
    tx: Session, tools: Tools[Any], parent: Bookmark, child_id: str, what: tuple[Saga[Any], Struct]
) -> Result:
    made = journal.load(tx, child_id)
    if made is None:
        try:
            with savepoint(tx):
                tools.start_child(tx, *what, child_id, parent)
        except MooringError as error:
            return Failed(error)
    if made is None or made.state != "ended":
        return Rested(_until_ended(child_id))
    return Done() if made.outcome == "done" else Failed(from_record(made.error or {}))


def child_saga_id(parent_id: str, place_key: str) -> str:
    """Return the id that a parent's child at one place always has."""
    return str(uuid5(UUID(parent_id), place_key))


def _until_ended(saga_id: str) -> Park:
    return Park(signal=ended_signal(saga_id), seconds=60.0, timeout_s=86400.0)


def ended_signal(saga_id: str) -> str:
    """Return the name of the signal that the end of a child gives."""
    return f"saga-ended:{saga_id}"
