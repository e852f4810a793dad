"""The records of moves: what is written of one, and what it may be asked while it lasts.

Source: facts/compute.md 1.9. A record outlives its server.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, func, or_, select

from mooring.compute.tables import Migration
from mooring.store.loaded import ById, Loaded
from mooring.store.prepared import Change

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.moves import Progress
    from mooring.compute.tables import Server
    from mooring.who import Who

LIVE = "live-migration"
UNDER_WAY = frozenset({"queued", "preparing", "running", "post-migrating"})
"""Statuses in which the server's own list shows a move."""
_UNFINISHED = UNDER_WAY | {"accepted"}
ABORT, FORCE_COMPLETE = "abort", "force_complete"
"""What may be asked of one that lasts."""

_change = Change(Migration)
_by_id = ById(Migration)
_of_server = Loaded(
    Migration,
    lambda columns: columns.server_id == bindparam("of_server"),
    order_by=lambda columns: [columns.id],
)


def add(
    tx: Session, server: Server, source: str, who: Who, now: datetime, *, uuid: str, saga_id: str
) -> Migration:
    """Write down that a server is to move, running all the time."""
    row = Migration(
        uuid=uuid,
        server_id=server.id,
        saga_id=saga_id,
        type=LIVE,
        status="accepted",
        source=source,
        old_flavor_id=server.flavor_id,
        new_flavor_id=server.flavor_id,
        user_id=who.user_id,
        project_id=server.project_id,
        created_at=now,
        updated_at=now,
    )
    tx.add(row)
    tx.flush()
    return row


def change(tx: Session, migration_id: int, now: datetime, **values: Any) -> None:
    """Change columns of a record."""
    _change(tx, migration_id, {**values, "updated_at": now})


def note_progress(tx: Session, migration_id: int, progress: Progress, now: datetime) -> None:
    """Write down how far the guest is on its way."""
    values = {name: getattr(progress, name) for name in progress.__struct_fields__}
    change(tx, migration_id, now, **values)


def find(tx: Session, migration_id: int) -> Migration | None:
    """Return a record."""
    return _by_id.find(tx, migration_id)


def of_server(tx: Session, server_id: str) -> list[Migration]:
    """Return every move of a server, oldest first."""
    return _of_server.all(tx, of_server=server_id)


def left_over(tx: Session, server_id: str) -> Migration | None:
    """Return a move of a server that nobody ends any more, for whoever took the server over."""
    return next((row for row in of_server(tx, server_id) if row.status in _UNFINISHED), None)


def hosts_left_over(tx: Session, server_id: str) -> set[str]:
    """Return both hosts of a move that nobody ends any more, if there is one."""
    left = left_over(tx, server_id)
    return {left.source, left.destination or ""} if left else set()


def end_left_over(tx: Session, server_id: str, now: datetime) -> set[str]:
    """Say that a move which nobody ends any more has failed; return its hosts, if there is one."""
    left = left_over(tx, server_id)
    if left is not None:
        change(tx, left.id, now, status="error")
    return {left.source, left.destination or ""} if left else set()


def count_at(tx: Session, host: str) -> int:
    """Return how many moves that last come from a host or go to it."""
    tx.flush()
    either = or_(Migration.source == host, Migration.destination == host)
    wanted = select(func.count()).select_from(Migration)
    return tx.execute(wanted.where(either, Migration.status.in_(_UNFINISHED))).scalar_one()


def signal_of(migration_id: int) -> str:
    """Return the name of the signal that something is asked of a move."""
    return f"migration:{migration_id}"
