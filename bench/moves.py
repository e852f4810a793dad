"""What servers' moves cost, and how a creation and a move grow with the number of hosts.

The hosts are simulated and share one pool of volumes; guests stop and start at once there, so what
is measured is all but the guests.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Mapping
from pathlib import Path

from bench.inside import Cost, Inside, open_inside
from bench.machine import median, scratch
from bench.rows import Row, tell
from mooring.agent.settings import AgentSettings, PoolSettings

WARM_UP, ROUNDS = 3, 20
FEW, MANY, GROWTH = 10, 1000, 1.5
"""Hosts, and how many times as long anything may take where there are many."""
BUDGETS = {"cold migrate": 100.0, "confirm": 40.0, "revert": None, "live migrate": 120.0}
"""Wall time of each until its operation ended, in ms."""
SERVERS = "/compute/v2.1/servers"
POOL_GIB = 4096

Costs = dict[str, list[Cost]]


def make_hosts(directory: Path, count: int) -> list[AgentSettings]:
    """Return hosts that share the pool of the first one."""
    shared = PoolSettings(name="shared", driver="simulated", path="shared", total_gib=POOL_GIB)
    return [
        AgentSettings(
            name=f"bench{number}",
            state_dir=directory / f"host{number}",
            hypervisor="simulated",
            roles=("compute",) if number else ("compute", "volume"),
            pools=() if number else (shared,),
        )
        for number in range(count)
    ]


async def act(cloud: Inside, server: str, body: object) -> Cost:
    """Let an administrator act on a server, and let the operation end."""
    return await cloud.cost("POST", f"{SERVERS}/{server}/action", body, user="admin")


async def require(cloud: Inside, server: str, status: str) -> None:
    """Raise RuntimeError unless a server has a status and nothing is under way: no time else."""
    shown = (await cloud.ask("GET", f"{SERVERS}/{server}"))["server"]
    if shown["status"] != status or shown["OS-EXT-STS:task_state"] is not None:
        raise RuntimeError(f"the server is not {status}: {shown}")


async def move(cloud: Inside, server: str, costs: Costs) -> None:
    """Migrate a server while it runs; move it while it is off, and back; again, and for good."""
    live = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
    costs["live migrate"].append(await act(cloud, server, live))
    await require(cloud, server, "ACTIVE")
    for word in ("revert", "confirm"):
        costs["cold migrate"].append(await act(cloud, server, {"migrate": None}))
        await require(cloud, server, "VERIFY_RESIZE")
        costs[word].append(await act(cloud, server, {f"{word}Resize": None}))
        await require(cloud, server, "ACTIVE")


async def create(cloud: Inside, image: str) -> str:
    """Make a server that boots from a volume, and let that end."""
    made = await cloud.make_server_on_volume(image)
    await cloud.rest()
    await require(cloud, made, "ACTIVE")
    return made


async def measure(directory: Path, hosts: int) -> Costs:
    """Measure creations and moves among so many hosts; the first rounds do not count."""
    costs: Costs = {what: [] for what in ("server create", *BUDGETS)}
    async with open_inside(directory, hosts=make_hosts(directory, hosts)) as cloud:
        image = await cloud.make_image()
        server = await create(cloud, image)
        wanted = {"name": "bench", "flavorRef": "42", "imageRef": image, "networks": "none"}
        for _ in range(WARM_UP + ROUNDS):
            costs["server create"].append(await cloud.cost("POST", SERVERS, {"server": wanted}))
            await move(cloud, server, costs)
    return {what: found[WARM_UP:] for what, found in costs.items()}


def allow_files() -> None:
    """Let this process have as many files open as the system lets it: each host has some."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    """Measure among a few hosts, then among many, and tell."""
    allow_files()
    found: dict[int, dict[str, float]] = {}
    for hosts in (FEW, MANY):
        with scratch() as directory:
            costs = asyncio.run(measure(directory, hosts))
        found[hosts] = {what: median(cost.wall_ms for cost in costs[what]) for what in costs}
        if hosts == FEW:
            tell_costs(costs, BUDGETS)
    for what, many in found[MANY].items():
        grown, note = many / found[FEW][what], f"{found[FEW][what]:.0f} and {many:.0f} ms"
        name = f"{what} among {MANY} hosts, in times of {FEW}"
        tell(Row(what=name, measured=grown, unit="times", budget=GROWTH, note=note))


def tell_costs(costs: Costs, budgets: Mapping[str, float | None]) -> None:
    """Tell what each took until its operation ended, beside its budget in ms."""
    for what, budget in budgets.items():
        least = min(cost.wall_ms for cost in costs[what])
        wall = median(cost.wall_ms for cost in costs[what])
        cpu = median(cost.cpu_ms for cost in costs[what])
        commits = max(cost.commits for cost in costs[what])
        note = f"all operations ended; the least {least:.0f} ms"
        tell(
            Row(what=what, measured=wall, unit="ms", budget=budget, note=note),
            Row(what=f"{what}: CPU", measured=cpu, unit="ms", note="in one process"),
            Row(what=f"{what}: commits", measured=commits, unit=""),
        )


if __name__ == "__main__":
    main()
