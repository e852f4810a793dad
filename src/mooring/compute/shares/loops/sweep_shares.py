"""Look for access rules of ours, and for mounts, that no server needs, and take them away.

Rules are ours that this service's project has locked for our reason, for a client that is one of
our hosts, or a cephx id. What two looks both find is swept, if no operation has it in hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

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
    """Look again and again, until cancelled."""
    sweep = Sweep(compute)
    while True:
        await compute.clock.sleep(COMPUTE_SHARE_SWEEP_S)
        await sweep.go_round()


async def sweep_once(compute: Compute) -> None:
    """Look twice, and sweep what both looks have found."""
    sweep = Sweep(compute)
    await sweep.go_round()
    await sweep.go_round()


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
    """What the last look has found, and which rules are known already."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute
        self._seen: set[SweepShare] = set()
        self._rules: dict[str, LockedRule] = {}

    async def go_round(self) -> None:
        """Look, and sweep what the last look has found too."""
        strays = {*await self._find_mounts(), *await self._find_rules()}
        for stray in sorted(strays & self._seen, key=str):
            await sweep(self._compute, stray)
        self._seen = strays

    async def _find_mounts(self) -> list[SweepShare]:
        """Return what hosts have mounted, on record, for servers that are not known there."""
        compute, found = self._compute, list[SweepShare]()
        now, down_after_s = compute.clock.now(), compute.settings.host_down_s
        for host in await compute.store.read(hosts.find_all):
            if not hosts.is_up(host, now, down_after_s):
                continue
            try:
                inventory = await compute.agents[host.name].inventory()
            except MooringError as error:
                log.warning("a host's mounts were not seen", host=host.name, reason=str(error))
                continue
            found += [
                SweepShare(share_id=one.share_id, server_id=one.server_id, host=host.name)
                for one in inventory.share_mounts
            ]
        # Rows last: what is named there may be mounted later, but nothing is mounted without.
        known = await compute.store.read(share_places.read_uses)
        return [one for one in found if (one.server_id, one.share_id, one.host) not in known]

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
