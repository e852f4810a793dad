"""A deletion that absorbs an operation pays what that one owed to the volume service.

The host is silent about the disk in question: an operation of the volume service waits for compute,
the server is deleted, and nobody waits for a deadline.
"""

from __future__ import annotations

import asyncio

import pytest

from mooring.agent_api.transport import Deliver, Forward, Request, Response, deliver_once
from mooring.errors import Unavailable
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio
SECONDS = 120.0
"""Longer than anybody rests, and shorter than any deadline of the volume service."""


def silent_about(*words: str) -> Deliver:
    """Return a wire on which a host answers nothing whose path has one of these words."""

    async def deliver(request: Request, forward: Forward) -> Response:
        if request.target.startswith("/servers/") and any(one in request.target for one in words):
            raise Unavailable("The host gave no answer.")
        return await forward(request)

    return deliver


async def attached(cloud: ComputeCloud) -> tuple[str, str]:
    """Make a server with a volume of 1 GiB."""
    server_id, volume_id = await cloud.make_attached()
    return server_id, volume_id


async def take(cloud: ComputeCloud, volume_id: str) -> str:
    """Ask for a snapshot of a volume in use; return its id."""
    body = {"snapshot": {"volume_id": volume_id}}
    return (await cloud.volume_api("POST", "/snapshots", body))["snapshot"]["id"]


async def delete_server(cloud: ComputeCloud, server_id: str) -> None:
    """Delete the server while its host is silent, and let everybody go on for a while."""
    await cloud.compute.sagas.settle(5.0)
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    begun_at = cloud.clock.now()
    while (cloud.clock.now() - begun_at).total_seconds() < SECONDS:
        await cloud.compute.sagas.settle(10.0)
        await cloud.volume.sagas.settle(10.0)
        cloud.clock.advance(1.0)
    assert (await cloud.server(server_id))["status"] == "gone"


async def snapshot_status(cloud: ComputeCloud, snapshot_id: str) -> str:
    """Return a snapshot's status; `gone` when there is none."""
    answer = await cloud.ask("GET", f"/volume/v3/snapshots/{snapshot_id}", version="3.67")
    return "gone" if answer.status == 404 else answer.body["snapshot"]["status"]


async def require_peace(cloud: ComputeCloud) -> None:
    """See that nothing goes on once the host is back."""
    cloud.deliver_to_host = deliver_once
    await cloud.settle()
    for root, version in (("/volume/v3", "3.67"), ("/compute/v2.1", "2.100")):
        path = f"{root}/mooring/operations"
        listed = await cloud.ask("GET", path, user="admin", version=version)
        assert listed.body["operations"] == []


async def test_an_extend_ends_with_its_server(cloud: ComputeCloud) -> None:
    server_id, volume_id = await attached(cloud)
    cloud.deliver_to_host = silent_about("/size")
    body = {"os-extend": {"new_size": 2}}
    await cloud.volume_api("POST", f"/volumes/{volume_id}/action", body)
    await delete_server(cloud, server_id)
    assert await cloud.volume_status(volume_id) == "available"
    await require_peace(cloud)


async def test_a_snapshot_ends_with_its_server(cloud: ComputeCloud) -> None:
    server_id, volume_id = await attached(cloud)
    cloud.deliver_to_host = silent_about("/overlays/")
    snapshot_id = await take(cloud, volume_id)
    await delete_server(cloud, server_id)
    assert await snapshot_status(cloud, snapshot_id) in {"error", "available"}
    assert await cloud.volume_status(volume_id) == "available"
    await require_peace(cloud)


async def test_the_deletion_of_a_snapshot_is_finished_when_its_server_is_gone(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await attached(cloud)
    snapshot_id = await take(cloud, volume_id)
    await cloud.settle()
    cloud.deliver_to_host = silent_about("/merges/")
    await cloud.volume_api("DELETE", f"/snapshots/{snapshot_id}")
    await delete_server(cloud, server_id)
    assert await snapshot_status(cloud, snapshot_id) == "gone"
    await require_peace(cloud)


async def test_a_detach_that_an_administrator_gives_up_still_frees_its_volume(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await attached(cloud)
    cloud.deliver_to_host = silent_about("/disks/")
    path = f"/servers/{server_id}/os-volume_attachments/{volume_id}"
    assert (await cloud.ask("DELETE", path)).status == 202
    await cloud.compute.sagas.settle(5.0)
    body = {"os-resetState": {"state": "active"}}
    action = f"/servers/{server_id}/action"
    asking = asyncio.create_task(cloud.ask("POST", action, body, user="admin"))
    while not asking.done():
        await asyncio.wait([asking], timeout=0.01)
        # The request waits a minute of this clock, so it is turned in small steps.
        await cloud.compute.sagas.settle(1.0)
    assert asking.result().status == 202
    await require_peace(cloud)
    assert await cloud.volume_status(volume_id) == "available"
