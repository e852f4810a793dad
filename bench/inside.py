"""A whole cloud in this process, on the real clock and a real disk, with simulated hosts."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct
from sqlalchemy import func, select

from mooring import access, logs
from mooring.agent.app import RunningAgent, open_agent
from mooring.agent.settings import AgentSettings
from mooring.agent_api.client import Agents
from mooring.clients.identity import Login, ServiceUser
from mooring.clients.transport import Network, Request
from mooring.clock import RealClock
from mooring.cloud import Cloud, Outside, open_cloud
from mooring.config import Settings
from mooring.probe import NoProbe
from mooring.saga.tables import SagaRow

if TYPE_CHECKING:
    from mooring.agent.simulated import SimulatedHypervisor

URL = "http://bench.test"
HOST, VCPUS = "bench", 512
UNLIMITED = {
    "volume/v3": ("volumes", "gigabytes"),
    "compute/v2.1": ("instances", "cores", "ram"),
}
_unfinished = select(func.count()).select_from(SagaRow).where(SagaRow.state != "ended")


class Cost(Struct, frozen=True):
    """What one request and the operation behind it took: CPU and wall, and commits."""

    cpu_ms: float
    wall_ms: float
    commits: int


class Inside:
    """The cloud and a user of project demo. CPU is that of the whole process, user included."""

    def __init__(
        self, cloud: Cloud, running: Sequence[RunningAgent], users: Mapping[str, ServiceUser]
    ) -> None:
        self.cloud, self._running, self._users = cloud, running, users

    def commits(self) -> int:
        """Return the commits so far: every service's, and those of the agents' journals."""
        stores = sum(store.commits for store in self.cloud.stores.values())
        return stores + sum(running.agent.journal.commits for running in self._running)

    def hypervisor(self, host: str) -> SimulatedHypervisor:
        """Return what has the guests of a host."""
        agents = (running.agent for running in self._running)
        found = next(agent for agent in agents if agent.settings.name == host)
        return cast("SimulatedHypervisor", found.hypervisor)

    async def ask(self, method: str, path: str, body: Any = None, *, user: str = "demo") -> Any:
        """Send a request without a socket and return its decoded body. Raises RuntimeError."""
        service = path.split("/")[1]
        latest = {"compute": "compute 2.106", "volume": "volume 3.60"}.get(service, "")
        headers = {
            "x-auth-token": await self._users[user].token(),
            "content-type": "application/json",
            "openstack-api-version": latest,
            "x-openstack-manila-api-version": "2.82",
        }
        content = b"" if body is None else msgspec.json.encode(body)
        request = Request(method, URL + path, headers, content)
        response = await self.cloud.outside.network.send(request)
        raw = response.body
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {raw.decode()}")
        return msgspec.json.decode(raw) if raw else None

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Look again, at growing intervals, until something holds."""
        pause_s = 0.002
        while not await holds():
            await asyncio.sleep(pause_s)
            pause_s = min(0.1, pause_s * 1.5)

    async def rest(self) -> None:
        """Wait until every operation has ended."""
        schedules = [engine.schedule for engine in self.cloud.engines.values()]
        while not all(schedule.is_quiet() for schedule in schedules):
            await asyncio.gather(*(schedule.quiet() for schedule in schedules))
        for name in self.cloud.engines:
            store = self.cloud.stores[name]
            left = await store.read(lambda tx: tx.execute(_unfinished).scalar_one())
            if left:
                await asyncio.sleep(0.05)
                await self.rest()

    async def cost(self, method: str, path: str, body: Any = None, *, user: str = "demo") -> Cost:
        """Send a request and let its operation end; return what both took."""
        schedules = [engine.schedule for engine in self.cloud.engines.values()]
        commits, cpu, wall = self.commits(), time.process_time(), time.perf_counter()
        await self.ask(method, path, body, user=user)
        while not all(schedule.is_quiet() for schedule in schedules):
            await asyncio.gather(*(schedule.quiet() for schedule in schedules))
        took = time.process_time() - cpu, time.perf_counter() - wall
        return Cost(took[0] * 1000, took[1] * 1000, self.commits() - commits)

    async def lift_quotas(self) -> None:
        """Let the project demo have as much as it likes."""
        found = await self.ask("GET", "/identity/v3/projects?name=demo", user="admin")
        project_id = found["projects"][0]["id"]
        for root, names in UNLIMITED.items():
            body = {"quota_set": dict.fromkeys(names, -1)}
            await self.ask("PUT", f"/{root}/os-quota-sets/{project_id}", body, user="admin")

    async def make_server(self, image_id: str) -> str:
        """Make a server of the smallest flavor."""
        wanted = {"name": "bench", "flavorRef": "42", "imageRef": image_id, "networks": "none"}
        made = await self.ask("POST", "/compute/v2.1/servers", {"server": wanted})
        return made["server"]["id"]

    async def make_server_on_volume(self, image_id: str) -> str:
        """Make a server that boots from a volume of 1 GiB, made from an image."""
        disk = {
            "boot_index": 0,
            "source_type": "image",
            "destination_type": "volume",
            "uuid": image_id,
            "volume_size": 1,
            "delete_on_termination": True,
        }
        wanted = {"name": "bench", "flavorRef": "42", "networks": "none"}
        body = {"server": {**wanted, "block_device_mapping_v2": [disk]}}
        return (await self.ask("POST", "/compute/v2.1/servers", body))["server"]["id"]

    async def make_volume(self) -> str:
        """Make a volume of 1 GiB."""
        made = await self.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
        return made["volume"]["id"]

    async def make_image(self) -> str:
        """Make an image without a byte of sense in it."""
        body = {"name": "bench", "disk_format": "raw", "container_format": "bare"}
        image_id = (await self.ask("POST", "/image/v2/images", body))["id"]
        path = f"/image/v2/images/{image_id}/file"
        headers = {
            "x-auth-token": await self._users["demo"].token(),
            "content-type": "application/octet-stream",
        }
        await self.cloud.outside.network.send(Request("PUT", URL + path, headers, b"\0" * 65536))
        return image_id


def _plain_host(directory: Path) -> AgentSettings:
    """Return a host with room for many servers, and a pool of its own."""
    return AgentSettings(
        name=HOST, state_dir=directory / "host", hypervisor="simulated", vcpus=VCPUS
    )


@asynccontextmanager
async def open_inside(
    directory: Path, *, hosts: Sequence[AgentSettings] = (), inline: bool = False
) -> AsyncGenerator[Inside]:
    """Start a cloud in a directory, until the block ends; `inline` without threads of stores.

    It has the given `hosts`, else a single one. What is logged goes to standard error, as standard
    output has the rows alone (`bench/__main__.py`).
    """
    logs.configure("info")
    settings = Settings(state_dir=str(directory))
    async with AsyncExitStack() as stack:
        agents = Agents()
        running: list[RunningAgent] = []
        for wanted in hosts or (_plain_host(directory),):
            running.append(await stack.enter_async_context(open_agent(wanted)))
            agents.in_process(wanted.name, running[-1].app)
        stack.push_async_callback(agents.close)
        network = Network()
        outside = Outside(
            settings=settings,
            public_url=URL,
            agents=agents,
            clock=RealClock(),
            random=Random(1),  # noqa: S311  (jitter of retries)
            probe=NoProbe(),
            owner="bench",
            network=network,
            inline=inline,
        )
        cloud = await open_cloud(outside)
        stack.push_async_callback(cloud.close)
        await cloud.look_at_hosts()
        users = {name: _log_in(directory, name, network) for name in ("admin", "demo")}
        working = asyncio.create_task(cloud.run())
        inside = Inside(cloud, running, users)
        await inside.lift_quotas()
        yield inside
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def _log_in(state: Path, name: str, network: Network) -> ServiceUser:
    passwords = json.loads((state / access.PASSWORDS).read_text(encoding="utf-8"))
    login = Login(user_name=name, password=passwords[name], project_name=name)
    return ServiceUser(network, f"{URL}/identity/v3", login, clock=RealClock())
