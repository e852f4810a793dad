"""Compute and volume service grow a volume together: whatever happens, they tell one size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.agent_api.transport import Deliver, Forward, Request, Response, deliver_once
from mooring.compute.app import SERVICE as COMPUTE
from mooring.errors import Conflict, Unavailable
from tests.callers import Tokens
from tests.cloud import URL
from tests.compute.cloud import ComputeCloud
from tests.compute.extending import GIB, noted_gib

pytestmark = pytest.mark.anyio


async def attached(cloud: ComputeCloud) -> tuple[str, str]:
    """Make a server with a volume of 1 GiB."""
    server_id, volume_id = await cloud.make_attached()
    return server_id, volume_id


async def extend(cloud: ComputeCloud, volume_id: str) -> None:
    """Ask for 2 GiB, as a user does."""
    body = {"os-extend": {"new_size": 2}}
    await cloud.volume_api("POST", f"/volumes/{volume_id}/action", body)


async def require_one_truth(
    cloud: ComputeCloud, server_id: str, volume_id: str, size_gib: int
) -> None:
    """See that volume service, quota, image and guest tell the same size."""
    shown = (await cloud.volume_api("GET", f"/volumes/{volume_id}"))["volume"]
    assert (shown["size"], "extend_new_size" in shown["metadata"]) == (size_gib, False)
    usage: Any = await cloud.volume_api("GET", f"/os-quota-sets/{shown[_OWNER]}?usage=true")
    quota = usage["quota_set"]["gigabytes"]
    assert (quota["in_use"], quota["reserved"]) == (size_gib, 0)
    file = await cloud.known_agents["host1"].show_volume(volume_id)
    assert file is not None
    assert file.virtual_bytes == size_gib * GIB
    if await cloud.disks(server_id):
        size = await cloud.known_agents["host1"].show_disk_size(server_id, volume_id)
        assert (size.guest_bytes, size.image_bytes) == (size_gib * GIB, size_gib * GIB)


_OWNER = "os-vol-tenant-attr:tenant_id"


def silent_about_sizes() -> Deliver:
    """Return a wire that answers nothing about a guest's disks."""

    async def deliver(request: Request, forward: Forward) -> Response:
        if request.target.startswith("/servers/") and request.target.endswith("/size"):
            raise Unavailable("The host gave no answer.")
        return await forward(request)

    return deliver


async def test_a_volume_grows_under_its_guest(cloud: ComputeCloud) -> None:
    server_id, volume_id = await attached(cloud)
    await extend(cloud, volume_id)
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "in-use"
    await require_one_truth(cloud, server_id, volume_id, 2)
    assert await noted_gib(cloud, volume_id) == 2
    assert (await cloud.actions(server_id))[-1] == ("extend_volume", None)


@pytest.mark.parametrize("fails", [False, True])
async def test_the_end_of_a_growth_is_told_with_the_new_size_once_it_is_completed(
    tmp_path: Path, *, fails: bool
) -> None:
    """Send a resize.end notification with the new volume size; a growth that fails sends none."""
    async with ComputeCloud(tmp_path, notifications=("keep",)) as cloud:
        _, volume_id = await attached(cloud)
        before = len(await cloud.told("volume"))

        async def told() -> list[tuple[str, str, int]]:
            return [
                (one.event_type, one.payload["status"], one.payload["size"])
                for one in (await cloud.told("volume"))[before:]
                if "resize" in one.event_type
            ]

        knobs = cloud.hypervisor().knobs
        knobs.hold("resize_disk")
        if fails:
            knobs.fail("resize_disk", Conflict("No."))
        await extend(cloud, volume_id)
        await cloud.volume.sagas.settle(1.0)
        assert await told() == [("volume.resize.start", "extending", 1)]
        knobs.release("resize_disk")
        await cloud.settle()
        ends = [] if fails else [("volume.resize.end", "in-use", 2)]
        assert (await told())[1:] == ends


async def test_only_the_host_that_has_the_server_is_to_be_new_enough(tmp_path: Path) -> None:
    """Nova checks the target compute service version."""
    async with ComputeCloud(tmp_path, hosts=("host1", "host2")) as cloud:
        server_id, volume_id = await attached(cloud)
        host = (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]
        await cloud.change_host(next(one for one in cloud.hosts if one != host), version=73)
        await extend(cloud, volume_id)
        await cloud.settle()
        assert await cloud.volume_status(volume_id) == "in-use"
        assert (await cloud.volume_api("GET", f"/volumes/{volume_id}"))["volume"]["size"] == 2


async def test_an_event_with_another_servers_id_fails_no_extend(cloud: ComputeCloud) -> None:
    server_id, volume_id = await attached(cloud)
    other_id = await cloud.make_server()
    path, sent = "/os-server-external-events", [0]

    async def deliver(request: Request, forward: Forward) -> Response:
        if request.path.endswith(path) and not sent[0]:
            sent[0] = 1
            event = {"server_uuid": other_id, "name": "volume-extended", "tag": volume_id}
            body = {"events": [event]}
            answer = await cloud.ask("POST", path, body, user="volume", version="2.105")
            sent[0] = answer.status
            await cloud.compute.sagas.settle(0.0)
        return await forward(request)

    cloud.deliver = deliver
    await extend(cloud, volume_id)
    await cloud.settle()
    assert sent == [200]
    assert await cloud.volume_status(volume_id) == "in-use"
    await require_one_truth(cloud, server_id, volume_id, 2)
    assert (await cloud.actions(server_id))[-1] == ("extend_volume", None)
    assert (await cloud.volume_api("GET", "/messages"))["messages"] == []


async def test_an_old_host_leaves_the_volume_as_it_was(cloud: ComputeCloud) -> None:
    await cloud.change_host("host1", version=73)
    server_id, volume_id = await attached(cloud)
    await extend(cloud, volume_id)
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "error_extending"
    await require_one_truth(cloud, server_id, volume_id, 1)
    assert (await cloud.actions(server_id))[-1] == ("extend_volume", "Error")


async def test_a_compute_service_without_2_105_leaves_the_volume_as_it_was(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await attached(cloud)
    old = replace(COMPUTE.face, maximum=(2, 104))
    url = f"{URL}/compute"
    app = COMPUTE.build(cloud.compute, validator=Tokens(), public_url=url, face=old)
    cloud.network.serve(url, app)
    await extend(cloud, volume_id)
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "error_extending"
    await require_one_truth(cloud, server_id, volume_id, 1)
    assert (await cloud.actions(server_id))[-1] == ("attach_volume", None)


async def test_a_guest_that_cannot_grow_leaves_the_volume_as_it_was(cloud: ComputeCloud) -> None:
    server_id, volume_id = await attached(cloud)
    cloud.hypervisor().knobs.fail("resize_disk", Conflict("No."))
    await extend(cloud, volume_id)
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "error_extending"
    await require_one_truth(cloud, server_id, volume_id, 1)


async def test_a_guest_that_stops_meanwhile_has_its_volume_grown(cloud: ComputeCloud) -> None:
    server_id, volume_id = await attached(cloud)
    cloud.hypervisor().knobs.hold("resize_disk")
    await extend(cloud, volume_id)
    cloud.hypervisor().shut_down_inside(server_id)
    cloud.hypervisor().knobs.release("resize_disk")
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "in-use"
    await require_one_truth(cloud, server_id, volume_id, 2)


async def test_deleting_the_server_meanwhile_leaves_one_truth(cloud: ComputeCloud) -> None:
    server_id, volume_id = await attached(cloud)
    cloud.hypervisor().knobs.hold("resize_disk")
    await extend(cloud, volume_id)
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    cloud.hypervisor().knobs.release("resize_disk")
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "gone"
    assert await cloud.volume_status(volume_id) == "available"
    shown = (await cloud.volume_api("GET", f"/volumes/{volume_id}"))["volume"]
    await require_one_truth(cloud, server_id, volume_id, shown["size"])


async def test_a_host_that_is_silent_until_it_is_dead_leaves_one_truth(cloud: ComputeCloud) -> None:
    server_id, volume_id = await attached(cloud)
    cloud.deliver_to_host = silent_about_sizes()
    await extend(cloud, volume_id)
    await cloud.compute.sagas.settle(100.0)
    assert await cloud.volume_status(volume_id) == "extending"
    listed = await cloud.ask(
        "GET", "/os-services?binary=nova-compute", user="admin", version="2.53"
    )
    (service,) = listed.body["services"]
    path = f"/os-services/{service['id']}"
    await cloud.ask("PUT", path, {"forced_down": True}, user="admin", version="2.53")
    await cloud.compute.sagas.settle(100.0)
    cloud.deliver_to_host = deliver_once
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "error_extending"
    await cloud.look_at_hosts()
    await cloud.ask("PUT", path, {"forced_down": False}, user="admin", version="2.53")
    await require_one_truth(cloud, server_id, volume_id, 1)
