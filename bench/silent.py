"""What a host that answers nothing costs another one: attaches beside forty that it holds up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.inside import HOST, VCPUS, Inside, open_inside
from bench.machine import median, scratch
from bench.rows import Row, tell
from mooring import logs
from mooring.agent.app import open_agent
from mooring.agent.settings import AgentSettings
from mooring.agent_api.client import AgentClient
from mooring.agent_api.transport import Forward, InProcess, Request, Response

FROZEN, HELD_UP, EACH = "frozen", 40, 8
BUDGET = 1.5
SERVERS, SERVICES = "/compute/v2.1/servers", "/compute/v2.1/os-services"


class Ice:
    """The way to a host, which holds every call from when it `froze` until it `thawed`."""

    def __init__(self) -> None:
        self.froze, self.thawed, self.is_held = False, asyncio.Event(), asyncio.Event()

    async def deliver(self, request: Request, forward: Forward) -> Response:
        """Deliver a request, at once or when the ice is gone."""
        if self.froze:
            self.is_held.set()
            await self.thawed.wait()
        return await forward(request)


@asynccontextmanager
async def second_host(cloud: Inside, directory: Path) -> AsyncGenerator[Ice]:
    """Run another host, without storage, behind the ice."""
    wanted = AgentSettings(
        name=FROZEN,
        state_dir=directory / FROZEN,
        hypervisor="simulated",
        vcpus=VCPUS,
        roles=("compute",),
    )
    async with open_agent(wanted) as agent:
        ice = Ice()
        cloud.cloud.agents.add(AgentClient(FROZEN, InProcess(agent.app, ice.deliver)))
        await cloud.cloud.look_at_hosts()
        try:
            yield ice
        finally:
            ice.thawed.set()
            await cloud.rest()


async def allow(cloud: Inside, *, new_servers: bool) -> None:
    """Let the first host take new servers, or not."""
    found = (await cloud.ask("GET", f"{SERVICES}?binary=nova-compute", user="admin"))["services"]
    (service,) = [one for one in found if one["host"] == HOST]
    body = {"status": "enabled" if new_servers else "disabled"}
    await cloud.ask("PUT", f"{SERVICES}/{service['id']}", body, user="admin")
    await cloud.cloud.look_at_hosts()


async def attach(cloud: Inside, server: str, volume: str) -> None:
    """Begin to attach."""
    body = {"volumeAttachment": {"volumeId": volume}}
    await cloud.ask("POST", f"{SERVERS}/{server}/os-volume_attachments", body)


async def turns(cloud: Inside, server: str, volumes: list[str]) -> float:
    """Attach one volume after the other; return the median time until `in-use`, in ms."""
    took: list[float] = []
    for volume in volumes:

        async def is_in_use(volume: str = volume) -> bool:
            shown = await cloud.ask("GET", f"/volume/v3/volumes/{volume}")
            return shown["volume"]["status"] == "in-use"

        started = time.perf_counter()
        await attach(cloud, server, volume)
        await cloud.until(is_in_use)
        took.append((time.perf_counter() - started) * 1000)
    return median(took)


async def measure(directory: Path) -> list[Row]:
    """Attach on a healthy host: alone, beside a frozen host, and once that is known as silent."""
    async with open_inside(directory) as cloud:
        image = await cloud.make_image()
        healthy = await cloud.make_server(image)
        await cloud.rest()
        async with second_host(cloud, directory) as ice:
            await allow(cloud, new_servers=False)
            frozen = [await cloud.make_server(image) for _ in range(2)]
            await allow(cloud, new_servers=True)
            volumes = [await cloud.make_volume() for _ in range(HELD_UP + 3 * EACH)]
            await cloud.rest()
            quiet = await turns(cloud, healthy, volumes[:EACH])
            ice.froze = True
            for number, volume in enumerate(volumes[3 * EACH :]):
                await attach(cloud, frozen[number % 2], volume)
            await ice.is_held.wait()

            async def is_known() -> bool:
                return bool(cloud.cloud.agents.doors.silent())

            early = await turns(cloud, healthy, volumes[EACH : 2 * EACH])
            await cloud.until(is_known)
            known = await turns(cloud, healthy, volumes[2 * EACH : 3 * EACH])
    what = f"attach beside {HELD_UP} on a frozen host"
    return [
        Row(what=f"{what}, at once", measured=early / quiet, unit="x", budget=BUDGET),
        Row(what=f"{what}, known as silent", measured=known / quiet, unit="x", budget=BUDGET),
        Row(what="attach beside nothing, to compare", measured=quiet, unit="ms"),
    ]


def main() -> None:
    """Measure and hand over. What is logged of a silent host is no row."""
    logs.configure("error")
    with scratch() as directory:
        tell(*asyncio.run(measure(directory)))


if __name__ == "__main__":
    main()
