"""What the rebuild of a volume-backed server waits for, and in which order (specs 002)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from mooring.clients.transport import Forward, Request, Response
from mooring.errors import Conflict
from mooring.neighbour import NoAnswer
from tests.compute.cloud import IMAGE, NEW, ComputeCloud
from tests.compute.rebuilding import (
    booted_cloud,
    image_of,
    make_booted,
    rebuild,
    rebuild_well,
    state,
)
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
EVENTS = "/os-server-external-events"


@pytest.fixture
async def cloud(keeper: Keeper) -> AsyncIterator[ComputeCloud]:
    """One with what `make_booted` makes."""
    async with booted_cloud(keeper) as opened:
        yield opened


def lose_events(cloud: ComputeCloud, volume_id: str = "") -> None:
    """Lose the calls that tell compute of events, until it has looked at a volume meanwhile."""
    lost: list[Request] = []
    looks: list[Request] = []

    async def deliver(request: Request, forward: Forward) -> Response:
        if request.path.endswith(EVENTS) and not looks:
            lost.append(request)
            raise NoAnswer("The event was lost.")
        if volume_id and lost and request.path.endswith(f"/volumes/{volume_id}"):
            looks.append(request)
        return await forward(request)

    cloud.deliver = deliver


async def test_the_old_attachment_goes_only_after_its_host_has_disconnected(
    cloud: ComputeCloud,
) -> None:
    server_id, _ = await make_booted(cloud)
    old = (await cloud.attachments(server_id))[0]["attachment_id"]
    connected: list[list[str]] = []

    async def deliver(request: Request, forward: Forward) -> Response:
        if request.method == "DELETE" and request.path.endswith(f"/attachments/{old}"):
            connected.append(await cloud.connections())
        return await forward(request)

    cloud.deliver = deliver
    await rebuild_well(cloud, server_id)
    assert connected == [[]]


async def test_with_the_same_image_an_event_that_is_on_its_way_is_waited_for(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await make_booted(cloud)
    for one in (await cloud.volume_api("GET", "/types", user="admin"))["volume_types"]:
        path, specs = f"/types/{one['id']}/extra_specs", {"reimage_keep_snapshot": "true"}
        await cloud.volume_api("POST", path, {"extra_specs": specs}, user="admin")
    cloud.driver().knobs.fail("replace", Conflict("The disk is broken."))
    # The volume is at rest with the image that it had: only the event says that it failed.
    lose_events(cloud, volume_id)
    await rebuild_well(cloud, server_id, IMAGE)
    assert (await cloud.actions(server_id))[-1] == ("rebuild", "Error")
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert await image_of(cloud, volume_id) == IMAGE


async def test_without_an_event_the_volume_is_looked_at_after_reimage_timeout_per_gb(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await make_booted(cloud)
    cloud.compute.settings = replace(cloud.compute.settings, reimage_timeout_per_gb=90.0)
    lose_events(cloud)
    begun_at = cloud.clock.now()
    assert (await rebuild(cloud, server_id)).status == 202
    while await image_of(cloud, volume_id) != NEW:
        await cloud.volume_status(volume_id)
    await cloud.volume.sagas.settle()
    waited_s = (cloud.clock.now() - begun_at).total_seconds()
    assert waited_s < 80.0
    await cloud.compute.sagas.settle(85.0 - waited_s)
    assert await state(cloud, server_id) == ("REBUILD", "rebuilding")
    await cloud.compute.sagas.settle(10.0)
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None)


async def test_another_servers_event_is_not_taken_for_the_rebuilt_ones(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await make_booted(cloud)
    other_id = await cloud.make_server()
    for one in (await cloud.volume_api("GET", "/types", user="admin"))["volume_types"]:
        path, specs = f"/types/{one['id']}/extra_specs", {"reimage_keep_snapshot": "true"}
        await cloud.volume_api("POST", path, {"extra_specs": specs}, user="admin")
    # With the same image only the event tells how it went.
    cloud.driver().knobs.hold("replace")
    assert (await rebuild(cloud, server_id, IMAGE)).status == 202
    while await cloud.volume_status(volume_id) != "downloading":
        await cloud.compute.sagas.settle(1.0)
    event = {"server_uuid": other_id, "name": "volume-reimaged", "status": "failed"}
    body = {"events": [event | {"tag": volume_id}]}
    answer = await cloud.ask("POST", EVENTS, body, user="volume", version="2.93")
    assert answer.status == 200
    cloud.driver().knobs.release("replace")
    await cloud.settle()
    assert (await cloud.actions(server_id))[-1] == ("rebuild", None)
    assert await state(cloud, server_id) == ("ACTIVE", None)
