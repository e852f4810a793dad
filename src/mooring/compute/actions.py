"""Instance actions: what was done to a server, by whom, and how it went (facts/compute.md 1.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, select, update

from mooring.compute.tables import InstanceAction, InstanceActionEvent
from mooring.errors import Conflict
from mooring.saga import journal

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.errors import MooringError
    from mooring.who import Who

SUCCESS, ERROR = "Success", "Error"


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
    row = InstanceAction(
        server_id=server_id,
        action=action,
        request_id=who.request_id,
        user_id=who.user_id,
        project_id=who.project_id,
        saga_id=saga_id,
        started_at=now,
        updated_at=now,
    )
    tx.add(row)
    tx.flush()
    for event in events:
        begin_event(tx, row.id, event, now, host=host)
    return row.id


def begin_event(
    tx: Session, action_id: int, event: str, now: datetime, *, host: str | None = None
) -> None:
    """Record that a part of an action starts; nothing when it is recorded already."""
    same = (InstanceActionEvent.action_id == action_id, InstanceActionEvent.event == event)
    if tx.execute(select(InstanceActionEvent.id).where(*same)).first() is None:
        tx.add(InstanceActionEvent(action_id=action_id, event=event, host=host, started_at=now))
        tx.flush()


def succeed(tx: Session, action_id: int, now: datetime, *, details: str | None = None) -> None:
    """End every open event of an action well; `details` tell what was left undone all the same."""
    _end_events(tx, action_id, {"finished_at": now, "result": SUCCESS, "details": details})
    tx.execute(_row(action_id).values(updated_at=now))


def fail(tx: Session, action_id: int, error: MooringError | None, now: datetime) -> None:
    """End every open event of an action badly, and say so on the action."""
    values = {
        "finished_at": now,
        "result": ERROR,
        "details": error.public if error else None,
        "traceback": error.private or None if error else None,
    }
    _end_events(tx, action_id, values)
    tx.execute(_row(action_id).values(updated_at=now, message=ERROR))


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
) -> None:
    """Record an action that needed no more than this transaction."""
    succeed(tx, begin(tx, server_id, action, who, now, events=(event,)), now)


def forget(tx: Session, action_id: int) -> None:
    """Remove an action whose request was refused after all."""
    tx.execute(delete(InstanceActionEvent).where(InstanceActionEvent.action_id == action_id))
    tx.execute(delete(InstanceAction).where(InstanceAction.id == action_id))


def _row(action_id: int):  # noqa: ANN202  (SQLAlchemy's own type says nothing more)
    return update(InstanceAction).where(InstanceAction.id == action_id)


def _end_events(tx: Session, action_id: int, values: Mapping[str, Any]) -> None:
    still_open = update(InstanceActionEvent).where(
        InstanceActionEvent.action_id == action_id, InstanceActionEvent.finished_at.is_(None)
    )
    tx.execute(still_open.values(**values))
