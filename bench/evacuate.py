"""What it takes to evacuate a host: all its servers, and each of them.

The hosts are simulated and share one pool of volumes; the one that dies has no part in it, so what
is measured is all but the guests' start.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from bench.inside import Inside, open_inside
from bench.machine import scratch
from bench.moves import SERVERS, allow_files, create, make_hosts
from bench.rows import Row, tell

if TYPE_CHECKING:
    from pathlib import Path

HOSTS, COUNT = 4, 100
DEAD = "bench1"
SERVICES = "/compute/v2.1/os-services"
EVACUATION = f"/compute/v2.1/mooring/evacuations/{DEAD}"


async def say(cloud: Inside, body: dict[str, object], *, dead: bool) -> None:
    """Change the service of the host that is to die, or those of all others."""
    listed = await cloud.ask("GET", f"{SERVICES}?binary=nova-compute", user="admin")
    for one in listed["services"]:
        if (one["host"] == DEAD) is dead:
            await cloud.ask("PUT", f"{SERVICES}/{one['id']}", body, user="admin")


async def measure(directory: Path) -> tuple[float, float]:
    """Return how long the evacuation of all servers takes, and what it costs, both in seconds."""
    async with open_inside(directory, hosts=make_hosts(directory, HOSTS)) as cloud:
        image = await cloud.make_image()
        await say(cloud, {"status": "disabled"}, dead=False)
        made = [await create(cloud, image) for _ in range(COUNT)]
        await say(cloud, {"status": "enabled"}, dead=False)
        for server in made:
            cloud.hypervisor(DEAD).crash(server)
        await say(cloud, {"forced_down": True}, dead=True)
        wall, cpu = time.perf_counter(), time.process_time()
        await cloud.ask("PUT", EVACUATION, user="admin")

        async def is_over() -> bool:
            found = await cloud.ask("GET", EVACUATION, user="admin")
            return found["status"] != "draining"

        await cloud.until(is_over)
        took = time.perf_counter() - wall, time.process_time() - cpu
        left = (await cloud.ask("GET", EVACUATION, user="admin"))["left"]
        shown = await cloud.ask("GET", f"{SERVERS}/{made[-1]}")
        if left or shown["server"]["status"] != "ACTIVE":
            raise RuntimeError(f"not all servers were evacuated: {left}, {shown}")
        return took


def main() -> None:
    """Evacuate a host of many servers, and tell."""
    allow_files()
    with scratch() as directory:
        wall, cpu = asyncio.run(measure(directory))
    note = "twenty at a time, looked after every two seconds"
    tell(
        Row(what=f"evacuate {COUNT} servers", measured=wall, unit="s", note=note),
        Row(what="evacuate: CPU of each", measured=cpu * 1000 / COUNT, unit="ms"),
    )


if __name__ == "__main__":
    main()
