"""The outbox of one service: what is written into it, read from it and swept out of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct
from sqlalchemy import Table, delete, insert, select, tuple_
from sqlalchemy.orm import Session

from mooring.limits import NOTIFY_KEEP_S
from mooring.notify.tables import OutboxRow
from mooring.row_limits import NOTIFY_ROWS
from mooring.store.base import after_commit

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.clock import Clock

Priority = Literal["INFO", "WARN", "ERROR"]
KEEP = "keep"
"""The target that nobody delivers to: its rows stay for whoever reads them, until swept."""

_rows = cast("Table", OutboxRow.__table__)
_insert = insert(_rows)


class Notification(Struct, frozen=True, kw_only=True):
    """One notification, as its row has it. `payload` is plain data."""

    id: int
    message_id: str
    event_type: str
    publisher: str
    priority: Priority
    payload: Any
    created_at: datetime


class Outbox:
    """Where a service's steps put their notifications; without targets it takes none."""

    def __init__(self, clock: Clock, targets: Sequence[str] = ()) -> None:
        self.clock, self.targets = clock, tuple(dict.fromkeys(targets))
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_on(self) -> bool:
        """Whether anybody wants notifications: ask before a payload is put together."""
        return bool(self.targets)

    def listen(self, listener: Callable[[], None]) -> None:
        """Have `listener` called after each commit that wrote notifications in this process."""
        self._listeners.append(listener)

    def send(
        self,
        tx: Session,
        event_type: str,
        payload: Mapping[str, Any],
        *,
        publisher: str,
        priority: Priority = "INFO",
    ) -> None:
        """Write a notification in the caller's transaction: it is sent if that commits, or never.

        Two notifications of one resource are delivered in order if both transactions had changed a
        row of that resource before they sent.
        """
        if not self.targets:
            return
        common = {
            "message_id": str(uuid.uuid4()),
            "event_type": event_type,
            "publisher": publisher,
            "priority": priority,
            "payload": payload,
            "created_at": self.clock.now(),
        }
        tx.execute(_insert, [{**common, "target": target} for target in self.targets])
        after_commit(tx, self._tell)

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()


def read(tx: Session, target: str = KEEP, limit: int | None = None) -> list[Notification]:
    """Return the notifications that wait for a target, oldest first."""
    wanted = (
        _rows.c.id,
        _rows.c.message_id,
        _rows.c.event_type,
        _rows.c.publisher,
        _rows.c.priority,
        _rows.c.payload,
        _rows.c.created_at,
    )
    query = select(*wanted).where(_rows.c.target == target).order_by(_rows.c.id).limit(limit)
    return [Notification(**row) for row in tx.execute(query).mappings()]


def forget(tx: Session, taken: Sequence[Notification]) -> None:
    """Drop notifications that their target has."""
    # SQLite gives the number of a row that went to a new one, so the number alone is no proof.
    same = tuple_(_rows.c.id, _rows.c.message_id)
    tx.execute(delete(_rows).where(same.in_([(one.id, one.message_id) for one in taken])))


def sweep(tx: Session, now: datetime) -> dict[str, int]:
    """Drop what is too old or beyond the limit; return how many went of each target."""
    oldest = now - timedelta(seconds=NOTIFY_KEEP_S)
    targets = list(tx.execute(select(_rows.c.target).distinct()).scalars())
    return {target: _sweep_target(tx, target, oldest) for target in targets}


def _sweep_target(tx: Session, target: str, oldest: datetime) -> int:
    mine, connection = _rows.c.target == target, tx.connection()
    ids = select(_rows.c.id).where(mine).order_by(_rows.c.id.desc())
    excess = ids.offset(NOTIFY_ROWS).limit(1).scalar_subquery()
    too_old = connection.execute(delete(_rows).where(mine, _rows.c.created_at < oldest))
    too_many = connection.execute(delete(_rows).where(mine, _rows.c.id <= excess))
    return too_old.rowcount + too_many.rowcount
