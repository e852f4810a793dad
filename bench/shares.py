"""What shares cost: one that is made and opened to a client, given to a server, and moved with it.

The hosts are simulated: neither file system nor mount is in these figures. Beside them stands what
Manila took with a driver that stores nothing, on another machine.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from msgspec.structs import replace

from bench.inside import Cost, Inside, open_inside
from bench.machine import median, scratch
from bench.moves import make_hosts, require
from bench.rows import Row, tell
from mooring.agent.settings import AgentSettings, GuestShareSettings, MountSettings

WARM_UP, ROUNDS, HOSTS = 3, 20, 3
SHARES, SERVERS = "/share/v2/shares", "/compute/v2.1/servers"
MANILA_MS = {"share create": 206, "share allow": 267}
"""With a driver that stores nothing; what servers do with shares nobody has measured there."""
WHAT = ("share create", "share allow", "share attach", "cold migrate with a share", "confirm it")

Costs = dict[str, list[Cost]]


async def take(cloud: Inside, path: str, body: object) -> Cost:
    """Have an administrator ask for something; return what it took until all of it has ended.

    That is seen within 50 ms. Who waits for an access rule looks after 50 ms, then more rarely.
    """
    commits, cpu, wall = cloud.commits(), time.process_time(), time.perf_counter()
    await cloud.ask("POST", path, body, user="admin")
    await cloud.rest()
    cpu_ms, wall_ms = time.process_time() - cpu, time.perf_counter() - wall
    return Cost(cpu_ms * 1000, wall_ms * 1000, cloud.commits() - commits)


async def require_share(cloud: Inside, share: str) -> None:
    """Raise RuntimeError unless a share is there and whoever was allowed to may mount it."""
    shown = (await cloud.ask("GET", f"{SHARES}/{share}"))["share"]
    if (shown["status"], shown["access_rules_status"]) != ("available", "active"):
        raise RuntimeError(f"the share is not available: {shown}")


async def make(cloud: Inside, costs: Costs) -> str:
    """Make a share and let a client in; return its id."""
    body = {"share": {"size": 1, "share_proto": "NFS"}}
    costs["share create"].append(await cloud.cost("POST", SHARES, body))
    listed = (await cloud.ask("GET", f"{SHARES}?sort_key=created_at&sort_dir=desc"))["shares"]
    share = listed[0]["id"]
    allow = {"allow_access": {"access_type": "ip", "access_to": "198.51.100.7"}}
    costs["share allow"].append(await cloud.cost("POST", f"{SHARES}/{share}/action", allow))
    await require_share(cloud, share)
    return share


async def give(cloud: Inside, image: str, share: str, costs: Costs) -> str:
    """Make a server that is off, and give it a share; return its id, once it runs."""
    server = await cloud.make_server(image)
    await cloud.rest()
    await take(cloud, f"{SERVERS}/{server}/action", {"os-stop": None})
    body = {"share": {"share_id": share}}
    costs["share attach"].append(await take(cloud, f"{SERVERS}/{server}/shares", body))
    await take(cloud, f"{SERVERS}/{server}/action", {"os-start": None})
    await require(cloud, server, "ACTIVE")
    return server


def make_sharing_hosts(directory: Path) -> list[AgentSettings]:
    """Return hosts with addresses of their own, the first of which has the shares."""
    made = make_hosts(directory, HOSTS)
    made[0] = replace(made[0], roles=("compute", "volume", "share"))
    clients = (GuestShareSettings(share_address=f"192.0.2.{at}") for at in range(1, HOSTS + 1))
    return [
        replace(host, mounts=MountSettings(shares=client))
        for host, client in zip(made, clients, strict=True)
    ]


async def measure(directory: Path) -> Costs:
    """Measure all of it, in one cloud; the first rounds do not count."""
    costs: Costs = {what: [] for what in WHAT}
    async with open_inside(directory, hosts=make_sharing_hosts(directory)) as cloud:
        image = await cloud.make_image()
        for _ in range(WARM_UP + ROUNDS):
            share = await make(cloud, costs)
            server = await give(cloud, image, share, costs)
            path = f"{SERVERS}/{server}/action"
            costs[WHAT[3]].append(await take(cloud, path, {"migrate": None}))
            await require(cloud, server, "VERIFY_RESIZE")
            costs[WHAT[4]].append(await take(cloud, path, {"confirmResize": None}))
            await require(cloud, server, "ACTIVE")
    return {what: found[WARM_UP:] for what, found in costs.items()}


def main() -> None:
    """Measure, and tell."""
    with scratch() as directory:
        costs = asyncio.run(measure(directory))
    for what, found in costs.items():
        walls = [cost.wall_ms for cost in found]
        theirs = f"; Manila {MANILA_MS[what]} ms" if what in MANILA_MS else ""
        note = f"all operations ended; the least {min(walls):.0f} ms{theirs}"
        tell(
            Row(what=what, measured=median(walls), unit="ms", note=note),
            Row(what=f"{what}: CPU", measured=median(cost.cpu_ms for cost in found), unit="ms"),
            Row(what=f"{what}: commits", measured=max(one.commits for one in found), unit=""),
        )


if __name__ == "__main__":
    main()
