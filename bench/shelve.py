"""What it takes to put a server away and to bring it back: one that boots from a volume.

The hosts are simulated and share one pool of volumes; guests stop and start at once there, so what
is measured is all but the guests.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bench.inside import Cost, open_inside
from bench.machine import scratch
from bench.moves import act, create, make_hosts, require, tell_costs

if TYPE_CHECKING:
    from pathlib import Path

HOSTS, WARM_UP, ROUNDS = 3, 3, 20
BUDGETS = {"shelve": 60.0, "unshelve": 80.0}
"""Wall time of each until its operation ended, in ms."""
STATUSES = {"shelve": "SHELVED_OFFLOADED", "unshelve": "ACTIVE"}


async def measure(directory: Path) -> dict[str, list[Cost]]:
    """Put a server away and bring it back, time and again; the first rounds do not count."""
    costs: dict[str, list[Cost]] = {what: [] for what in BUDGETS}
    async with open_inside(directory, hosts=make_hosts(directory, HOSTS)) as cloud:
        server = await create(cloud, await cloud.make_image())
        for _ in range(WARM_UP + ROUNDS):
            for what, found in costs.items():
                found.append(await act(cloud, server, {what: None}))
                await require(cloud, server, STATUSES[what])
    return {what: found[WARM_UP:] for what, found in costs.items()}


def main() -> None:
    """Measure both, and tell."""
    with scratch() as directory:
        costs = asyncio.run(measure(directory))
    tell_costs(costs, BUDGETS)


if __name__ == "__main__":
    main()
