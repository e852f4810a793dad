"""Whose turn it is to leave a host: so many moves at a time, whoever came first goes first.

The queue is the records of moves themselves, so it outlives every process. It lets two guests not
share what a host sends with, and spares the storage exports that would wait for hours
(facts/compute.md 4.8, `max_concurrent_live_migrations`).

A guest that has arrived has given its turn back, whatever its host still has of it.

A move to a host that is silent is passed by the others: it has its turn, or its place in the queue,
and nobody waits for it. When such a host answers again, more moves than wanted may be under way.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import Select, select

from mooring.compute.hosts import hosts
from mooring.compute.moves import migrations
from mooring.compute.tables import Host, Migration, Server

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute

QUEUED = "queued"
_BEFORE = frozenset({"accepted", QUEUED})
_UNDER_WAY = frozenset({"preparing", "running", "post-migrating"})


def take(tx: Session, compute: Compute, migration_id: int, now: datetime) -> bool:
    """Give a move its turn if there is one for it; False when it is to wait.

    One that has its turn keeps it.
    """
    row = migrations.find(tx, migration_id)
    if row is None or row.status not in _BEFORE:
        return True
    # This locks the row of the host until the end: of two at once, the second sees the first.
    hosts.find(tx, row.source)
    most = compute.settings.moves_at_once
    if most and _count_ahead(tx, compute, row, now) >= most:
        return False
    migrations.change(tx, migration_id, now, status="preparing")
    return True


def pass_on(tx: Session, compute: Compute, source: str) -> None:
    """Have those look whether it is their turn who wait to leave a host: somebody is done."""
    queued = _leaving(source).where(Migration.status == QUEUED)
    for one in tx.execute(queued):
        compute.sagas.signal(tx, signal_of(one.id))


def signal_of(migration_id: int) -> str:
    """Return the name of the signal that it may be a move's turn."""
    return f"migration-turn:{migration_id}"


def _count_ahead(tx: Session, compute: Compute, row: Migration, now: datetime) -> int:
    """Return how many others have their turn on a host, or had asked for it before."""
    others = _leaving(row.source).where(Migration.id != row.id)
    found = tx.execute(others.where(Migration.status.in_(_BEFORE | _UNDER_WAY))).all()
    ahead = [one for one in found if one.status in _UNDER_WAY or one.id < row.id]
    # Looked at without a lock on their rows: other hosts' queues look at these crosswise.
    since = now - timedelta(seconds=compute.settings.host_shown_down_s)
    answering = select(Host.name).where(Host.forced_down.is_(False), Host.last_seen_at >= since)
    names = {None, *tx.execute(answering).scalars()}
    return sum(one.destination in names for one in ahead)


def _leaving(source: str) -> Select[int, str, str | None]:
    """Return the query for moves of servers that are on a host and on their way, in their order.

    It goes by the servers of the host: records of moves that are over are kept for ever.
    """
    columns = select(Migration.id, Migration.status, Migration.destination)
    there = columns.join(Server, Server.id == Migration.server_id).where(Server.host == source)
    return there.where(Server.task_state == "migrating").order_by(Migration.id)
