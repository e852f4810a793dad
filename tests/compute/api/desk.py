"""The compute API on a temporary database, with an engine that rests and neighbours that answer.

Sagas are written down and never run, so a server stays as its request left it; rows in other
states are put there by the tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from random import Random
from typing import Any
from uuid import uuid4

import httpx2
from sqlalchemy import insert
from sqlalchemy.orm import DeclarativeBase

from mooring.agent_api.client import Agents
from mooring.clients.image import Image, ImageClient
from mooring.clients.placement import PlacementClient
from mooring.clients.session import Caller
from mooring.clients.transport import Network
from mooring.clients.volume import VolumeClient
from mooring.clock import SimulatedClock
from mooring.compute.app import SERVICE as COMPUTE
from mooring.compute.service import Compute
from mooring.compute.tables import Host, Server
from mooring.errors import NotFound
from mooring.probe import NoProbe
from mooring.saga.engine import Engine
from mooring.saga.seal import Sealer
from mooring.store.base import Store
from tests.callers import PROJECT, Tokens, session

URL = "http://cloud/compute"
IMAGE = "11111111-1111-4111-8111-111111111111"
FLAVOR = "1"


class Gallery(ImageClient):
    """An image service with one image."""

    async def show(self, caller: Caller, image_id: str) -> Image:
        if image_id != IMAGE:
            raise NotFound(f"No image found with ID {image_id}")
        return Image(id=IMAGE, status="active", name="cirros", properties={"os_distro": "cirros"})


class Desk:
    """The service and everything to talk to it with."""

    def __init__(self, store: Store) -> None:
        self.clock = SimulatedClock()
        self.network = Network()
        self.compute = Compute(
            store=store,
            images=Gallery(session(self.network, "image", "http://cloud/image")),
            placement=PlacementClient(session(self.network, "placement", "http://cloud/placement")),
            volumes=VolumeClient(session(self.network, "volume", "http://cloud/volume")),
            agents=Agents(),
            clock=self.clock,
        )
        self.compute.sagas = Engine(
            "compute",
            self.compute,
            store,
            clock=self.clock,
            random=Random(1),
            probe=NoProbe(),
            sealer=Sealer(bytes(32)),
            owner="desk",
        )
        self.app = COMPUTE.build(self.compute, validator=Tokens(), public_url=URL)
        self.network.serve(URL, self.app)

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        version: str = "2.1",
        who: str = "member",
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        sent = {"X-Auth-Token": who, "OpenStack-API-Version": f"compute {version}"}
        url = path if path.startswith("http") else f"{URL}/v2.1{path}"
        async with httpx2.AsyncClient(transport=self.network, timeout=None) as client:
            return await client.request(method, url, json=body, headers={**sent, **(headers or {})})

    async def get(self, path: str, *, version: str = "2.1", who: str = "member") -> Any:
        """Return what a GET that must succeed answers."""
        answer = await self.ask("GET", path, version=version, who=who)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def create(self, *, version: str = "2.1", who: str = "member", **more: Any) -> Any:
        """Create a server from the image; return the answer's server."""
        answer = await self.ask("POST", "/servers", self.new(version, **more), version=version)
        assert answer.status_code == 202, answer.text
        return answer.json()["server"]

    @staticmethod
    def new(version: str = "2.1", **more: Any) -> dict[str, Any]:
        """Return the body that asks for a server, with networks where they are required."""
        networks = {"networks": "none"} if version_of(version) >= (2, 37) else {}
        plain = {"name": "vm", "flavorRef": FLAVOR, "imageRef": IMAGE, **networks}
        return {"server": plain | more}

    async def put(self, table: type[DeclarativeBase], *rows: Mapping[str, Any]) -> None:
        """Write rows as they are."""
        await self.compute.store.write(lambda tx: tx.execute(insert(table), [*rows]))

    async def server(self, **more: Any) -> str:
        """Write a server that runs on no particular host; return its id."""
        row = server_row(self.clock.now(), **more)
        await self.put(Server, row)
        return row["id"]

    async def host(self, name: str = "host1", **more: Any) -> None:
        """Write a host that was just seen."""
        await self.put(Host, host_row(self.clock.now(), name, **more))


def server_row(now: datetime, **more: Any) -> dict[str, Any]:
    """Return a running server of the member's project."""
    row: dict[str, Any] = {
        "id": str(uuid4()),
        "project_id": PROJECT,
        "user_id": "member",
        "name": "vm",
        "description": None,
        "hostname": "vm",
        "vm_state": "active",
        "task_state": None,
        "power_state": 1,
        "host": None,
        "zone": "nova",
        "pinned_zone": None,
        "image_id": IMAGE,
        "flavor_id": FLAVOR,
        "flavor_name": "m1.tiny",
        "vcpus": 1,
        "memory_mib": 512,
        "disk_gib": 1,
        "key_name": None,
        "user_data": None,
        "locked_by": None,
        "locked_reason": None,
        "reservation_id": "r-12345678",
        "trusted_certificates": None,
        "launched_at": now,
        "terminated_at": None,
        "created_at": now,
        "updated_at": now,
        "deleted_at": None,
    }
    return row | more


def host_row(now: datetime, name: str, **more: Any) -> dict[str, Any]:
    """Return a host with four processors, 8 GiB of memory and 100 GiB of disk."""
    row: dict[str, Any] = {
        "name": name,
        "service_uuid": str(uuid4()),
        "provider_id": str(uuid4()),
        "version": 73,
        "incarnation": "1",
        "hypervisor": "simulated",
        "accelerator": "none",
        "vcpus": 4,
        "memory_mib": 8192,
        "disk_gib": 100,
        "disabled_reason": None,
        "last_seen_at": now,
        "created_at": now,
        "updated_at": now,
    }
    return row | more


def version_of(text: str) -> tuple[int, int]:
    """Return `2.37` as numbers."""
    major, minor = text.split(".")
    return int(major), int(minor)


def fault_of(answer: httpx2.Response) -> tuple[int, str, str]:
    """Return status, key and message of a fault."""
    ((key, body),) = answer.json().items()
    assert body["code"] == answer.status_code
    return answer.status_code, key, body["message"]
