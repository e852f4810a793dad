"""Compute with its neighbours in one process: volumes, placement, hosts, an image shelf."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import httpx2
import msgspec
from sqlalchemy import delete
from sqlalchemy.orm import Session as Transaction

from mooring.agent.app import RunningAgent, open_agent
from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent.settings import AgentSettings, Role
from mooring.agent.simulated import SimulatedHypervisor
from mooring.agent_api.client import Agents
from mooring.agent_api.disks import DiskSpec
from mooring.agent_api.transport import Forward, Request, Response
from mooring.clients.compute import ComputeClient
from mooring.clients.image import ImageClient
from mooring.clients.placement import PlacementClient
from mooring.clients.transport import Network
from mooring.clients.volume import VolumeClient
from mooring.clock import SimulatedClock
from mooring.compute.app import SERVICE as COMPUTE
from mooring.compute.hosts.loops import watch_hosts
from mooring.compute.service import Compute, ComputeSettings
from mooring.compute.tables import BlockDevice, Server
from mooring.compute.volumes import disk_places
from mooring.errors import Unavailable
from mooring.placement.app import SERVICE as PLACEMENT
from mooring.placement.service import Placement
from mooring.saga.engine import Engine
from mooring.saga.laws import LawProbe
from mooring.saga.seal import Sealer
from mooring.store.base import Store
from mooring.volume.app import SERVICE as VOLUME
from mooring.volume.backends.loops import watch_pools
from mooring.volume.service import Volume
from tests.callers import PROJECT, Tokens, session
from tests.migrated import open_store
from tests.pace import Pace

S = TypeVar("S")
T = TypeVar("T")
ROOT = "http://cloud"
URLS = {name: f"{ROOT}/{name}" for name in ("compute", "volume", "placement", "image")}
IMAGE = "0f9a1f3e-54f4-4b1a-9d1a-6b1f0d9f7c11"
DATA = b"\0" * 65536
SEALER = Sealer(b"s" * 32)


async def image_shelf(scope: Any, receive: Any, send: Any) -> None:
    """An image service with one small raw image."""
    path, status, body = scope["path"], 404, b"{}"
    if path.endswith(f"/images/{IMAGE}/file"):
        status, body = 200, DATA
    elif path.endswith(f"/images/{IMAGE}"):
        said = {
            "id": IMAGE,
            "status": "active",
            "name": "tiny",
            "disk_format": "raw",
            "container_format": "bare",
            "size": len(DATA),
            "min_disk": 0,
            "min_ram": 0,
            "os_hash_algo": "sha512",
            "os_hash_value": hashlib.sha512(DATA).hexdigest(),
            "hw_disk_bus": "virtio",
        }
        status, body = 200, msgspec.json.encode(said)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Yard:
    """The whole, opened in a directory; `crash` lets all of it die and opens it again."""

    def __init__(
        self, directory: Path, *, hosts: int = 1, settings: ComputeSettings | None = None
    ) -> None:
        self.directory, self.host_names = directory, [f"host{n + 1}" for n in range(hosts)]
        self.settings = settings or ComputeSettings()
        self.versions: dict[str, int] = {}
        self.roles: dict[str, tuple[Role, ...]] = {}
        self.hidden_traits: frozenset[str] = frozenset()
        self.probe, self.clock, self._stack = LawProbe(), SimulatedClock(), AsyncExitStack()
        self.pace = Pace(self.clock, self.probe, lambda: (self.volume.sagas, self.compute.sagas))
        self.silent: tuple[str, str] | None = None
        """Method, "" for any, and path of calls to agents that get no answer."""

    compute_project, image = PROJECT, IMAGE

    async def open(self) -> None:
        """Start everything and look at the hosts once."""
        self._stack = AsyncExitStack()
        self.network, self.agents = Network(), Agents(self.clock)
        self.agents.deliver = self._deliver
        self.running: dict[str, RunningAgent] = {}
        for name in self.host_names:
            await self._open_agent(name)
        self.stores = {name: await self._store(name) for name in ("compute", "volume", "placement")}
        self._build()
        await VOLUME.prepare(self.volume)
        await COMPUTE.prepare(self.compute)
        for engine in (self.volume.sagas, self.compute.sagas):
            await engine.open()
        self._tasks = [
            asyncio.create_task(engine.run()) for engine in (self.volume.sagas, self.compute.sagas)
        ]
        await self.look()

    async def close(self) -> None:
        """Stop everything as it stands."""
        for engine in (self.volume.sagas, self.compute.sagas):
            await engine.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.network.aclose()
        await self._stack.aclose()

    async def settle(self) -> None:
        """Return when no saga can move any more, on the simulated clock."""
        await self.pace.rest()

    async def look(self) -> None:
        """Let the loops look at all hosts once."""
        await watch_hosts.look_once(self.compute)
        await watch_pools.look_once(self.volume)

    async def meanwhile(
        self, asking: Coroutine[Any, Any, T], *, turns: int = 50
    ) -> asyncio.Task[T]:
        """Begin to ask, and return once the request has got as far as it can by itself."""
        task = asyncio.create_task(asking)
        for _ in range(turns):
            await asyncio.sleep(0)
        return task

    def hypervisor(self, host: str = "host1") -> SimulatedHypervisor:
        """Return a simulated host's hypervisor, with its knobs."""
        found = self.running[host].agent.hypervisor
        assert isinstance(found, SimulatedHypervisor)
        return found

    def driver(self, host: str = "host1") -> SimulatedDriver:
        """Return a simulated host's storage, with its knobs."""
        found = next(iter(self.running[host].agent.drivers.values()))
        assert isinstance(found, SimulatedDriver)
        return found

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        who: str = "member",
        version: str = "2.100",
        service: str = "compute",
    ) -> httpx2.Response:
        """Ask a service; `path` is relative to its versioned root."""
        segment = {"compute": "/v2.1", "volume": "/v3", "placement": "", "image": "/v2"}[service]
        headers = {"X-Auth-Token": who, "OpenStack-API-Version": f"{service} {version}"}
        async with httpx2.AsyncClient(transport=self.network) as client:
            url = URLS[service] + segment + path
            return await client.request(method, url, json=body, headers=headers, timeout=30)

    async def volume_api(self, method: str, path: str, body: Any = None, **how: Any) -> Any:
        """Ask the volume service and return what it answers, decoded."""
        how = {"service": "volume", "version": "3.67", **how}
        answer = await self.ask(method, path, body, **how)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    async def make_volume(self, size_gib: int = 1, *, bootable: bool = False) -> str:
        """Make a volume and wait for it; return its id."""
        made = await self.volume_api("POST", "/volumes", {"volume": {"size": size_gib}})
        volume_id = made["volume"]["id"]
        await self.settle()
        if bootable:
            mark = {"os-set_bootable": {"bootable": True}}
            await self.volume_api("POST", f"/volumes/{volume_id}/action", mark)
        assert await self.volume_status(volume_id) == "available"
        return volume_id

    async def make_shared_volume(self) -> str:
        """Make a volume that several servers may have; return its id."""
        specs = {"name": "shared", "extra_specs": {"multiattach": "<is> True"}}
        await self.volume_api("POST", "/types", {"volume_type": specs}, who="admin")
        body = {"volume": {"size": 1, "volume_type": "shared"}}
        made = (await self.volume_api("POST", "/volumes", body))["volume"]
        await self.settle()
        return made["id"]

    async def volume_status(self, volume_id: str) -> str:
        """Return a volume's status; `gone` when there is none."""
        answer = await self.ask("GET", f"/volumes/{volume_id}", service="volume", version="3.67")
        return "gone" if answer.status_code == 404 else answer.json()["volume"]["status"]

    async def make_server(self, **more: Any) -> str:
        """Make a server and wait for it; return its id."""
        wanted = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none", **more}
        answer = await self.ask("POST", "/servers", {"server": wanted})
        assert answer.status_code == 202, answer.text
        await self.settle()
        return answer.json()["server"]["id"]

    async def server(self, server_id: str, *, version: str = "2.100") -> dict[str, Any]:
        """Return a server as an administrator sees it."""
        answer = await self.ask("GET", f"/servers/{server_id}", who="admin", version=version)
        return answer.json()["server"] if answer.status_code == 200 else {"status": "gone"}

    async def act(self, server_id: str, action: str, value: Any = None, **how: Any) -> int:
        """Run a server action; return the status code."""
        path = f"/servers/{server_id}/action"
        return (await self.ask("POST", path, {action: value}, **how)).status_code

    async def attach(self, server_id: str, volume_id: str, **how: Any) -> httpx2.Response:
        """Attach a volume."""
        body = {"volumeAttachment": {"volumeId": volume_id, **how.pop("more", {})}}
        return await self.ask("POST", f"/servers/{server_id}/os-volume_attachments", body, **how)

    async def detach(self, server_id: str, volume_id: str, **how: Any) -> httpx2.Response:
        """Detach a volume."""
        path = f"/servers/{server_id}/os-volume_attachments/{volume_id}"
        return await self.ask("DELETE", path, **how)

    async def attachments(self, server_id: str, version: str = "2.89") -> list[dict[str, Any]]:
        """Return a server's volumes."""
        path = f"/servers/{server_id}/os-volume_attachments"
        answer = await self.ask("GET", path, version=version)
        return answer.json()["volumeAttachments"]

    async def actions(self, server_id: str) -> list[tuple[str, str | None]]:
        """Return a server's actions with their messages, oldest first."""
        answer = await self.ask("GET", f"/servers/{server_id}/os-instance-actions", who="admin")
        listed = [(one["action"], one["message"]) for one in answer.json()["instanceActions"]]
        return listed[::-1]

    async def claim(self, consumer: str, allocations: dict[str, dict[str, int]]) -> None:
        """Take room on a host for a consumer."""
        placement = self.compute.placement
        await placement.claim(consumer, allocations, project_id=PROJECT, user_id="somebody")

    async def disks(self, server_id: str, host: str = "host1") -> list[str]:
        """Return the volumes that a guest has."""
        guest = await self.agents[host].show_server(server_id)
        return [disk.volume_id for disk in guest.disks] if guest else []

    async def connections(self, host: str = "host1") -> list[str]:
        """Return the volumes that a host has connected."""
        inventory = await self.agents[host].inventory()
        return [connected.volume_id for connected in inventory.connections]

    async def make_legacy(self, server_id: str, volume_id: str) -> None:
        """Give a server a volume by the old calls, as a service before 3.44 did."""
        connector = await self.agents["host1"].connector()
        path, how = f"/volumes/{volume_id}/action", {"who": "compute"}
        await self.volume_api("POST", path, {"os-reserve": None}, **how)
        action = {"os-initialize_connection": {"connector": connector}}
        answer = await self.volume_api("POST", path, action, **how)
        disk = DiskSpec(
            volume_id=volume_id,
            attachment_id=volume_id,
            connection=answer["connection_info"],
            device="/dev/vdx",
        )
        await self.agents["host1"].plug_disk(server_id, disk)
        attach = {"instance_uuid": server_id, "mountpoint": "/dev/vdx", "mode": "rw"}
        await self.volume_api("POST", path, {"os-attach": attach}, **how)
        row = BlockDevice(
            id=volume_id,
            server_id=server_id,
            state="attached",
            source_type="volume",
            destination_type="volume",
            device_name="/dev/vdx",
            volume_id=volume_id,
            created_at=self.clock.now(),
            updated_at=self.clock.now(),
        )

        def write(tx: Transaction) -> None:
            tx.add(row)
            tx.flush()
            disk_places.add(tx, volume_id, "host1", None, self.clock.now())

        await self.stores["compute"].write(write)

    async def _open_agent(self, name: str) -> None:
        settings = AgentSettings(
            name=name,
            state_dir=self.directory / name,
            hypervisor="simulated",
            version=self.versions.get(name, 74),
            roles=self.roles.get(name, ("compute", "volume")),
            hidden_traits=self.hidden_traits,
        )
        self.running[name] = await self._stack.enter_async_context(open_agent(settings))
        self.agents.in_process(name, self.running[name].app)

    def forget(self, tx: Transaction, server_id: str) -> None:
        """Lose a server's row, as a database restored from yesterday does."""
        tx.execute(delete(BlockDevice).where(BlockDevice.server_id == server_id))
        tx.execute(delete(Server).where(Server.id == server_id))

    async def _deliver(self, request: Request, forward: Forward) -> Response:
        if self.silent and all(map(str.startswith, (request.method, request.target), self.silent)):
            raise Unavailable("The agent gave no answer.")
        return await forward(request)

    async def _store(self, service: str) -> Store:
        store = await open_store(str(self.directory), service, probe=self.probe, inline=True)
        self._stack.push_async_callback(store.close)
        return store

    def _build(self) -> None:
        clock = self.clock
        self.placement = Placement(store=self.stores["placement"], clock=clock)
        self.volume = Volume(
            store=self.stores["volume"],
            images=ImageClient(session(self.network, "image", URLS["image"], own="volume")),
            compute=ComputeClient(session(self.network, "compute", URLS["compute"], own="volume")),
            agents=self.agents,
            sealer=SEALER,
            clock=clock,
        )
        self.compute = Compute(
            store=self.stores["compute"],
            images=ImageClient(session(self.network, "image", URLS["image"], own="compute")),
            placement=PlacementClient(
                session(self.network, "placement", URLS["placement"], own="compute")
            ),
            volumes=VolumeClient(session(self.network, "volume", URLS["volume"], own="compute")),
            agents=self.agents,
            clock=clock,
            settings=self.settings,
        )
        self.volume.sagas = self._engine("volume", self.volume)
        self.compute.sagas = self._engine("compute", self.compute)
        self._serve()

    def _engine(self, name: str, service: S) -> Engine[S]:
        return Engine(
            name,
            service,
            self.stores[name],
            clock=self.clock,
            random=Random(7),
            probe=self.probe,
            sealer=SEALER,
            owner="yard",
        )

    def _serve(self) -> None:
        tokens, serve = Tokens(), self.network.serve
        placement, volume, compute = (URLS[name] for name in ("placement", "volume", "compute"))
        serve(placement, PLACEMENT.build(self.placement, validator=tokens, public_url=placement))
        serve(volume, VOLUME.build(self.volume, validator=tokens, public_url=volume))
        serve(compute, COMPUTE.build(self.compute, validator=tokens, public_url=compute))
        serve(URLS["image"], image_shelf)
