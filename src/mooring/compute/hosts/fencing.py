"""Fencing hosts: who may have one ended, when, and which ones are by themselves."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace
from sqlalchemy import select

from mooring.compute.hosts import fencings, hosts
from mooring.compute.hosts.fence_views import FAILED, FENCED, GOES_ON, Fence, Fences, Unpaid
from mooring.compute.hosts.sagas.fence_host import FENCE_HOST, FenceHost, lock_of
from mooring.compute.tables import Host, HostFencing
from mooring.errors import Conflict, MooringError, NotFound, Unavailable
from mooring.fence import debts
from mooring.host_fence import none_is_set
from mooring.limits import FENCE_AGAIN_MOST_S, FENCE_AGAIN_S, FENCE_ANSWER_S
from mooring.who import Who

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.orm import Session

    from mooring.compute.hosts.silence import Silence
    from mooring.compute.service import Compute

log = structlog.get_logger()
_DOUBLINGS = 10
"""After so many the pause is the longest in any case."""


async def fence(compute: Compute, who: Who, host: str, *, force: bool) -> Fence:
    """Have a host ended and force it down; return how that went, or how far it is after a while.

    One that is being fenced is not begun anew, but waited for. Raises NotFound; Conflict for a host
    that answers, unless `force` says that it is meant, and when the fence fails.
    """

    def begin(tx: Session) -> str:
        known = _get(tx, host)
        if not compute.fence.is_there:
            raise none_is_set(host)
        if at_work := compute.sagas.holders(tx, lock_of(host)):
            return at_work[0]
        if _answers(compute, known) and not force:
            raise Conflict(
                f"Host {host} is up and answers: a fence would end every guest on it. Nothing was "
                f"changed. To fence it all the same: mooring host fence {host} --force. To empty "
                f"it first: mooring host drain {host}."
            )
        notes = FenceHost(host=host, user_id=who.user_id)
        return compute.sagas.start(tx, FENCE_HOST, notes, who=who)

    saga_id = await compute.sagas.submit(begin)
    try:
        await compute.sagas.answered(saga_id, FENCE_ANSWER_S)
    except Unavailable as error:
        if error.detail.get("operation") != saga_id:
            raise
    return await show(compute, host)


async def show(compute: Compute, host: str) -> Fence:
    """Return how the last fencing of a host went, and why it is forced down. Raises NotFound."""
    return await compute.store.read(lambda tx: _view(tx, _get(tx, host), fencings.find(tx, host)))


async def show_all(compute: Compute) -> Fences:
    """Return the hosts that are forced down, are being fenced, or could not be, by name."""

    def read(tx: Session) -> list[Fence]:
        rows = {row.host: row for row in tx.execute(select(HostFencing)).scalars()}
        every = [_view(tx, host, rows.get(host.name)) for host in hosts.find_all(tx)]
        telling = {GOES_ON, FAILED}
        return [one for one in every if one.forced_down or one.status in telling]

    return Fences(await compute.store.read(read))


async def fence_silent(compute: Compute, silence: Silence) -> None:
    """Look once which hosts are silent for so long that they are to be fenced, and begin to.

    Not while more hosts are silent than answer: then it may be the control plane that is cut off.
    Nor one whose agent answers, though not how its host is: what its guests do is not known then,
    and they may be well.
    """
    after_s = compute.settings.evacuate_after_s
    found = await compute.store.read(hosts.find_all)
    seen = {host.name: host.last_seen_at for host in found}
    silent_s = silence.look(seen, compute.clock.monotonic())
    if not after_s or not compute.fence.is_there:
        return
    due = await compute.store.read(lambda tx: _find_due(tx, compute, silent_s, after_s))
    heard = {host.name: _answers(compute, host) for host in found if not host.forced_down}
    if due and sum(heard.values()) * 2 < len(heard):
        log.error("more hosts are silent than answer, so none is fenced", silent=sorted(due))
        return
    for name in due:
        if not _says_something(compute, name):
            await _fence_by_itself(compute, name, round(silent_s[name]))


def find_fenced_automatically(tx: Session) -> list[str]:
    """Return the hosts that are forced down because they were fenced by themselves, by name."""
    query = (
        select(Host.name)
        .join(HostFencing, HostFencing.host == Host.name)
        .where(
            Host.forced_down.is_(True),
            HostFencing.status == FENCED,
            HostFencing.silent_s > 0,
            HostFencing.ended_at == Host.forced_down_at,
        )
    )
    return list(tx.execute(query.order_by(Host.name)).scalars())


def _says_something(compute: Compute, name: str) -> bool:
    """Whether a host's agent answered when it was asked last, however badly."""
    if name not in compute.agents or compute.agents[name].door.silent_since is not None:
        return False
    log.error("a host does not say how it is, but its agent answers: it is not fenced", host=name)
    return True


async def _fence_by_itself(compute: Compute, name: str, silent_s: int) -> None:
    """Begin to fence a host; what keeps it from that is logged, and seen again by the next look."""
    log.warning("a silent host is fenced", host=name, silent_s=silent_s)
    try:
        user_id = await compute.own_user_id()
        notes = FenceHost(host=name, user_id=user_id, silent_s=silent_s)
        await compute.store.write(lambda tx: _start(tx, compute, notes))
    except MooringError as error:
        log.warning("a silent host could not be fenced yet", host=name, reason=str(error))


def _start(tx: Session, compute: Compute, notes: FenceHost) -> None:
    """Begin to fence a host by itself, unless somebody was faster, or had a word in it."""
    known = hosts.find(tx, notes.host)
    if known is not None and _is_free(tx, compute, known):
        compute.sagas.start(tx, FENCE_HOST, notes)


def _find_due(
    tx: Session, compute: Compute, silent_s: Mapping[str, float], after_s: float
) -> list[str]:
    return [
        host.name
        for host in hosts.find_all(tx)
        if silent_s.get(host.name, 0.0) >= after_s and _is_free(tx, compute, host)
    ]


def _is_free(tx: Session, compute: Compute, host: Host) -> bool:
    """Whether nobody is fencing a silent host, nor did so in vain a short while ago.

    One of which an administrator has said that it is up, though silent, is left to him until it
    answers.
    """
    silent_since = host.last_seen_at + timedelta(seconds=compute.settings.host_shown_down_s)
    is_said_to_live = host.lifted_at is not None and host.lifted_at >= silent_since
    if host.forced_down or is_said_to_live:
        return False
    last = fencings.find(tx, host.name)
    if last is None:
        return True
    if last.status == GOES_ON:
        return False
    if last.started_at <= host.last_seen_at:
        return True
    if last.ended_at is None:
        return False
    times = 2 ** min(last.failures - 1, _DOUBLINGS)
    return compute.clock.now() >= last.ended_at + timedelta(
        seconds=min(FENCE_AGAIN_S * times, FENCE_AGAIN_MOST_S)
    )


def _answers(compute: Compute, host: Host) -> bool:
    return hosts.is_up(host, compute.clock.now(), compute.settings.host_shown_down_s)


def _get(tx: Session, name: str) -> Host:
    found = hosts.find(tx, name)
    if found is None:
        raise NotFound(f"There is no compute host {name}.")
    return found


def _view(tx: Session, host: Host, row: HostFencing | None) -> Fence:
    owed = debts.owed(tx, host.name) if host.forced_down else []
    shown = Fence(
        host=host.name,
        forced_down=host.forced_down,
        forced_down_at=host.forced_down_at,
        forced_down_by=host.forced_down_by or "",
        forced_down_why=host.forced_down_why or "",
        owes=len(owed),
        unpaid=[Unpaid(f"{one.verb} {one.resource}", one.error) for one in owed if one.error],
    )
    if row is None:
        return shown
    return replace(
        shown,
        status=row.status,
        user_id=row.user_id,
        silent_s=row.silent_s,
        failures=row.failures,
        error=row.error,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )
