"""What it costs to extend and create volumes, to boot from one, and to attach fifty at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.inside import Cost, Inside, open_inside
from bench.machine import median, scratch
from bench.rows import Row, tell

WARM_UP, ROUNDS = 4, 20
SERVERS, PER_SERVER = 5, 10
VOLUMES_PATH, SERVERS_PATH = "/volume/v3/volumes", "/compute/v2.1/servers"
BUDGETS = {"volume create": 12, "extend, detached": 12, "extend, attached": 20}
"""CPU of each, in ms."""
BOOT_MS, AT_ONCE_S = 120, 50 / 60


async def repeat(do: Callable[[int], Awaitable[Cost]]) -> list[Cost]:
    """Do something again and again; the first times warm caches and do not count."""
    return [await do(number) for number in range(WARM_UP + ROUNDS)][WARM_UP:]


async def measure_volumes(cloud: Inside, server: str) -> dict[str, list[Cost]]:
    """Create volumes, extend them, and extend them again at a server."""
    costs: dict[str, list[Cost]] = {}
    body = {"volume": {"size": 1}}
    costs["volume create"] = await repeat(lambda _: cloud.cost("POST", VOLUMES_PATH, body))
    await cloud.rest()
    shown = (await cloud.ask("GET", VOLUMES_PATH))["volumes"]
    volumes = [volume["id"] for volume in shown][: WARM_UP + ROUNDS]

    async def extend(number: int, size: int) -> Cost:
        path = f"{VOLUMES_PATH}/{volumes[number]}/action"
        return await cloud.cost("POST", path, {"os-extend": {"new_size": size}})

    costs["extend, detached"] = await repeat(lambda number: extend(number, 2))
    await cloud.rest()
    for volume in volumes:
        await attach(cloud, server, volume)
    await cloud.rest()
    costs["extend, attached"] = await repeat(lambda number: extend(number, 3))
    await cloud.rest()
    grown = (await cloud.ask("GET", f"{VOLUMES_PATH}/detail"))["volumes"]
    if {(one["status"], one["size"]) for one in grown} != {("in-use", 3)}:
        raise RuntimeError(f"the volumes were not extended: {grown}")
    return costs


async def attach(cloud: Inside, server: str, volume: str) -> None:
    """Ask for one attachment."""
    path = f"{SERVERS_PATH}/{server}/os-volume_attachments"
    await cloud.ask("POST", path, {"volumeAttachment": {"volumeId": volume}})


async def measure_boots(cloud: Inside, image: str) -> list[float]:
    """Return how many ms servers on a new volume took from the request until ACTIVE.

    Nobody looks meanwhile: at that pace each look would cost as much as what is measured.
    """
    walls: list[float] = []
    for _ in range(WARM_UP + ROUNDS):
        started = time.perf_counter()
        server = await cloud.make_server_on_volume(image)
        await cloud.rest()
        walls.append((time.perf_counter() - started) * 1000)
        shown = (await cloud.ask("GET", f"{SERVERS_PATH}/{server}"))["server"]
        if shown["status"] != "ACTIVE":
            raise RuntimeError(f"the server was not started: {shown}")
    return walls[WARM_UP:]


async def measure_at_once(cloud: Inside, image: str) -> float:
    """Return how many seconds fifty attachments took that were asked for at once."""
    servers = [await cloud.make_server(image) for _ in range(SERVERS)]
    volumes = [await cloud.make_volume() for _ in range(SERVERS * PER_SERVER)]
    await cloud.rest()
    started = time.perf_counter()
    pairs = zip(servers * PER_SERVER, volumes, strict=True)
    await asyncio.gather(*(attach(cloud, server, volume) for server, volume in pairs))
    await cloud.rest()
    return time.perf_counter() - started


async def measure(directory: Path) -> tuple[dict[str, list[Cost]], list[float], float]:
    """Measure all of it, in one cloud."""
    async with open_inside(directory) as cloud:
        image = await cloud.make_image()
        server = await cloud.make_server(image)
        await cloud.rest()
        costs = await measure_volumes(cloud, server)
        return costs, await measure_boots(cloud, image), await measure_at_once(cloud, image)


def main() -> None:
    """Measure, and tell."""
    with scratch() as directory:
        costs, boots, at_once = asyncio.run(measure(directory))
    for what, found in costs.items():
        cpus, note = [cost.cpu_ms for cost in found], f"the least of {ROUNDS}; in one process"
        least, budget = min(cpus), BUDGETS[what]
        tell(
            Row(what=f"{what}: CPU", measured=least, unit="ms", budget=budget, note=note),
            Row(what=f"{what}: CPU, median", measured=median(cpus), unit="ms"),
            Row(what=f"{what}: commits", measured=max(cost.commits for cost in found), unit=""),
        )
    what, note = "volume-backed create until ACTIVE", f"the least {min(boots):.0f} ms"
    tell(Row(what=what, measured=median(boots), unit="ms", budget=BOOT_MS, note=note))
    rate = SERVERS * PER_SERVER / at_once
    what, note = "50 attaches at once", f"{rate:.0f} a second, at {SERVERS} servers of one host"
    tell(Row(what=what, measured=at_once, unit="s", budget=AT_ONCE_S, note=note))


if __name__ == "__main__":
    main()
