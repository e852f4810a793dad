"""Compute and volume service grow a volume together: whatever happens, they tell one size."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mooring.agent_api.transport import Deliver, Forward, Request, Response, deliver_once
from mooring.compute.app import SERVICE as COMPUTE
from mooring.errors import Conflict, Unavailable
from tests.callers import Tokens
from tests.compute.extending import GIB, noted_gib
from tests.compute.yard import URLS, Yard

pytestmark = pytest.mark.anyio


async def attached(yard: Yard) -> tuple[str, str]:
    """Make a server with a volume of 1 GiB."""
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    await yard.attach(server_id, volume_id)
    await yard.settle()
    return server_id, volume_id


async def extend(yard: Yard, volume_id: str) -> None:
    """Ask for 2 GiB, as a user does."""
    body = {"os-extend": {"new_size": 2}}
    await yard.volume_api("POST", f"/volumes/{volume_id}/action", body)


async def require_one_truth(yard: Yard, server_id: str, volume_id: str, size_gib: int) -> None:
    """See that volume service, quota, image and guest tell the same size."""
    shown = (await yard.volume_api("GET", f"/volumes/{volume_id}"))["volume"]
    assert (shown["size"], "extend_new_size" in shown["metadata"]) == (size_gib, False)
    usage: Any = await yard.volume_api("GET", f"/os-quota-sets/{shown[_OWNER]}?usage=true")
    quota = usage["quota_set"]["gigabytes"]
    assert (quota["in_use"], quota["reserved"]) == (size_gib, 0)
    file = await yard.agents["host1"].show_volume(volume_id)
    assert file is not None
    assert file.virtual_bytes == size_gib * GIB
    if await yard.disks(server_id):
        size = await yard.agents["host1"].show_disk_size(server_id, volume_id)
        assert (size.guest_bytes, size.image_bytes) == (size_gib * GIB, size_gib * GIB)


_OWNER = "os-vol-tenant-attr:tenant_id"


def silent_about_sizes() -> Deliver:
    """Return a wire that answers nothing about a guest's disks."""

    async def deliver(request: Request, forward: Forward) -> Response:
        if request.target.startswith("/servers/") and request.target.endswith("/size"):
            raise Unavailable("The host gave no answer.")
        return await forward(request)

    return deliver


async def test_a_volume_grows_under_its_guest(yard: Yard) -> None:
    server_id, volume_id = await attached(yard)
    await extend(yard, volume_id)
    await yard.settle()
    assert await yard.volume_status(volume_id) == "in-use"
    await require_one_truth(yard, server_id, volume_id, 2)
    assert await noted_gib(yard, volume_id) == 2
    assert (await yard.actions(server_id))[-1] == ("extend_volume", None)


async def test_an_old_host_leaves_the_volume_as_it_was(yard: Yard) -> None:
    await yard.close()
    yard.versions["host1"] = 73
    await yard.open()
    server_id, volume_id = await attached(yard)
    await extend(yard, volume_id)
    await yard.settle()
    assert await yard.volume_status(volume_id) == "error_extending"
    await require_one_truth(yard, server_id, volume_id, 1)
    assert (await yard.actions(server_id))[-1] == ("extend_volume", "Error")


async def test_a_compute_service_without_2_105_leaves_the_volume_as_it_was(yard: Yard) -> None:
    server_id, volume_id = await attached(yard)
    old = replace(COMPUTE.face, maximum=(2, 104))
    url = URLS["compute"]
    app = COMPUTE.build(yard.compute, validator=Tokens(), public_url=url, face=old)
    yard.network.serve(url, app)
    await extend(yard, volume_id)
    await yard.settle()
    assert await yard.volume_status(volume_id) == "error_extending"
    await require_one_truth(yard, server_id, volume_id, 1)
    assert (await yard.actions(server_id))[-1] == ("attach_volume", None)


async def test_a_guest_that_cannot_grow_leaves_the_volume_as_it_was(yard: Yard) -> None:
    server_id, volume_id = await attached(yard)
    yard.hypervisor().knobs.fail("resize_disk", Conflict("No."))
    await extend(yard, volume_id)
    await yard.settle()
    assert await yard.volume_status(volume_id) == "error_extending"
    await require_one_truth(yard, server_id, volume_id, 1)


async def test_a_guest_that_stops_meanwhile_has_its_volume_grown(yard: Yard) -> None:
    server_id, volume_id = await attached(yard)
    yard.hypervisor().knobs.hold("resize_disk")
    await extend(yard, volume_id)
    yard.hypervisor().shut_down_inside(server_id)
    yard.hypervisor().knobs.release("resize_disk")
    await yard.settle()
    assert await yard.volume_status(volume_id) == "in-use"
    await require_one_truth(yard, server_id, volume_id, 2)


async def test_deleting_the_server_meanwhile_leaves_one_truth(yard: Yard) -> None:
    server_id, volume_id = await attached(yard)
    yard.hypervisor().knobs.hold("resize_disk")
    await extend(yard, volume_id)
    assert (await yard.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    yard.hypervisor().knobs.release("resize_disk")
    await yard.settle()
    assert (await yard.server(server_id))["status"] == "gone"
    assert await yard.volume_status(volume_id) == "available"
    shown = (await yard.volume_api("GET", f"/volumes/{volume_id}"))["volume"]
    await require_one_truth(yard, server_id, volume_id, shown["size"])


async def test_a_host_that_is_silent_until_it_is_dead_leaves_one_truth(yard: Yard) -> None:
    server_id, volume_id = await attached(yard)
    yard.agents.deliver = silent_about_sizes()
    await extend(yard, volume_id)
    await yard.compute.sagas.settle(100.0)
    assert await yard.volume_status(volume_id) == "extending"
    listed = await yard.ask("GET", "/os-services", who="admin", version="2.53")
    (service,) = listed.json()["services"]
    path = f"/os-services/{service['id']}"
    await yard.ask("PUT", path, {"forced_down": True}, who="admin", version="2.53")
    await yard.compute.sagas.settle(100.0)
    yard.agents.deliver = deliver_once
    await yard.settle()
    assert await yard.volume_status(volume_id) == "error_extending"
    await yard.look()
    await yard.ask("PUT", path, {"forced_down": False}, who="admin", version="2.53")
    await require_one_truth(yard, server_id, volume_id, 1)
