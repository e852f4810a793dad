"""Instance actions: what was done to a server, by whom, and how it went (facts/compute.md 1.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Table, bindparam, delete, insert, select, update

from mooring.compute.tables import InstanceAction, InstanceActionEvent
from mooring.errors import Conflict
from mooring.saga import journal
from mooring.store.prepared import Change, Prepared

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.errors import MooringError
    from mooring.who import Who

SUCCESS, ERROR = "Success", "Error"
_actions = cast("Table", InstanceAction.__table__)
_events = cast("Table", InstanceActionEvent.__table__)
_add = Prepared(insert(_actions).returning(_actions.c.id), int)
_change = Change(InstanceAction)
_end_open = Prepared(
    update(_events).where(
        _events.c.action_id == bindparam("of_action"), _events.c.finished_at.is_(None)
    )
)
_find_event = Prepared(
    select(_events.c.id).where(
        _events.c.action_id == bindparam("of_action"),
        _events.c.event == bindparam("of_event"),
        _events.c.finished_at.is_(None),
    ),
    int,
)
_add_event = Prepared(insert(_events).inline())


def begin(
    tx: Session,
    server_id: str,
    action: str,
    who: Who,
    now: datetime,
    *,
    saga_id: str | None = None,
    events: Sequence[str] = (),
    host: str | None = None,
) -> int:
    """Record an action with the events that start at once; return its id."""
    tx.flush()
    [action_id] = _add.all(
        tx,
        server_id=server_id,
        action=action,
        request_id=who.request_id,
        user_id=who.user_id,
        project_id=who.project_id,
        saga_id=saga_id,
        started_at=now,
        updated_at=now,
    )
    for event in events:
        begin_event(tx, action_id, event, now, host=host)
    return action_id


def begin_event(
    tx: Session, action_id: int, event: str, now: datetime, *, host: str | None = None
) -> None:
    """Record that a part of an action starts; nothing while it goes on already."""
    if _find_event.first(tx, of_action=action_id, of_event=event) is None:
        begun = {"action_id": action_id, "event": event, "host": host, "started_at": now}
        _add_event.run(tx, begun)


def succeed(tx: Session, action_id: int, now: datetime, *, details: str | None = None) -> None:
    """End every open event of an action well; `details` tell what was left undone all the same."""
    _end_events(tx, action_id, {"finished_at": now, "result": SUCCESS, "details": details})
    _change(tx, action_id, {"updated_at": now})


def fail(tx: Session, action_id: int, error: MooringError | None, now: datetime) -> None:
    """End every open event of an action badly, and say so on the action."""
    fail_events(tx, action_id, error, now)
    _change(tx, action_id, {"updated_at": now, "message": ERROR})


def fail_events(tx: Session, action_id: int, error: MooringError | None, now: datetime) -> None:
    """End every open event of an action badly, and go on with the action."""
    values = {
        "finished_at": now,
        "result": ERROR,
        "details": error.public if error else None,
        "traceback": error.private or None if error else None,
    }
    _end_events(tx, action_id, values)


def fail_left(tx: Session, server_id: str, now: datetime) -> None:
    """End badly what sagas of a server began that were absorbed: nobody else ends it.

    For sagas that pre-empt others.
    """
    left = (
        select(InstanceAction.id, InstanceAction.saga_id)
        .join(InstanceActionEvent, InstanceActionEvent.action_id == InstanceAction.id)
        .where(InstanceAction.server_id == server_id, InstanceActionEvent.finished_at.is_(None))
        .distinct()
    )
    for action_id, saga_id in tx.execute(left).all():
        mark = journal.load(tx, saga_id) if saga_id else None
        if mark is not None and mark.outcome == "absorbed":
            fail(tx, action_id, Conflict("Another operation took its place."), now)


def record_done(
    tx: Session, server_id: str, action: str, who: Who, now: datetime, *, event: str
) -> int:
    """Record an action that needed no more than this transaction; return its id."""
    action_id = begin(tx, server_id, action, who, now, events=(event,))
    succeed(tx, action_id, now)
    return action_id


def forget(tx: Session, action_id: int) -> None:
    """Remove an action whose request was refused after all."""
    tx.execute(delete(InstanceActionEvent).where(InstanceActionEvent.action_id == action_id))
    tx.execute(delete(InstanceAction).where(InstanceAction.id == action_id))


def _end_events(tx: Session, action_id: int, values: Mapping[str, Any]) -> None:
    _end_open.run(tx, {**values, "of_action": action_id})
