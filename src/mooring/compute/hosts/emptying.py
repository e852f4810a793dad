"""The servers of a host that is being emptied, each by what is to be done about it.

Where the host lives they move, and where it is dead they are evacuated. How far that is stands in
the servers and the records of their moves, and in nothing else.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import ColumnElement, and_, func, or_, select

from mooring.compute.actions import actions
from mooring.compute.groups import affinity
from mooring.compute.hosts.drain_views import Left
from mooring.compute.moves import migrations
from mooring.compute.servers import states
from mooring.compute.tables import (
    Fault,
    HostDrain,
    InstanceAction,
    InstanceActionEvent,
    Migration,
    Server,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

TRIES = 3
"""Moves of one server that come to nothing before it is left."""
PAUSE = timedelta(seconds=10)
"""After a move that came to nothing, before the next one of the same server."""
_STOPPED = "stopped"
_MOVABLE = frozenset({"active", "paused", _STOPPED, states.SHELVED})
_EVACUABLE = frozenset({"active", _STOPPED, "error", states.SHELVED})
_ENDED_WELL = frozenset({"completed", "confirmed", migrations.DONE})
_ENDED_BADLY = frozenset({"error", "failed", "cancelled"})


class Ready(Struct, frozen=True):
    """A server that may begin to leave now: running, stopped, or put away, for no other host."""

    id: str
    runs: bool
    is_shelved: bool = False


class Seen(Struct, kw_only=True):
    """A host's servers by what is to be done about each."""

    ready: list[Ready] = []
    moving: int = 0
    moving_stopped: int = 0
    waiting: int = 0
    left: list[Left] = []


def look(tx: Session, row: HostDrain, now: datetime) -> Seen:
    """Sort the servers of a host, those of one group together, by what is to be done about each."""
    moves = _moves_since(tx, row)
    # Who was on the way here before will go away again.
    coming = select(func.count()).select_from(Migration).where(migrations.comes_to(row.host))
    leaving = {server_id: mine[-1] for server_id, mine in moves.items() if _lasts(mine)}
    # One whose guest has arrived still leaves things behind, which its move takes away.
    seen = Seen(
        waiting=0 if row.evacuates else tx.execute(coming).scalar_one(),
        moving=len(leaving),
        moving_stopped=sum(move.by_drain for move in leaving.values()),
    )
    for server in _servers(tx, row.host):
        mine = moves.get(server.id, [])
        is_shelved = server.vm_state == states.SHELVED
        vain: Sequence[Migration | InstanceAction] = (
            _offloads_in_vain(tx, row, server)
            if is_shelved
            else [one for one in mine if one.status in _ENDED_BADLY]
        )
        if server.id in leaving:
            continue
        if server.task_state is not None:
            seen.waiting += 1
        elif reason := row.refused.get(server.id) or _why_not(tx, row, server, vain):
            seen.left.append(Left(server.id, server.name, reason))
        elif vain and now < vain[-1].updated_at + PAUSE:
            seen.waiting += 1
        else:
            runs = server.vm_state != _STOPPED and not is_shelved
            seen.ready.append(Ready(server.id, runs=runs, is_shelved=is_shelved))
    if not row.evacuates:
        seen.left += _may_come_back(tx, row.host)
    return seen


def ids(tx: Session, host: str) -> set[str]:
    """Return the ids of the servers that a host has now."""
    query = select(Server.id).where(Server.host == host, Server.deleted_at.is_(None))
    return set(tx.execute(query).scalars())


def gone(tx: Session, row: HostDrain) -> list[Migration]:
    """Return the last move of each server that has left a host since it is being emptied."""
    moves = _moves_since(tx, row)
    away = ([one for one in each if one.status in _ENDED_WELL] for each in moves.values())
    return [each[-1] for each in away if each]


def failed(tx: Session, row: HostDrain) -> list[Left]:
    """Return the servers in ERROR elsewhere, whose last move from a host came to nothing there."""
    moves = _moves_since(tx, row)
    ids = [server_id for server_id, mine in moves.items() if mine[-1].status in _ENDED_BADLY]
    query = select(Server).where(
        Server.id.in_(ids),
        Server.host != row.host,
        Server.vm_state == "error",
        Server.deleted_at.is_(None),
    )
    return [
        Left(server.id, server.name, f"It is in ERROR on {server.host}. {_fault(tx, server.id)}")
        for server in tx.execute(query.order_by(Server.created_at, Server.id)).scalars()
    ]


def _fault(tx: Session, server_id: str) -> str:
    query = select(Fault.message).where(Fault.server_id == server_id)
    return tx.execute(query.order_by(Fault.id.desc()).limit(1)).scalar() or ""


def _servers(tx: Session, host: str) -> list[Server]:
    """Return the servers of a host, the oldest first, and beside each those of its group."""
    of_host = select(Server).where(Server.host == host, Server.deleted_at.is_(None))
    found = list(tx.execute(of_host.order_by(Server.created_at, Server.id)).scalars())
    groups = {server.id: affinity.group_of(tx, server.id) or server.id for server in found}
    first = {group: at for at, group in reversed([*enumerate(groups.values())])}
    return sorted(found, key=lambda server: first[groups[server.id]])


def _may_come_back(tx: Session, host: str) -> list[Left]:
    """Return the servers that users have moved away, and may still take back to where they were."""
    query = (
        select(Server, Migration.destination)
        .join(Migration, Migration.server_id == Server.id)
        .where(
            Migration.source == host,
            Migration.destination != host,
            Migration.status == migrations.FINISHED,
            Migration.by_drain.is_(False),
            Server.deleted_at.is_(None),
        )
    )
    return [
        Left(
            server.id,
            server.name,
            f"It is on {there}, and may still go back: its user is to confirm or revert its move.",
        )
        for server, there in tx.execute(query.order_by(Server.created_at, Server.id))
    ]


def _lasts(moves: list[Migration]) -> bool:
    return moves[-1].status in migrations.LEAVING


def _offloads_in_vain(tx: Session, row: HostDrain, server: Server) -> list[InstanceAction]:
    """Return what failed to take a server that was put away from a host that is being emptied."""
    query = select(InstanceAction).where(
        InstanceAction.server_id == server.id,
        InstanceAction.action == "shelveOffload",
        InstanceAction.message == actions.ERROR,
        InstanceAction.started_at >= row.started_at,
    )
    return list(tx.execute(query.order_by(InstanceAction.id)).scalars())


def _why_not(
    tx: Session,
    row: HostDrain,
    server: Server,
    vain: Sequence[Migration | InstanceAction],
) -> str:
    """Return why an idle server stays; "" when it may leave."""
    if server.vm_state == "resized":
        return "It waits for its user, who is to confirm or to revert its move."
    if row.evacuates and server.vm_state not in _EVACUABLE:
        return (
            f"It is {server.vm_state}; only servers that run, are stopped or in error go. "
            "Reset its state to error: then it goes, without its memory."
        )
    if not row.evacuates and server.vm_state not in _MOVABLE:
        return f"It is {server.vm_state}; only servers that run or are stopped can move."
    if row.evacuates and server.launched_at is None:
        return "It never ran. Delete it, and make another one."
    if len(vain) < TRIES:
        return ""
    query = (
        select(InstanceActionEvent.details)
        .join(InstanceAction, InstanceAction.id == InstanceActionEvent.action_id)
        .where(InstanceAction.saga_id == vain[-1].saga_id, InstanceActionEvent.details.is_not(None))
    )
    said = tx.execute(query.limit(1)).scalar() or "It was aborted."
    what = "tries to take it from its host" if server.vm_state == states.SHELVED else "moves"
    return f"{TRIES} {what} came to nothing. {said}"


def _moves_since(tx: Session, row: HostDrain) -> dict[str, list[Migration]]:
    """Return the moves away from a host since it is being emptied, oldest first, by server.

    Of servers that were off those of drains alone, an earlier one's too until it has ended.
    """
    query = select(Migration).where(
        Migration.source == row.host,
        _evacuated(row) if row.evacuates else _drained(row),
    )
    found: dict[str, list[Migration]] = {}
    for move in tx.execute(query.order_by(Migration.id)).scalars():
        found.setdefault(move.server_id, []).append(move)
    return found


def _evacuated(row: HostDrain) -> ColumnElement[bool]:
    lasts = Migration.status.in_(migrations.LEAVING)
    since = or_(Migration.created_at >= row.started_at, lasts)
    return and_(Migration.type == migrations.EVACUATION, since)


def _drained(row: HostDrain) -> ColumnElement[bool]:
    own = and_(Migration.by_drain, Migration.status.in_(migrations.LEAVING))
    return and_(
        or_(Migration.type == migrations.LIVE, Migration.by_drain),
        or_(Migration.created_at >= row.started_at, own),
    )
