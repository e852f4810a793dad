"""A cloud of compute with volumes, placement and hosts; an image shelf stands for the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import delete
from sqlalchemy.orm import Session as Transaction

from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent.simulated import SimulatedHypervisor
from mooring.agent_api.transport import Forward, Request, Response
from mooring.compute.app import SERVICE as COMPUTE
from mooring.compute.service import Compute
from mooring.compute.tables import BlockDevice, Server
from mooring.errors import Unavailable
from mooring.placement.app import SERVICE as PLACEMENT
from mooring.store.base import Store
from mooring.volume.app import SERVICE as VOLUME
from mooring.volume.service import Volume
from tests import old_calls
from tests.answers import Answer
from tests.callers import PROJECT
from tests.cloud import SimulatedCloud
from tests.image_shelf import ImageShelf
from tests.migrated import open_store

T = TypeVar("T")
IMAGE = "0f9a1f3e-54f4-4b1a-9d1a-6b1f0d9f7c11"
NEW = "5b1c9c77-6a3b-4f6e-8a55-0c1b2d3e4f50"


class ComputeCloud(SimulatedCloud):
    """The services and everything to talk to them with."""

    def __init__(self, directory: Path, *, hosts: Collection[str] = ("host1",), **how: Any) -> None:
        self.shelf = ImageShelf()
        self.shelf.put(IMAGE, b"\0" * 65536, name="tiny", hw_disk_bus="virtio")
        self.shelf.put(NEW, b"new!" * 16384, name="new")
        how = {"services": (PLACEMENT, VOLUME, COMPUTE), "inline": True, **how}
        super().__init__(directory, stand_ins={"image": self.shelf}, hosts=hosts, **how)
        self.silent: tuple[str, str] | None = None
        """Method, "" for any, and path of calls to agents that get no answer."""
        self.ended_hosts: set[str] = set()
        """Hosts that answer nothing any more: `end_host` has switched them off."""
        self.deliver_to_host = self._deliver_unless_silent
        self.prepared: Any = None
        """What was made before the test, for the first who asks for such a thing."""

    root, user, version = "/compute/v2.1", "member", "2.100"
    project_id, image_id = PROJECT, IMAGE

    async def open_control(self) -> None:
        await super().open_control()
        self.compute: Compute = self.cloud[COMPUTE]
        self.volume: Volume = self.cloud[VOLUME]
        self.stores = self.cloud.stores

    async def open(self) -> None:
        await super().open()
        where = str(self.settings.state_path / "absent")
        self._absent = {
            name: await open_store(where, name, inline=True)
            for name in ("image", "share")
            if name not in self.stores
        }

    def every_store(self) -> Mapping[str, Store]:
        """Return the databases, and empty ones of the services that are not there."""
        return {**super().every_store(), **self._absent}

    async def close(self) -> None:
        await super().close()
        for store in self._absent.values():
            await store.close()

    async def meanwhile(
        self, asking: Coroutine[Any, Any, T], *, turns: int = 50
    ) -> asyncio.Task[T]:
        """Begin to ask, and return once the request has got as far as it can by itself."""
        task = asyncio.create_task(asking)
        for _ in range(turns):
            await asyncio.sleep(0)
        return task

    async def end_host(self, host: str) -> None:
        """Switch a host off, with all its guests: what a fence does."""
        for guest in await self.hypervisor(host).guests():
            await self.hypervisor(host).power_off(guest.server_id, 0)
        self.ended_hosts.add(host)

    def hypervisor(self, host: str = "host1") -> SimulatedHypervisor:
        """Return a simulated host's hypervisor, with its knobs."""
        found = self.agents[host].agent.hypervisor
        assert isinstance(found, SimulatedHypervisor)
        return found

    def driver(self, host: str = "host1") -> SimulatedDriver:
        """Return a simulated host's storage, with its knobs."""
        found = next(iter(self.agents[host].agent.drivers.values()))
        assert isinstance(found, SimulatedDriver)
        return found

    async def volume_api(self, method: str, path: str, body: Any = None, **how: Any) -> Any:
        """Ask the volume service and return what it answers, decoded."""
        how = {"version": "3.67", **how}
        answer = await self.ask(method, f"/volume/v3{path}", body, **how)
        assert answer.status < 300, answer.text
        return answer.body if answer.content else None

    def take_prepared(self) -> Any:
        """Return what was made before the test; None if nothing was, or somebody has it."""
        taken, self.prepared = self.prepared, None
        return taken

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
        await self.volume_api("POST", "/types", {"volume_type": specs}, user="admin")
        body = {"volume": {"size": 1, "volume_type": "shared"}}
        made = (await self.volume_api("POST", "/volumes", body))["volume"]
        await self.settle()
        return made["id"]

    async def volume_status(self, volume_id: str) -> str:
        """Return a volume's status; `gone` when there is none."""
        answer = await self.ask("GET", f"/volume/v3/volumes/{volume_id}", version="3.67")
        return "gone" if answer.status == 404 else answer.body["volume"]["status"]

    async def make_server(self, **more: Any) -> str:
        """Make a server and wait for it; return its id."""
        wanted = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none", **more}
        answer = await self.ask("POST", "/servers", {"server": wanted})
        assert answer.status == 202, answer.text
        await self.settle()
        return answer.body["server"]["id"]

    async def server(self, server_id: str, *, version: str = "2.100") -> dict[str, Any]:
        """Return a server as an administrator sees it."""
        answer = await self.ask("GET", f"/servers/{server_id}", user="admin", version=version)
        return answer.body["server"] if answer.status == 200 else {"status": "gone"}

    async def act(self, server_id: str, action: str, value: Any = None, **how: Any) -> int:
        """Run a server action; return the status code."""
        path = f"/servers/{server_id}/action"
        return (await self.ask("POST", path, {action: value}, **how)).status

    async def attach(self, server_id: str, volume_id: str, **how: Any) -> Answer:
        """Attach a volume."""
        body = {"volumeAttachment": {"volumeId": volume_id, **how.pop("more", {})}}
        return await self.ask("POST", f"/servers/{server_id}/os-volume_attachments", body, **how)

    async def make_attached(self) -> tuple[str, str]:
        """Make a server with a volume; return both ids."""
        server_id, volume_id = await self.make_server(), await self.make_volume()
        await self.attach(server_id, volume_id)
        await self.settle()
        return server_id, volume_id

    async def detach(self, server_id: str, volume_id: str, **how: Any) -> Answer:
        """Detach a volume."""
        path = f"/servers/{server_id}/os-volume_attachments/{volume_id}"
        return await self.ask("DELETE", path, **how)

    async def attachments(self, server_id: str, version: str = "2.89") -> list[dict[str, Any]]:
        """Return a server's volumes."""
        path = f"/servers/{server_id}/os-volume_attachments"
        answer = await self.ask("GET", path, version=version)
        return answer.body["volumeAttachments"]

    async def actions(self, server_id: str) -> list[tuple[str, str | None]]:
        """Return a server's actions, oldest first, each with the first word of its message."""
        answer = await self.ask("GET", f"/servers/{server_id}/os-instance-actions", user="admin")
        found = [(one["action"], one["message"]) for one in answer.body["instanceActions"]]
        listed = [(action, said and said.partition(":")[0]) for action, said in found]
        return listed[::-1]

    async def claim(self, consumer: str, allocations: dict[str, dict[str, int]]) -> None:
        """Take room on a host for a consumer."""
        placement = self.compute.placement
        await placement.claim(consumer, allocations, project_id=PROJECT, user_id="somebody")

    async def disks(self, server_id: str, host: str = "host1") -> list[str]:
        """Return the volumes that a guest has."""
        guest = await self.known_agents[host].show_server(server_id)
        return [disk.volume_id for disk in guest.disks] if guest else []

    async def connections(self, host: str = "host1") -> list[str]:
        """Return the volumes that a host has connected."""
        inventory = await self.known_agents[host].inventory()
        return [connected.volume_id for connected in inventory.connections]

    async def make_legacy(self, server_id: str, volume_id: str, host: str = "host1") -> None:
        """Give a server a volume by the old calls, as a service before 3.44 did."""
        await old_calls.give(self, server_id, volume_id, host)

    def forget(self, tx: Transaction, server_id: str) -> None:
        """Lose a server's row, as a database restored from yesterday does."""
        tx.execute(delete(BlockDevice).where(BlockDevice.server_id == server_id))
        tx.execute(delete(Server).where(Server.id == server_id))

    async def _deliver_unless_silent(self, request: Request, forward: Forward) -> Response:
        if request.headers["host"] in self.ended_hosts:
            raise Unavailable("The agent gave no answer.")
        if self.silent and all(map(str.startswith, (request.method, request.target), self.silent)):
            raise Unavailable("The agent gave no answer.")
        return await forward(request)
