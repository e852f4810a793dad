"""A cloud of the compute service alone: its neighbours do not answer, but for an image shelf.

What a request starts gets nowhere, so a server stays as its request left it; rows in other states
are put there by the tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import insert
from sqlalchemy.orm import DeclarativeBase

from mooring.compute.app import SERVICE
from mooring.compute.service import Compute
from mooring.compute.tables import Host, Server
from tests import cloud
from tests.answers import Answer
from tests.callers import PROJECT
from tests.image_shelf import ImageShelf

URL = f"{cloud.URL}/compute"
IMAGE = "11111111-1111-4111-8111-111111111111"
FLAVOR = "1"


class ComputeAlone(cloud.SimulatedCloud):
    """The service and everything to talk to it with."""

    root, user, version = "/compute/v2.1", "member", "2.1"

    def __init__(self, directory: Path, **how: Any) -> None:
        shelf = ImageShelf()
        shelf.put(IMAGE, b"", name="cirros", os_distro="cirros")
        others = {"image": shelf}
        super().__init__(
            directory, services=(SERVICE,), stand_ins=others, hosts=(), inline=True, **how
        )

    async def open_control(self) -> None:
        await super().open_control()
        self.compute: Compute = self.cloud[SERVICE]

    async def get(self, path: str, *, version: str = "2.1", user: str = "member") -> Any:
        """Return what a GET that must succeed answers."""
        answer = await self.ask("GET", path, version=version, user=user)
        assert answer.status == 200, answer.text
        return answer.body

    async def create(self, *, version: str = "2.1", user: str = "member", **more: Any) -> Any:
        """Create a server from the image; return the answer's server."""
        answer = await self.ask("POST", "/servers", self.new(version, **more), version=version)
        assert answer.status == 202, answer.text
        return answer.body["server"]

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
        "hypervisor_version": 7002000,
        "ip": "192.0.2.1",
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


def fault_of(answer: Answer) -> tuple[int, str, str]:
    """Return status, key and message of a fault."""
    ((key, body),) = answer.body.items()
    assert body["code"] == answer.status
    return answer.status, key, body["message"]
