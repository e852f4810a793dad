"""An examination: two looks some seconds apart, of which only what both find counts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from mooring.agent_api.client import Agents
from mooring.clock import Clock
from mooring.config import Settings
from mooring.doctor import agreement, backups, books, guest_shares, owners, shares, snapshots
from mooring.doctor.books import Books
from mooring.doctor.findings import Finding
from mooring.store.base import Store

BETWEEN_S = 2.0
_LOOKS = (
    *(owners.look, agreement.look, snapshots.look, backups.look),
    *(shares.look, guest_shares.look),
)


async def examine(
    stores: Mapping[str, Store],
    agents: Agents,
    clock: Clock,
    settings: Settings,
    *,
    between_s: float = BETWEEN_S,
) -> list[Finding]:
    """Return what two looks both find: what is on its way changes in between. Changes nothing."""
    first = await look(stores, agents, clock, settings)
    if not first:
        return []
    await clock.sleep(between_s)
    second = await look(stores, agents, clock, settings)
    return sorted(one for one in second if one in first or _is_silent_still(one, first))


async def look(
    stores: Mapping[str, Store], agents: Agents, clock: Clock, settings: Settings
) -> set[Finding]:
    """Return what one look finds.

    Comparing takes as long as there are rows, so a thread does it: requests go on beside it.
    """
    found = await books.read(stores, agents, clock.now(), settings)
    return await asyncio.to_thread(compare, found)


def _is_silent_still(finding: Finding, before: set[Finding]) -> bool:
    """Whether both looks missed a host: in which words depends on who else asks it just then."""
    return finding.kind == "host" and any(
        (one.resource, one.kind) == (finding.resource, finding.kind) for one in before
    )


def compare(found: Books) -> set[Finding]:
    """Return everything that disagrees in what was read at one time."""
    return {finding for look_at in _LOOKS for finding in look_at(found)}
