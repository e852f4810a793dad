"""One event is heard once, and an extend that is given up touches nothing any more (specs 000)."""

from __future__ import annotations

import asyncio

import pytest

from mooring.agent_api.transport import Deliver, Forward, Request, Response, deliver_once
from mooring.errors import Unavailable
from tests.compute.cloud import ComputeCloud
from tests.compute.extending import attached, noted_gib, sizes_gib

pytestmark = pytest.mark.anyio


async def extends(cloud: ComputeCloud, server_id: str) -> list[str | None]:
    """Return how the server's extends went."""
    return [message for action, message in await cloud.actions(server_id) if action[:3] == "ext"]


async def working(cloud: ComputeCloud) -> list[str]:
    """Return what holds or awaits the lock of any volume."""
    store, sagas = cloud.compute.store, cloud.compute.sagas
    volumes = await cloud.ask("GET", "/volume/v3/volumes", version="3.44")
    ids = [one["id"] for one in volumes.body["volumes"]]
    return [
        holder
        for volume_id in ids
        for holder in await store.read(lambda tx, key=volume_id: sagas.holders(tx, f"volume:{key}"))
    ]


async def force_down(cloud: ComputeCloud, *, down: bool) -> None:
    """Say that the host is dead, or lives again."""
    listed = await cloud.ask(
        "GET", "/os-services?binary=nova-compute", user="admin", version="2.53"
    )
    (service,) = listed.body["services"]
    path = f"/os-services/{service['id']}"
    answer = await cloud.ask("PUT", path, {"forced_down": down}, user="admin", version="2.53")
    assert answer.status == 200, answer.text


async def test_a_stopped_server_whose_files_are_away_is_free_once_its_extend_is_given_up(
    cloud: ComputeCloud,
) -> None:
    server_id, volume = await attached(cloud)
    assert await cloud.act(server_id, "os-stop") == 202
    await cloud.settle()
    cloud.hypervisor().away.add(volume.volume_id)
    await volume.send(server_id)
    await cloud.settle()
    assert (len(await extends(cloud, server_id)), volume.completions) == (1, [True])
    assert await working(cloud) == []
    await cloud.look_at_hosts()
    assert await cloud.act(server_id, "os-start") == 202
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ACTIVE"


@pytest.mark.parametrize("fenced", [True, False])
async def test_the_same_event_twice_is_one(cloud: ComputeCloud, *, fenced: bool) -> None:
    server_id, volume = await attached(cloud)
    cloud.hypervisor().knobs.hold("resize_disk")
    first = await volume.send(server_id, fenced=fenced)
    second = await volume.send(server_id, fenced=fenced)
    assert (first.status, second.body) == (200, first.body)
    cloud.hypervisor().knobs.release("resize_disk")
    await cloud.settle()
    assert (await extends(cloud, server_id), volume.completions) == ([None], [False])


async def test_the_same_event_long_after_is_answered_and_not_heard(cloud: ComputeCloud) -> None:
    server_id, volume = await attached(cloud)
    first = await volume.send(server_id)
    await cloud.settle()
    volume.status, volume.metadata = "extending", {"extend_new_size": "3"}
    assert (await volume.send(server_id)).body == first.body
    await cloud.settle()
    assert (await extends(cloud, server_id), volume.completions) == ([None], [False])


async def test_the_next_extend_waits_for_the_one_before(cloud: ComputeCloud) -> None:
    server_id, volume = await attached(cloud)
    volume.refusals = [503]
    await volume.send(server_id)
    await volume.send(server_id, step="send_next")
    await cloud.settle()
    assert await extends(cloud, server_id) == [None, None]
    # The second finds the volume in use again, so it tells the guest and completes nothing.
    assert volume.completions == [False, False]
    assert await sizes_gib(cloud, server_id, volume.volume_id) == (2, 2)


async def test_an_event_without_operation_is_not_lost_behind_one_that_is_about_to_end(
    cloud: ComputeCloud,
) -> None:
    server_id, volume = await attached(cloud)
    volume.refusals = [503] * 3
    await volume.send(server_id, fenced=False)
    await cloud.compute.sagas.settle(0.0)
    volume.finish(error=False)
    volume.status, volume.metadata = "extending", {"extend_new_size": "3"}
    await volume.send(server_id, fenced=False)
    volume.refusals = [400]
    await cloud.settle()
    assert (volume.size_gib, volume.status) == (3, "in-use")
    assert await noted_gib(cloud, volume.volume_id) == 3


async def test_an_operation_that_was_buried_starts_nothing(cloud: ComputeCloud) -> None:
    server_id, volume = await attached(cloud)
    assert (await volume.bury()).body == {"made": []}
    assert (await volume.send(server_id)).status == 410
    await cloud.settle()
    assert (await extends(cloud, server_id), volume.completions) == ([], [])


async def test_burying_ends_a_resize_that_is_at_work(cloud: ComputeCloud) -> None:
    server_id, volume = await attached(cloud)
    cloud.hypervisor().knobs.hold("resize_disk")
    await volume.send(server_id)
    # The volume service has claimed the answer for itself before it tells compute.
    volume.refusals = [400]
    assert (await volume.bury()).status == 200
    assert await working(cloud) == []
    cloud.hypervisor().knobs.release("resize_disk")
    await cloud.settle()
    assert await sizes_gib(cloud, server_id, volume.volume_id) == (1, 1)
    assert await extends(cloud, server_id) == ["Error"]
    assert (await volume.bury()).status == 200


async def test_a_resize_that_comes_after_its_burial_changes_nothing(cloud: ComputeCloud) -> None:
    server_id, volume = await attached(cloud)
    kept: list[tuple[Request, Forward]] = []

    async def keep_back(request: Request, forward: Forward) -> Response:
        if request.method == "PUT" and request.target.endswith("/size"):
            kept.append((request, forward))
            raise Unavailable("The host gave no answer.")
        return await forward(request)

    cloud.deliver_to_host = keep_back
    await volume.send(server_id)
    await cloud.compute.sagas.settle(0.0)
    volume.refusals = [400]
    assert (await volume.bury()).status == 200
    (request, forward), *_ = kept
    assert (await forward(request)).status == 410
    await cloud.settle()
    assert await sizes_gib(cloud, server_id, volume.volume_id) == (1, 1)


async def test_burying_ends_one_that_waits_for_its_turn(cloud: ComputeCloud) -> None:
    server_id, volume = await attached(cloud)
    cloud.hypervisor().knobs.hold("resize_disk")
    await volume.send(server_id)
    await volume.send(server_id, step="send_next")
    assert len(await working(cloud)) == 2
    assert (await volume.bury("send_next")).status == 200
    assert len(await working(cloud)) == 1
    cloud.hypervisor().knobs.release("resize_disk")
    await cloud.settle()
    assert volume.completions[-1] is False or volume.status == "in-use"


async def test_burying_does_not_stop_a_completion_and_waits_for_it(cloud: ComputeCloud) -> None:
    server_id, volume = await attached(cloud)
    volume.refusals = [503] * 2
    await volume.send(server_id)
    await cloud.compute.sagas.settle(0.0)
    burying = await cloud.meanwhile(volume.bury())
    assert not burying.done()
    volume.refusals = [400]
    await cloud.settle()
    assert (await burying).status == 200
    assert await extends(cloud, server_id) == [None]


async def test_burying_waits_for_a_silent_host_until_it_is_forced_down(cloud: ComputeCloud) -> None:
    server_id, volume = await attached(cloud)
    cloud.deliver_to_host = silent_to(server_id)
    await volume.send(server_id)
    await cloud.compute.sagas.settle(5.0)
    burying = asyncio.create_task(volume.bury())
    await cloud.compute.sagas.settle(5.0)
    while not burying.done():
        cloud.clock.advance(10.0)
        await asyncio.wait({burying}, timeout=0.05)
    assert (await burying).status == 504
    await force_down(cloud, down=True)
    await cloud.settle()
    assert (await volume.bury()).status == 200
    assert (volume.completions, await working(cloud)) == ([True], [])
    cloud.deliver_to_host = deliver_once
    await cloud.look_at_hosts()
    await force_down(cloud, down=False)
    assert await sizes_gib(cloud, server_id, volume.volume_id) == (1, 1)


def silent_to(server_id: str) -> Deliver:
    """Return a wire that answers nothing about one server."""

    async def deliver(request: Request, forward: Forward) -> Response:
        if request.target.startswith(f"/servers/{server_id}"):
            raise Unavailable("The host gave no answer.")
        return await forward(request)

    return deliver
