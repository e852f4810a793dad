"""Look for access rules of ours, and for mounts, that no server needs, and take them away.

Rules are ours that this service's project has locked for our reason, for a client that is one of
our hosts, or a cephx id. What two looks both find is swept, if no operation has it in hand.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from mooring.bulkhead import Rounds
from mooring.compute.hosts import hosts
from mooring.compute.shares import access_rules, share_places
from mooring.compute.shares.sagas.sweep_share import SWEEP_SHARE, SweepShare
from mooring.errors import Conflict, MooringError, NotFound
from mooring.limits import COMPUTE_SHARE_SWEEP_S

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.clients.share import LockedRule
    from mooring.compute.service import Compute

log = structlog.get_logger()


async def run(compute: Compute) -> None:
    """Look again and again, until cancelled; a slow host delays no other, nor the rules."""
    sweep, rounds = Sweep(compute), Rounds()
    try:
        while True:
            await compute.clock.sleep(COMPUTE_SHARE_SWEEP_S)
            rounds.begin(await hosts.find_up(compute), sweep.look_at_mounts)
            await sweep.look_at_rules()
    finally:
        await rounds.end()


async def sweep_once(compute: Compute) -> None:
    """Look twice, and sweep what both looks have found."""
    sweep = Sweep(compute)
    for _ in range(2):
        names = await hosts.find_up(compute)
        await asyncio.gather(*(sweep.look_at_mounts(name) for name in names))
        await sweep.look_at_rules()


async def sweep(compute: Compute, stray: SweepShare) -> None:
    """Begin to take something away; nothing while an operation has it in hand."""

    def start(tx: Session) -> str:
        return compute.sagas.start(tx, SWEEP_SHARE, stray)

    try:
        await compute.store.write(start)
    except Conflict:
        # The next look tells what became of it.
        return
    log.warning("what no server needs is taken away", share=stray.share_id, stray=str(stray))


class Sweep:
    """What the last look at each host, and at the rules, has found, and which are known already."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute
        self._seen: dict[str, set[SweepShare]] = {}
        """What no server needs, by host, and by "" the rules."""
        self._rules: dict[str, LockedRule] = {}

    async def look_at_mounts(self, host: str) -> None:
        """Sweep what a host has mounted, now and at the last look, for no server there."""
        try:
            mounted = await self._compute.agents[host].share_mounts()
        except MooringError as error:
            log.warning("a host's mounts were not seen", host=host, reason=str(error))
            return
        # Rows last: what is named there may be mounted later, but nothing is mounted without.
        known = await self._compute.store.read(lambda tx: share_places.read_uses(tx, host))
        strays = {
            SweepShare(share_id=one.share_id, server_id=one.server_id, host=host)
            for one in mounted
            if (one.server_id, one.share_id) not in known
        }
        await self._sweep(host, strays)

    async def look_at_rules(self) -> None:
        """Sweep the rules that let in, now and at the last look, clients whom no server needs."""
        await self._sweep("", set(await self._find_rules()))

    async def _sweep(self, place: str, strays: set[SweepShare]) -> None:
        for stray in sorted(strays & self._seen.get(place, set()), key=str):
            await sweep(self._compute, stray)
        self._seen[place] = strays

    async def _find_rules(self) -> list[SweepShare]:
        """Return our rules that let in clients on whom no server relies."""
        compute = self._compute
        try:
            await self._learn_rules()
        except MooringError as error:
            if not error.detail.get("has_none"):
                log.warning("access rules were not seen", reason=str(error))
            return []
        needed = await compute.store.read(share_places.read_clients)
        ours = {host.share_address for host in await compute.store.read(hosts.find_all)}
        return [
            SweepShare(share_id=rule.share_id, rule_id=rule.id, client=rule.access_to)
            for rule in self._rules.values()
            if (rule.share_id, rule.access_to) not in needed
            and access_rules.is_of_hosts(rule, ours)
        ]

    async def _learn_rules(self) -> None:
        """See which rules this service's project has locked, and ask about those that are new."""
        shares = self._compute.shares
        ids = await shares.locked_rules(None, access_rules.REASON)
        self._rules = {key: rule for key, rule in self._rules.items() if key in ids}
        for rule_id in ids:
            if rule_id in self._rules:
                continue
            try:
                self._rules[rule_id] = await shares.access_rule(None, rule_id)
            except NotFound:
                continue
