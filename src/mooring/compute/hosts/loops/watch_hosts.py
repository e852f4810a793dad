"""Watch the hosts: ask each agent how it is, write it down, tell placement what there is.

An agent calls nobody, so this question is the heartbeat (facts/compute.md 12.2). A host that comes
back pays its debts before it counts as up again.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
import structlog
from sqlalchemy import update

from mooring import first_reports
from mooring.agent_api import verbs
from mooring.bulkhead import Rounds
from mooring.clients.placement import Inventory, Overtaken
from mooring.compute.hosts import hosts
from mooring.compute.moves import migrations
from mooring.compute.tables import Host
from mooring.errors import Conflict, MooringError, NotFound
from mooring.fence import debts
from mooring.fence.rules import is_taken
from mooring.limits import PLACEMENT_ATTEMPTS
from mooring.saga.ownership import as_owned_now
from mooring.store.together import Together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

    from mooring.agent_api.client import AgentClient
    from mooring.agent_api.hosts import Host as Report
    from mooring.compute.service import Compute
    from mooring.fence.debts import Debt

    Written: TypeAlias = Host | Literal["left"] | None
    Reports: TypeAlias = Together[Report, Written]

log = structlog.get_logger()

DISABLED = "COMPUTE_STATUS_DISABLED"


async def run(compute: Compute) -> None:
    """Look at all hosts, again and again, until cancelled; a slow one delays no other."""
    rounds, reports = Rounds(), _gather_reports(compute)
    try:
        while True:
            rounds.begin(list(compute.agents), lambda name: _look_at(compute, name, reports))
            await compute.clock.sleep(compute.settings.host_poll_s)
    finally:
        await rounds.end()
        await reports.end()


async def look_once(compute: Compute) -> None:
    """Look at every host once; one that fails keeps none of the others waiting."""
    reports = _gather_reports(compute)
    await asyncio.gather(*(_look_at(compute, name, reports) for name in list(compute.agents)))


async def look_at(compute: Compute, name: str) -> None:
    """Look at one host; one that fails is logged."""
    await _look_at(compute, name, _gather_reports(compute))


async def _look_at(compute: Compute, name: str, reports: Reports) -> None:
    try:
        for left in reversed(range(PLACEMENT_ATTEMPTS)):
            try:
                return await _look(compute, name, reports)
            except Overtaken:
                # Whoever claims or releases something there, too: the host is asked anew.
                if not left:
                    raise
    except MooringError as error:
        log.warning("a host could not be looked at", host=name, error=str(error))


async def _look(compute: Compute, name: str, reports: Reports) -> None:
    """Ask a host how it is, and tell it. Raises Overtaken: placement is not told, look again."""
    agent = compute.agents[name]
    said = await agent.host()
    if "compute" not in said.roles:
        return
    while (host := await reports(said)) is None:
        if not await _pay_debts(compute, agent):
            return
    if host != "left":
        await _announce(compute, host, said)


def _gather_reports(compute: Compute) -> Reports:
    """Return what writes down reports: the host of each, None for one that owes something.

    Of one that was taken out of the cloud meanwhile it writes nothing: it has "left". With a
    thousand hosts, a transaction for each would take a core of its own.
    """

    async def write_down(reports: Sequence[Report]) -> list[Written]:
        found = await compute.store.write(lambda tx: _write(tx, reports, compute, makes=False))
        new = [said for said in reports if said.name not in found]
        if new:
            made = partial(_write, compute=compute, makes=True)
            found |= await first_reports.make(compute, new, made) or {}
        return [found.get(said.name, "left") for said in reports]

    return Together(write_down)


def _write(
    tx: Session, reports: Sequence[Report], compute: Compute, *, makes: bool
) -> dict[str, Written]:
    """Write down reports, each of a host that owes nothing and is known, or is made."""
    found: dict[str, Written] = dict.fromkeys(debts.hosts_in_debt(tx))
    clear = [said for said in reports if said.name not in found]
    zone, now = compute.settings.default_zone, compute.clock.now()
    written = {host.name: host for host in hosts.report(tx, clear, zone, now, makes=makes)}
    migrations.end_evacuations(tx, written.keys(), now)
    return found | written


async def _announce(compute: Compute, host: Host, said: Report) -> None:
    """Tell placement what the host has, when that is not what placement was told last.

    The digest of that stands while nobody tells anything else. Whoever does has seen at which
    generation the provider is before he puts his mark in place of the digest and reads the host.
    So what was read before another one's mark placement refuses once that one has told it.
    """
    if host.announced == _told(compute, host, said)[-1]:
        return
    if said.problem:
        log.warning("a host can start no guests now", host=host.name, reason=said.problem)
    placement, mark = compute.placement, f"being told: {uuid.uuid4()}"
    provider = await placement.put_provider(host.name, host.provider_id)
    present = await compute.store.write(lambda tx: _mark(tx, host, mark))
    if present is None:
        await placement.delete_provider(host.provider_id)
        return
    inventories, traits, digest = _told(compute, present, said)
    generation = await placement.put_traits(provider.uuid, traits, seen=provider.generation)
    await placement.put_inventory(provider.uuid, inventories, seen=generation)
    this = update(Host).where(Host.id == host.id, Host.announced == mark).values(announced=digest)
    await compute.store.write(lambda tx: tx.execute(this) and None)


def _mark(tx: Session, host: Host, mark: str) -> Host | None:
    """Note who tells placement of a host, and return it as it is; None for one that was removed."""
    row = hosts.find(tx, host.name)
    if row is None or row.id != host.id:
        return None
    row.announced = mark
    return row


def _told(
    compute: Compute, host: Host, said: Report
) -> tuple[dict[str, Inventory], list[str], str]:
    """Return what placement is told of a host, and the digest of that."""
    inventories, traits = _inventories(compute, host), _traits(host, said)
    told = msgspec.json.encode((inventories, traits), order="sorted")
    return inventories, traits, hashlib.sha256(told).hexdigest()


def _inventories(compute: Compute, host: Host) -> dict[str, Inventory]:
    settings = compute.settings
    amounts = {
        "VCPU": (host.vcpus, settings.cpu_allocation_ratio),
        "MEMORY_MB": (host.memory_mib, settings.memory_allocation_ratio),
        "DISK_GB": (host.disk_gib, settings.disk_allocation_ratio),
    }
    return {
        name: Inventory(total=total, max_unit=total, allocation_ratio=ratio)
        for name, (total, ratio) in amounts.items()
        if total > 0
    }


def _traits(host: Host, said: Report) -> list[str]:
    """Return what placement is told to choose by; one that can start no guest is as disabled."""
    closed = host.disabled or said.problem
    return sorted({*said.traits, *([DISABLED] if closed else [])})


async def _pay_debts(compute: Compute, agent: AgentClient) -> bool:
    """Have the host undo what was undone in its name while it was dead; return whether all is paid.

    What it cannot undo now keeps it down, and keeps none of the others waiting: it may need one of
    them. Raises what its agent said at once when that has fallen silent.
    """
    left, news = 0, False
    for debt in await compute.store.read(lambda tx: debts.owed(tx, agent.name)):
        try:
            await _pay(compute, agent, debt)
        except MooringError as error:
            if agent.door.silent_since is not None:
                raise
            left, news = left + 1, await _note_failure(compute, debt, error) or news
            continue
        await compute.store.write(lambda tx, debt=debt: debts.pay(tx, debt))
        log.info("a host paid a debt", host=agent.name, resource=debt.resource)
    if news:
        log.warning(
            "a host stays down for what it owes, each of which is asked for again at every look: "
            "see to what it says of it (mooring host list)",
            host=agent.name,
            debts=left,
        )
    return not left


async def _note_failure(compute: Compute, debt: Debt, error: MooringError) -> bool:
    """Let operators see what a host could not do, and why; return whether that is news.

    Only news is logged, as the host is asked again every few seconds for as long as it takes.
    """
    if debt.error == error.public:
        return False
    log.warning(
        "a host could not pay a debt", host=debt.host, resource=debt.resource, error=str(error)
    )
    await compute.store.write(lambda tx: debts.note_failure(tx, debt, error.public))
    return True


async def _pay(compute: Compute, agent: AgentClient, debt: Debt) -> None:
    """Have the host undo one thing, by the word of whoever owns the operation that owes it now.

    A refusal of a former owner's word would stand for ever, and says nothing of the thing itself:
    the host may have heard the next one about another. What a newer lock has taken there is that
    one's to end, which would owe it in turn; undone by the older word, it would be lost to it.
    """
    if verbs.find_undo(debt.resource) is None:
        log.error("a debt makes no sense", host=agent.name, resource=debt.resource)
        return
    operation = await compute.store.read(lambda tx: as_owned_now(tx, debt.operation))
    try:
        await agent.pay(debt.resource, operation=operation)
    except NotFound:
        return
    except Conflict as error:
        if not is_taken(error):
            raise
        log.warning(
            "a host owes nothing that was taken by a later operation",
            host=agent.name,
            resource=debt.resource,
            reason=str(error),
        )
