"""Servers that were moved or resized, before and after their users' word."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from tests.compute.cloud import ComputeCloud
from tests.compute.moving import Moving


async def ask(moving: Moving, action: str, value: Any = None, **how: Any) -> int:
    status = await moving.cloud.act(moving.server_id, action, value, **{"version": "2.90", **how})
    await moving.cloud.settle()
    return status


async def migrate(moving: Moving, value: Any = None) -> None:
    assert await ask(moving, "migrate", value, user="admin") == 202


async def force_down(cloud: ComputeCloud, host: str, *, down: bool) -> None:
    listed = await cloud.ask("GET", "/os-services", user="admin", version="2.100")
    services = {one["host"]: one["id"] for one in listed.body["services"]}
    path, body = f"/os-services/{services[host]}", {"forced_down": down}
    assert (await cloud.ask("PUT", path, body, user="admin", version="2.100")).status == 200


async def show(moving: Moving) -> dict[str, Any]:
    return await moving.cloud.server(moving.server_id)


async def is_to_be_verified(moving: Moving, power: str = "running") -> None:
    """See that both hosts have the volumes and hold room, and only one has the guest."""
    assert (await show(moving))["status"] == "VERIFY_RESIZE"
    assert await moving.host() == moving.destination
    assert await moving.status() == "finished"
    assert await moving.states() == ["absent", power]
    assert await moving.connected() == [2, 2]
    assert await moving.attachments() == 4
    source, destination = await moving.claims()
    assert len(source) == 1
    assert source != {moving.server_id}
    assert destination == {moving.server_id}


async def is_confirmed(moving: Moving, power: str = "running") -> None:
    """See that the server is at the destination, and nothing of it at the source."""
    assert await moving.host() == moving.destination
    assert await moving.status() == "confirmed"
    assert await moving.states() == ["absent", power]
    assert await moving.connected() == [0, 2]
    assert await moving.attachments() == 2
    assert await moving.claims() == [set(), {moving.server_id}]


async def usage(cloud: ComputeCloud) -> tuple[int, int]:
    """Return the vCPUs and the MiB of memory that count against the quota."""
    found = (await cloud.ask("GET", "/limits")).body["limits"]["absolute"]
    return found["totalCoresUsed"], found["totalRAMUsed"]


async def fill(moving: Moving) -> None:
    """Leave no room on the server's host."""
    placement = moving.cloud.compute.placement
    known = {one.name: one.uuid for one in await placement.providers()}
    inventory = (await placement.inventory(known[moving.source]))["VCPU"]
    most = int(inventory.total * inventory.allocation_ratio) - 1
    while most > 0:
        taken = min(most, inventory.max_unit)
        await moving.cloud.claim(str(uuid4()), {known[moving.source]: {"VCPU": taken}})
        most -= taken
