"""The records of moves: what is written of one, and what it may be asked while it lasts.

Source: facts/compute.md 1.9. A record outlives its server.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from sqlalchemy import ColumnElement, and_, bindparam, func, or_, select

from mooring.compute.flavors import sizes
from mooring.compute.flavors.sizes import Size
from mooring.compute.tables import Migration
from mooring.store.loaded import ById, Loaded
from mooring.store.prepared import Change, Prepared

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy.orm import Session

    from mooring.agent_api.moves import Progress
    from mooring.compute.tables import Server
    from mooring.who import Who

LIVE, COLD, RESIZE = "live-migration", "migration", "resize"
EVACUATION = "evacuation"
FINISHED = "finished"
"""The status of a cold move that its user has not confirmed or reverted yet."""
UNDER_WAY = frozenset({"queued", "preparing", "running", "post-migrating"})
"""Statuses in which the server's own list shows a move."""
DONE = "done"
"""The status of an evacuation whose old host still owes what is left there."""
_COLD = frozenset({"pre-migrating", "migrating", FINISHED, "confirming", "reverting"})
_UNFINISHED = UNDER_WAY | _COLD | {"accepted"}
_COMING = UNDER_WAY | {"accepted", "pre-migrating", "migrating"}
LEAVING = _COMING | {FINISHED, "confirming"}
"""Statuses of a move, to be confirmed by who began it, whose server is to leave a host for good."""
ABORT, FORCE_COMPLETE = "abort", "force_complete"
"""What may be asked of one that lasts."""

_change = Change(Migration)
_by_id = ById(Migration)
_done = Prepared(
    select(Migration.id, Migration.source).where(
        Migration.status == DONE, Migration.type == EVACUATION
    )
)
_of_server = Loaded(
    Migration,
    lambda columns: columns.server_id == bindparam("of_server"),
    order_by=lambda columns: [columns.id],
)


class New(Struct, frozen=True, kw_only=True):
    """A move that begins: what is not the same for each kind of them."""

    uuid: str
    saga_id: str
    type: str = LIVE
    status: str = "accepted"
    size: Size | None = None
    """The size that the server is to have, where a move can be reverted."""


def add(tx: Session, server: Server, who: Who, now: datetime, new: New) -> Migration:
    """Write down that a server is to move from where it is."""
    old = sizes.of_server(server)
    row = Migration(
        uuid=new.uuid,
        server_id=server.id,
        saga_id=new.saga_id,
        type=new.type,
        status=new.status,
        source=server.host,
        old_flavor_id=server.flavor_id,
        new_flavor_id=new.size.flavor_id if new.size else server.flavor_id,
        old_size=old.columns() if new.size else None,
        old_vm_state=server.vm_state,
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


def unfinished() -> ColumnElement[bool]:
    """Return the condition that a move has not ended, for who reads many."""
    return Migration.status.in_(_UNFINISHED)


def ended_without_word(status: str) -> str:
    """Return how a move ends whose server was taken over in this status.

    One that its user would have confirmed or reverted counts as confirmed.
    """
    return "confirmed" if status in {FINISHED, "confirming"} else "error"


def to_verify(tx: Session, server_id: str) -> Migration | None:
    """Return the move of a server that is to be confirmed or reverted."""
    return next((row for row in of_server(tx, server_id) if row.status == FINISHED), None)


def waiting_since(tx: Session, since: datetime) -> Sequence[Migration]:
    """Return the moves that wait for their users' word since then, or longer; the oldest first."""
    waiting = Migration.status == FINISHED, Migration.updated_at <= since
    return tx.execute(select(Migration).where(*waiting).order_by(Migration.id)).scalars().all()


def to_confirm(tx: Session) -> Sequence[Migration]:
    """Return the moves by drains that nobody has confirmed or reverted yet, the oldest first."""
    waiting = Migration.status == FINISHED, Migration.by_drain
    return tx.execute(select(Migration).where(*waiting).order_by(Migration.id)).scalars().all()


def count_at(tx: Session, host: str) -> int:
    """Return how many moves that last come from a host or go to it."""
    tx.flush()
    either = or_(Migration.source == host, Migration.destination == host)
    wanted = select(func.count()).select_from(Migration)
    return tx.execute(wanted.where(either, Migration.status.in_(_UNFINISHED))).scalar_one()


def evacuated_from(tx: Session, host: str) -> list[Migration]:
    """Return the evacuations from a host that last, or that it has not paid for yet."""
    tx.flush()
    lasts = Migration.status.in_({"accepted", "pre-migrating", DONE})
    mine = Migration.source == host, Migration.type == EVACUATION, lasts
    return list(tx.execute(select(Migration).where(*mine).order_by(Migration.id)).scalars())


def end_evacuations(tx: Session, hosts: Collection[str], now: datetime) -> None:
    """Say that hosts have nothing left of the servers that were evacuated from them."""
    for row_id, source in _done.all(tx):
        if source in hosts:
            change(tx, row_id, now, status="completed")


def comes_to(host: str) -> ColumnElement[bool]:
    """Return the condition that a server is on its way to a host, or back to it."""
    there = and_(Migration.destination == host, Migration.status.in_(_COMING))
    return or_(there, and_(Migration.source == host, Migration.status == "reverting"))


def signal_of(migration_id: int) -> str:
    """Return the name of the signal that something is asked of a move."""
    return f"migration:{migration_id}"
