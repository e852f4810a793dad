"""Emptying a host: it gets no new servers, and those that it has move away, each as it is.

Those that run do so while they run. Stopped ones move stopped, and what would wait for their users'
word is confirmed here: a mark on the record of the move tells it from a move by its user. What is
wanted stands in a row, and how far it is is read from the servers and the records of their moves.
So it goes on whoever is killed; `advance` is one look, by the loop of any process.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import and_, func, or_, select

from mooring import typed
from mooring.compute.hosts import host_changes, hosts
from mooring.compute.hosts.drain_views import Drain, Left
from mooring.compute.hosts.host_changes import HostChanges
from mooring.compute.moves import cold_migrating, live_migrating, migrations
from mooring.compute.tables import (
    Host,
    HostDrain,
    InstanceAction,
    InstanceActionEvent,
    Migration,
    Server,
)
from mooring.errors import Conflict, Forbidden, Invalid, MooringError, NotFound
from mooring.who import Who

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute

log = structlog.get_logger()
AT_ONCE = 2
"""Servers that leave one host at a time: more would only slow each other down."""
TRIES = 3
"""Moves of one server that come to nothing before it is left."""
PAUSE = timedelta(seconds=10)
"""After a move that came to nothing, before the next one of the same server."""
_STOPPED = "stopped"
_MOVABLE = frozenset({"active", "paused", _STOPPED})
_ENDED_WELL = frozenset({"completed", "confirmed"})
_ENDED_BADLY = frozenset({"error", "failed", "cancelled"})
REASON = "It is being drained."


class _Ready(Struct, frozen=True):
    """A server that may begin to move now, running or stopped."""

    id: str
    runs: bool


class _Seen(Struct, kw_only=True):
    """A host's servers by what is to be done about each."""

    ready: list[_Ready] = []
    moving: int = 0
    moving_stopped: int = 0
    waiting: int = 0
    left: list[Left] = []


async def begin(compute: Compute, who: Who, host: str) -> Drain:
    """Disable a host and begin to empty it; nothing more where that goes on already.

    Raises NotFound; Conflict for a host that was forced down.
    """

    def write(tx: Session) -> Drain:
        # Of two who ask at once the second sees what the first has written.
        tx.execute(select(Host.id).where(Host.name == host).with_for_update())
        now, known, row = compute.clock.now(), _find_host(tx, host), _find(tx, host)
        if known.forced_down:
            raise Conflict(
                f"Host {host} was forced down, and nothing moves from it while it runs. Nothing "
                "was changed."
            )
        if row is None or row.status != "draining":
            if row is not None:
                tx.delete(row)
                tx.flush()
            reason = known.disabled_reason if known.disabled else REASON
            changes = HostChanges(disabled=True, disabled_reason=reason)
            host_changes.change(tx, known, changes, now)
            row = HostDrain(
                host=host,
                status="draining",
                user_id=who.user_id,
                project_id=who.project_id,
                refused={},
                stayed=[],
                started_at=now,
            )
            tx.add(row)
            tx.flush()
        return _view(tx, compute, row)

    return await compute.store.write(write)


async def end(compute: Compute, host: str) -> None:
    """Let a host have servers again, and move no more away. Raises NotFound."""

    def write(tx: Session) -> None:
        known = _find_host(tx, host)
        host_changes.change(tx, known, HostChanges(disabled=False), compute.clock.now())
        row = _find(tx, host)
        if row is not None and row.status == "draining":
            row.status, row.ended_at = "stopped", compute.clock.now()

    await compute.store.write(write)


async def show(compute: Compute, host: str) -> Drain:
    """Return how far the emptying of a host is, or how the last one ended. Raises NotFound."""

    def read(tx: Session) -> Drain:
        row = _find(tx, host)
        if row is None:
            raise NotFound(f"Host {host} was never drained.")
        return _view(tx, compute, row)

    return await compute.store.read(read)


async def advance_all(compute: Compute) -> None:
    """Look once at every host that is being emptied, and confirm what drains have moved.

    That outlives the draining: what is on the way when a host is enabled arrives.
    """
    for row in await compute.store.read(lambda tx: _find_to_confirm(tx, compute)):
        await _confirm(compute, row)
    query = select(HostDrain.host).where(HostDrain.status == "draining")
    for host in await compute.store.read(lambda tx: tx.execute(query).scalars().all()):
        try:
            await advance(compute, host)
        except MooringError as error:
            log.warning("a host could not be drained further", host=host, error=str(error))


async def advance(compute: Compute, host: str) -> None:
    """Begin the moves that may begin now; say that it is over when nothing is left to do."""
    row = await compute.store.write(lambda tx: _look_and_end(tx, compute, host))
    if row is None:
        return
    asker, ready = row
    for one in ready:
        try:
            await _begin_move(compute, asker, one)
        except MooringError as error:
            # After a Conflict somebody else was faster, or it has changed: the next look tells.
            if isinstance(error, Invalid | Forbidden) or error.detail.get("lasts"):
                refuse = partial(_refuse, host=host, server_id=one.id, why=error.public)
                await compute.store.write(refuse)
            else:
                log.info("a server could not be moved yet", server=one.id, error=str(error))


async def _begin_move(compute: Compute, asker: Who, one: _Ready) -> None:
    """Begin to move a server as it is. Raises what the API would answer."""
    who = _anew(asker)
    if one.runs:
        await live_migrating.live_migrate(compute, who, one.id, host=None, block_migration="auto")
    else:
        await cold_migrating.migrate(compute, who, one.id, None, by_drain=True)


def _find_to_confirm(tx: Session, compute: Compute) -> list[Migration]:
    """Return the moves that drains have made, of hosts that can let go of the servers now."""
    found: list[Migration] = []
    for row in migrations.to_confirm(tx):
        host = hosts.find(tx, row.source)
        if host is None or host.forced_down or _is_up(compute, host):
            found.append(row)
    return found


async def _confirm(compute: Compute, row: Migration) -> None:
    """Confirm a move that a drain began. One that cannot be now is looked at again."""
    user = Who(user_id=row.user_id, project_id=row.project_id, is_admin=True)
    try:
        await cold_migrating.confirm(compute, _anew(user), row.server_id)
    except MooringError as error:
        # Its host may be silent; or its user was faster, with a word or a deletion.
        log.info("a move could not be confirmed yet", server=row.server_id, error=str(error))


def _anew(who: Who) -> Who:
    """Return who asks, in a request of its own: each move is an action in its server's list."""
    return replace(who, request_id=f"req-{uuid.uuid4()}")


def _look_and_end(tx: Session, compute: Compute, host: str) -> tuple[Who, list[_Ready]] | None:
    """Return who asked and which servers may begin to move now; None when it is over."""
    row = _find(tx, host, hold=True)
    if row is None or row.status != "draining":
        return None
    now, known = compute.clock.now(), hosts.find(tx, host)
    seen = _look(tx, row, now)
    is_over = not (seen.ready or seen.moving or seen.waiting)
    # Who enables the host, or forces it down, wants nothing moved away any more.
    if is_over or known is None or not known.disabled or known.forced_down:
        row.status = "drained" if is_over else "stopped"
        row.stayed = [msgspec.to_builtins(one) for one in seen.left]
        row.ended_at = now
        log.info("a host was drained", host=host, status=row.status, left=len(seen.left))
        return None
    asker = Who(user_id=row.user_id, project_id=row.project_id, is_admin=True)
    room = AT_ONCE - seen.moving if _is_up(compute, known) else 0
    return asker, seen.ready[: max(0, room)]


def _look(tx: Session, row: HostDrain, now: datetime) -> _Seen:
    """Sort the servers of a host by what is to be done about each."""
    moves = _moves_since(tx, row)
    # Who was on the way here before will go away again.
    coming = select(func.count()).select_from(Migration).where(migrations.comes_to(row.host))
    leaving = {server_id: mine[-1] for server_id, mine in moves.items() if _lasts(mine)}
    # One whose guest has arrived still leaves things behind, which its move takes away.
    seen = _Seen(
        waiting=tx.execute(coming).scalar_one(),
        moving=len(leaving),
        moving_stopped=sum(move.by_drain for move in leaving.values()),
    )
    of_host = select(Server).where(Server.host == row.host, Server.deleted_at.is_(None))
    for server in tx.execute(of_host.order_by(Server.created_at, Server.id)).scalars():
        mine = moves.get(server.id, [])
        vain = [one for one in mine if one.status in _ENDED_BADLY]
        if server.id in leaving:
            continue
        if server.task_state is not None:
            seen.waiting += 1
        elif reason := row.refused.get(server.id) or _why_not(tx, server, vain):
            seen.left.append(Left(server.id, server.name, reason))
        elif vain and now < vain[-1].updated_at + PAUSE:
            seen.waiting += 1
        else:
            seen.ready.append(_Ready(server.id, runs=server.vm_state != _STOPPED))
    seen.left += _may_come_back(tx, row.host)
    return seen


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


def _why_not(tx: Session, server: Server, vain: list[Migration]) -> str:
    """Return why an idle server stays; "" when it may move."""
    if server.vm_state == "resized":
        return "It waits for its user, who is to confirm or to revert its move."
    if server.vm_state not in _MOVABLE:
        return f"It is {server.vm_state}; only servers that run or are stopped can move."
    if len(vain) < TRIES:
        return ""
    query = (
        select(InstanceActionEvent.details)
        .join(InstanceAction, InstanceAction.id == InstanceActionEvent.action_id)
        .where(InstanceAction.saga_id == vain[-1].saga_id, InstanceActionEvent.details.is_not(None))
    )
    said = tx.execute(query.limit(1)).scalar() or "It was aborted."
    return f"{TRIES} moves came to nothing. {said}"


def _moves_since(tx: Session, row: HostDrain) -> dict[str, list[Migration]]:
    """Return the moves away from a host since it is being drained, oldest first, by server.

    Of servers that were off those of drains alone, an earlier one's too until it has ended.
    """
    own = and_(Migration.by_drain, Migration.status.in_(migrations.LEAVING))
    query = select(Migration).where(
        Migration.source == row.host,
        or_(Migration.type == migrations.LIVE, Migration.by_drain),
        or_(Migration.created_at >= row.started_at, own),
    )
    found: dict[str, list[Migration]] = {}
    for move in tx.execute(query.order_by(Migration.id)).scalars():
        found.setdefault(move.server_id, []).append(move)
    return found


def _view(tx: Session, compute: Compute, row: HostDrain) -> Drain:
    moves = _moves_since(tx, row)
    away = ([one for one in each if one.status in _ENDED_WELL] for each in moves.values())
    done = [each[-1] for each in away if each]
    shown = Drain(
        host=row.host,
        status=row.status,
        moved=len(done),
        moved_stopped=sum(one.by_drain for one in done),
        left=[typed.convert(one, Left) for one in row.stayed],
        started_at=row.started_at,
        ended_at=row.ended_at,
    )
    if row.status != "draining":
        return shown
    seen, known = _look(tx, row, compute.clock.now()), hosts.find(tx, row.host)
    silent = "" if known is not None and _is_up(compute, known) else "The host does not answer."
    return replace(
        shown,
        moving=seen.moving,
        moving_stopped=seen.moving_stopped,
        waiting=seen.waiting + len(seen.ready),
        left=seen.left,
        note=silent,
    )


def _refuse(tx: Session, *, host: str, server_id: str, why: str) -> None:
    """Note that a server cannot move, as the API refused it."""
    row = _find(tx, host, hold=True)
    if row is not None and row.status == "draining":
        row.refused = {**row.refused, server_id: why}


def _is_up(compute: Compute, host: Host) -> bool:
    return hosts.is_up(host, compute.clock.now(), compute.settings.host_down_s)


def _find(tx: Session, host: str, *, hold: bool = False) -> HostDrain | None:
    # No user's: it is shown to administrators alone.
    return tx.get(HostDrain, host, with_for_update=True if hold else None)


def _find_host(tx: Session, name: str) -> Host:
    found = hosts.find(tx, name)
    if found is None:
        raise NotFound(f"There is no compute host {name}.")
    return found
