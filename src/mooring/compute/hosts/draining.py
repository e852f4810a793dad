"""Emptying a host: it gets no new servers, and those that it has move away, each as it is.

Those that run do so while they run. Stopped ones move stopped, and what would wait for their users'
word is confirmed here: a mark on the record of the move tells it from a move by its user. Those
that are SHELVED leave for no other host: an image has their disk. Where the host is dead its
servers are evacuated. What is wanted stands in a row, and how far it is is read
from the servers and the records of their moves. So it goes on whoever is killed; `advance` is one
look, by the loop of any process.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import structlog
from msgspec.structs import replace
from sqlalchemy import select

from mooring import typed
from mooring.compute.hosts import emptying, fencing, host_changes, hosts
from mooring.compute.hosts.drain_views import Drain, Left
from mooring.compute.hosts.emptying import Ready
from mooring.compute.hosts.host_changes import HostChanges
from mooring.compute.moves import cold_migrating, evacuating, live_migrating, migrations
from mooring.compute.shelve import shelving
from mooring.compute.tables import Host, HostDrain, Migration
from mooring.errors import Conflict, Forbidden, Invalid, MooringError, NotFound
from mooring.who import Who

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute

log = structlog.get_logger()
AT_ONCE = 2
"""Servers that leave a living host at a time: more would only slow each other down."""
EVACUATED_AT_ONCE = 20
"""Servers that are evacuated from a dead host at a time, which has no part in that."""
REASON = "It is being drained."
_DEAD = "It is dead, and its servers are evacuated."
Begin = Callable[["Compute", Who, Ready], Awaitable[None]]
"""How a server begins to leave."""


async def begin(compute: Compute, who: Who, host: str, *, evacuates: bool = False) -> Drain:
    """Disable a host and begin to empty it; nothing more where that goes on already.

    Raises NotFound; Conflict for a host that was forced down, or, where it `evacuates`, was not.
    """

    def write(tx: Session) -> Drain:
        # Of two who ask at once the second sees what the first has written.
        tx.execute(select(Host.id).where(Host.name == host).with_for_update())
        now, known, row = compute.clock.now(), _find_host(tx, host), _find(tx, host)
        _require(known, evacuates=evacuates)
        if row is None or row.status != "draining" or row.evacuates != evacuates:
            if row is not None:
                tx.delete(row)
                tx.flush()
            why = _DEAD if evacuates else REASON
            reason = known.disabled_reason if known.disabled else why
            changes = HostChanges(disabled=True, disabled_reason=reason)
            host_changes.change(tx, known, changes, now)
            row = HostDrain(
                host=host,
                status="draining",
                user_id=who.user_id,
                project_id=who.project_id,
                evacuates=evacuates,
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


async def show(compute: Compute, host: str, *, evacuates: bool = False) -> Drain:
    """Return how far the emptying of a host is, or how the last one ended.

    Raises NotFound, also where the last one was of the other kind: who asks whether the servers of
    a dead host are elsewhere is not told of a drain from before its death.
    """

    def read(tx: Session) -> Drain:
        row = _find(tx, host)
        if row is None:
            _find_host(tx, host)
            raise NotFound(f"Host {host} was never {'evacuated' if evacuates else 'drained'}.")
        if row.evacuates != evacuates:
            raise NotFound(_of_other_kind(row))
        return _view(tx, compute, row)

    return await compute.store.read(read)


def _of_other_kind(row: HostDrain) -> str:
    """Say that the last emptying of a host was of the other kind than the one asked for."""
    was, is_not = ("evacuated", "drained") if row.evacuates else ("drained", "evacuated")
    verb = "evacuate" if row.evacuates else "drain"
    return (
        f"Host {row.host} was {was} last, and not {is_not}. How far that is: mooring host {verb} "
        f"{row.host} --status."
    )


async def advance_all(compute: Compute) -> None:
    """Look once at every host that is being emptied, and confirm what drains have moved.

    That outlives the draining: what is on the way when a host is enabled arrives.
    """
    for row in await compute.store.read(lambda tx: _find_to_confirm(tx, compute)):
        await _confirm(compute, row)
    for host in await compute.store.read(_find_to_evacuate):
        await _evacuate_by_itself(compute, host)
    query = select(HostDrain.host).where(HostDrain.status == "draining")
    for host in await compute.store.read(lambda tx: tx.execute(query).scalars().all()):
        try:
            await advance(compute, host)
        except MooringError as error:
            log.warning("a host could not be drained further", host=host, error=str(error))


def _find_to_evacuate(tx: Session) -> list[str]:
    """Return the hosts that were fenced because they were silent, and are not being emptied yet."""
    found: list[str] = []
    for name in fencing.find_fenced_automatically(tx):
        row, host = _find(tx, name), hosts.find(tx, name)
        since = host.forced_down_at if host else None
        is_known = row is not None and row.evacuates and since and row.started_at >= since
        if not is_known:
            found.append(name)
    return found


async def _evacuate_by_itself(compute: Compute, host: str) -> None:
    """Begin to evacuate a host's servers; what keeps it from that may pass."""
    try:
        who = Who(user_id=await compute.own_user_id(), is_admin=True)
        await begin(compute, who, host, evacuates=True)
    except MooringError as error:
        log.warning("a dead host could not be evacuated yet", host=host, error=str(error))


async def advance(compute: Compute, host: str) -> None:
    """Begin the moves that may begin now; say that it is over when nothing is left to do."""
    row = await compute.store.write(lambda tx: _look_and_end(tx, compute, host))
    if row is None:
        return
    asker, ready, begin_move = row
    for one in ready:
        try:
            await begin_move(compute, _anew(asker), one)
        except MooringError as error:
            # After a Conflict somebody else was faster, or it has changed: the next look tells.
            if isinstance(error, Invalid | Forbidden) or error.detail.get("lasts"):
                refuse = partial(_refuse, host=host, server_id=one.id, why=error.public)
                await compute.store.write(refuse)
            else:
                log.info("a server could not be moved yet", server=one.id, error=str(error))


async def _begin_move(compute: Compute, who: Who, one: Ready) -> None:
    """Begin to move a server as it is. Raises what the API would answer."""
    if one.is_shelved:
        await shelving.offload(compute, who, one.id)
    elif one.runs:
        await live_migrating.live_migrate(compute, who, one.id, host=None, block_migration="auto")
    else:
        await cold_migrating.migrate(compute, who, one.id, None, by_drain=True)


async def _begin_evacuation(compute: Compute, who: Who, one: Ready, *, host: str) -> None:
    """Begin to give a server to another host, to run there if it ran. Raises as above."""
    if one.is_shelved:
        await shelving.offload(compute, who, one.id)
        return
    await evacuating.evacuate(compute, who, one.id, host=None, is_left_off=False, only_from=host)


def _require(known: Host, *, evacuates: bool) -> None:
    """Raise Conflict unless a host is as it must be: dead where its servers are evacuated."""
    if known.forced_down and not evacuates:
        raise Conflict(
            f"Host {known.name} was forced down, and nothing moves from it while it runs. Nothing "
            f"was changed; have its servers evacuated (mooring host evacuate {known.name})."
        )
    if evacuates and not known.forced_down:
        raise Conflict(
            f"Host {known.name} is not known to be dead, and its servers may run. Nothing was "
            f"changed; fence it first (mooring host fence {known.name}), or drain it while it "
            "lives."
        )


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
        await cold_migrating.confirm(compute, _anew(user), row.server_id, only=row.id)
    except MooringError as error:
        # Its host may be silent; or its user was faster, with a word or a deletion.
        log.info("a move could not be confirmed yet", server=row.server_id, error=str(error))


def _anew(who: Who) -> Who:
    """Return who asks, in a request of its own: each move is an action in its server's list."""
    return replace(who, request_id=f"req-{uuid.uuid4()}")


def _look_and_end(
    tx: Session, compute: Compute, host: str
) -> tuple[Who, list[Ready], Begin] | None:
    """Return who asked, which servers may begin to leave now, and how; None when it is over."""
    row = _find(tx, host, hold=True)
    if row is None or row.status != "draining":
        return None
    now, known = compute.clock.now(), hosts.find(tx, host)
    seen = emptying.look(tx, row, now)
    is_over = not (seen.ready or seen.moving or seen.waiting)
    # Who enables the host, or says of a living one that it is dead, wants this no more; nor does
    # who says of a dead one that it lives.
    is_other = known is None or not known.disabled or known.forced_down != row.evacuates
    if is_over or is_other:
        row.status = "drained" if is_over else "stopped"
        row.stayed = [msgspec.to_builtins(one) for one in seen.left]
        row.ended_at = now
        what = "evacuation" if row.evacuates else "drain"
        how = "ended" if is_over else "stopped"
        log.info("servers leave a host no more", what=what, how=how, host=host, left=len(seen.left))
        return None
    asker = Who(user_id=row.user_id, project_id=row.project_id, is_admin=True)
    if row.evacuates:
        room = EVACUATED_AT_ONCE - seen.moving
        return asker, seen.ready[: max(0, room)], partial(_begin_evacuation, host=host)
    room = AT_ONCE - seen.moving if known is not None and _is_up(compute, known) else 0
    return asker, seen.ready[: max(0, room)], _begin_move


def _view(tx: Session, compute: Compute, row: HostDrain) -> Drain:
    done = emptying.gone(tx, row)
    shown = Drain(
        host=row.host,
        status=row.status,
        moved=len(done),
        moved_stopped=sum(one.by_drain for one in done),
        left=[typed.convert(one, Left) for one in row.stayed],
        failed=emptying.failed(tx, row),
        started_at=row.started_at,
        ended_at=row.ended_at,
    )
    known = hosts.find(tx, row.host)
    if row.status != "draining":
        note = _since(tx, row, known)
        return replace(shown, is_outdated=bool(note), note=note)
    seen = emptying.look(tx, row, compute.clock.now())
    is_asked = not row.evacuates and (known is None or not _is_up(compute, known))
    silent = "The host does not answer." if is_asked else ""
    return replace(
        shown,
        moving=seen.moving,
        moving_stopped=seen.moving_stopped,
        waiting=seen.waiting + len(seen.ready),
        left=seen.left,
        note=silent,
    )


def _since(tx: Session, row: HostDrain, known: Host | None) -> str:
    """Say what a host that was emptied has, or may have, since that ended; "" for nothing."""
    if come := emptying.ids(tx, row.host) - {one["id"] for one in row.stayed}:
        what = "a server" if len(come) == 1 else f"{len(come)} servers"
        return f"The host has {what} again."
    if known is not None and not known.disabled and not known.forced_down:
        return "The host was enabled since, and may have servers again."
    return ""


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
