"""What rebuilding a server whose root disk is a volume of 1 GiB costs, on the simulated host.

The image is of 64 KiB, so next to nothing is copied: what is measured is all but the copy.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from bench.inside import Cost, Inside, open_inside
from bench.machine import median, scratch
from bench.rows import Row, tell

WARM_UP, ROUNDS = 3, 20
BUDGET_MS = 100.0


async def measure(directory: Path) -> list[Cost]:
    """Rebuild one server again and again; the first rounds warm caches and do not count."""
    async with open_inside(directory) as cloud:
        images = [await cloud.make_image() for _ in range(2)]
        server = await cloud.make_server_on_volume(images[0])
        await cloud.rest()
        path, costs = f"/compute/v2.1/servers/{server}/action", list[Cost]()
        for number in range(WARM_UP + ROUNDS):
            # Each time the other one: the content is replaced, never found to be the same.
            body = {"rebuild": {"imageRef": images[(number + 1) % 2]}}
            costs.append(await cloud.cost("POST", path, body))
            await require_rebuilt(cloud, server)
    return costs[WARM_UP:]


async def require_rebuilt(cloud: Inside, server: str) -> None:
    """Raise RuntimeError unless the server runs again: a failed rebuild has no time."""
    shown = (await cloud.ask("GET", f"/compute/v2.1/servers/{server}"))["server"]
    if shown["status"] != "ACTIVE" or shown["OS-EXT-STS:task_state"] is not None:
        raise RuntimeError(f"the server was not rebuilt: {shown}")


def main() -> None:
    """Measure, and tell."""
    with scratch() as directory:
        costs = asyncio.run(measure(directory))
    wall, cpu = (median(getattr(cost, name) for cost in costs) for name in ("wall_ms", "cpu_ms"))
    commits, least = max(cost.commits for cost in costs), min(cost.wall_ms for cost in costs)
    what, note = "rebuild of a 1 GiB volume", f"all operations ended; the least {least:.0f} ms"
    tell(
        Row(what=what, measured=wall, unit="ms", budget=BUDGET_MS, note=note),
        Row(what=f"{what}: CPU", measured=cpu, unit="ms", note="in one process"),
        Row(what=f"{what}: commits", measured=commits, unit=""),
    )


if __name__ == "__main__":
    main()
