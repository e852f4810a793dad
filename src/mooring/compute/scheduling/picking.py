"""Picking a host for a server, and holding its resources there.

`pick` names the hosts that may have it, the best first; `claim` takes the first of them that still
can when it is asked to. Creations and moves use both: what differs between them is in `Needs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from msgspec import Struct

from mooring.compute.aggregates import membership
from mooring.compute.groups import affinity
from mooring.compute.hosts import hosts
from mooring.compute.scheduling import company, filters
from mooring.compute.scheduling.filters import View
from mooring.errors import Invalid, NoCapacity, Unavailable
from mooring.limits import PLACEMENT_ATTEMPTS
from mooring.saga.ownership import require_lease

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy.orm import Session

    from mooring.clients.placement import Candidate, Resources
    from mooring.compute.scheduling.needs import Needs
    from mooring.compute.service import Compute
    from mooring.compute.tables import Host
    from mooring.saga.define import Run

log = structlog.get_logger()
FEW, MANY, MOST = 16, 100, 1000
"""How many candidates placement is asked for: few at first, and more when none of these will do."""


class Chosen(Struct, frozen=True):
    """A host for a server, and what it is to hold there: resources by provider."""

    host: str
    zone: str
    allocations: dict[str, dict[str, int]]


class Owner(Struct, frozen=True):
    """Whose resources a claim counts as."""

    project_id: str
    user_id: str


async def pick(compute: Compute, needs: Needs) -> list[Chosen]:
    """Return the hosts that may have a server now, the best first; it holds nothing.

    Raises NoCapacity, which says of how many hosts what spoke against them.
    """
    view = await compute.store.read(lambda tx: _look(tx, compute, needs))
    return await _pick(compute, needs, view)


async def claim(run: Run[Compute], needs: Needs, owner: Owner) -> Chosen:
    """Pick a host and hold the server's resources there, and its place in its group.

    It may be repeated: what the server holds already is what it returns. Undone by `release`.
    Raises NoCapacity.
    """
    compute, server_id = run.service, needs.server_id
    held = (await compute.placement.allocations(server_id)).allocations
    for host in await _hosts_of(compute, held):
        return Chosen(host.name, host.zone, held)
    for _ in range(PLACEMENT_ATTEMPTS):
        view = await compute.store.read(lambda tx: _look(tx, compute, needs))
        for chosen in await _pick(compute, needs, view):
            if not await _take_place(run, needs, chosen.host):
                continue
            try:
                await compute.placement.claim(
                    server_id,
                    chosen.allocations,
                    project_id=owner.project_id,
                    user_id=owner.user_id,
                    operation=run.operation,
                )
            except NoCapacity:
                continue
            return chosen
    raise Unavailable(f"{filters.NO_HOST} Others took the room on each of them first. Try again.")


async def release(run: Run[Compute], server_id: str, group_id: str = "") -> None:
    """Hold nothing on any host, and no place in the group."""
    await run.service.placement.release(server_id, operation=run.operation)
    if group_id:

        def leave(tx: Session) -> None:
            require_lease(tx, run)
            affinity.leave_place(tx, server_id)

        await run.service.store.write(leave)


def _look(tx: Session, compute: Compute, needs: Needs) -> View:
    group = affinity.find(tx, needs.group_id, needs.server_id) if needs.group_id else None
    named = company.find(tx, needs.hints, needs.server_id, needs.project_id)
    now, settings = compute.clock.now(), compute.settings
    times = settings.host_down_s, settings.host_shown_down_s
    return View(now, *times, group, named, membership.by_host(tx))


async def _hosts_of(compute: Compute, provider_ids: Collection[str]) -> list[Host]:
    if not provider_ids:
        return []
    return await compute.store.read(lambda tx: hosts.of_providers(tx, provider_ids))


async def _take_place(run: Run[Compute], needs: Needs, host: str) -> bool:
    if not needs.group_id:
        return True

    def take(tx: Session) -> bool:
        require_lease(tx, run)
        return affinity.take_place(tx, needs.group_id, needs.server_id, host)

    return await run.service.store.write(take)


async def _pick(compute: Compute, needs: Needs, view: View) -> list[Chosen]:
    candidates: list[Candidate] = []
    for limit in (MANY, MOST) if needs.is_choosy else (FEW, MANY, MOST):
        candidates = await _ask(compute, needs.resources, needs.traits, limit)
        found = await _fitting(compute, candidates, needs, view)
        if found:
            return found
        if len(candidates) < limit:
            break
    raise NoCapacity(filters.explain(await _reasons(compute, needs, view, candidates)))


async def _ask(
    compute: Compute, resources: Resources, traits: Collection[str] = (), limit: int = MOST
) -> list[Candidate]:
    """Return the candidates that placement knows, none where it has not heard of what is wanted."""
    try:
        return await compute.placement.candidates(resources, traits, limit)
    except Invalid as error:
        log.info("placement knows no such trait or class", reason=str(error))
        return []


async def _fitting(
    compute: Compute, candidates: Sequence[Candidate], needs: Needs, view: View
) -> list[Chosen]:
    known = await _hosts_of(compute, [candidate.provider_id for candidate in candidates])
    by_provider = {host.provider_id: host for host in known}
    found: list[Chosen] = []
    room: dict[str, int] = {}
    silent: set[str] = set()
    for candidate in candidates:
        host = by_provider.get(candidate.provider_id)
        if host is not None and not filters.refusal(host, needs, view):
            found.append(Chosen(host.name, host.zone, candidate.allocations))
            room[host.name] = _memory_left(candidate)
            if not hosts.is_up(host, view.now, view.shown_down_after_s):
                silent.add(host.name)
    group = view.group

    def order(chosen: Chosen) -> tuple[bool, int, bool, int, str]:
        # A host that may be dying is better than none, and worse than any other.
        name, cost = chosen.host, group.cost(chosen.host) if group else 0
        return name in silent, cost, name != needs.preferred, -room[name], name

    return sorted(found, key=order)


def _memory_left(candidate: Candidate) -> int:
    """Return how much memory is free at a candidate, in MiB, by which servers spread over hosts.

    As Nova's weigher of memory does, which outweighs its others on hosts of one kind.
    """
    summary = candidate.summaries.get(candidate.provider_id)
    use = summary.resources.get("MEMORY_MB") if summary else None
    return use.capacity - use.used if use else 0


async def _reasons(
    compute: Compute, needs: Needs, view: View, candidates: Sequence[Candidate]
) -> dict[str, str]:
    """Return what speaks against each host, by its name."""
    known = await compute.store.read(hosts.find_all)
    fitting = {candidate.provider_id for candidate in candidates}
    reasons = {host.name: filters.refusal(host, needs, view) for host in known}
    if all(reasons.values()):
        return reasons
    roomy: dict[str, set[str]] = {}
    for name, amount in needs.resources.items():
        found = await _ask(compute, {name: amount})
        roomy[name] = {candidate.provider_id for candidate in found}
    for host in known:
        if reasons[host.name]:
            continue
        lacking = [name for name, having in roomy.items() if host.provider_id not in having]
        able = not lacking and host.provider_id not in fitting
        reasons[host.name] = (
            filters.lack_of_traits(needs)
            if able and needs.traits
            else filters.lack_of_room(needs, lacking)
        )
    return reasons
