"""What tests of fences ask."""

from __future__ import annotations

from typing import Any

from mooring.compute.hosts import host_changes, hosts
from tests.answers import Answer
from tests.compute.cloud import ComputeCloud


async def fence(cloud: ComputeCloud, host: str, *, force: bool = False, **how: Any) -> Answer:
    how = {"user": "admin", **how}
    return await cloud.ask("PUT", f"/mooring/fences/{host}", {"force": force}, **how)


async def show_fence(cloud: ComputeCloud, host: str) -> dict[str, Any]:
    return (await cloud.ask("GET", f"/mooring/fences/{host}", user="admin")).body


async def make_server_on(cloud: ComputeCloud, host: str) -> str:
    wanted = {"name": "s", "flavorRef": "1", "imageRef": cloud.image_id, "networks": "none"}
    body = {"server": {**wanted, "host": host}}
    answer = await cloud.ask("POST", "/servers", body, user="admin")
    await cloud.settle()
    return answer.body["server"]["id"]


async def say_down(cloud: ComputeCloud, host: str, *, down: bool) -> Answer:
    body = {"host": host, "binary": "nova-compute", "forced_down": down}
    path = "/os-services/force-down"
    return await cloud.ask("PUT", path, body, user="admin", version="2.11")


async def forget(cloud: ComputeCloud, host: str, *, gone: bool = False) -> None:
    """Forget a host as one does who takes it out of the cloud."""
    heard = (await cloud.compute.store.read(hosts.seen)).get(host)
    await host_changes.forget(cloud.compute, host, gone=gone, heard=heard)
