"""One event is heard once, and an extend that is given up touches nothing any more (specs 000)."""

from __future__ import annotations

import asyncio

import pytest

from mooring.agent_api.transport import Deliver, Forward, Request, Response, deliver_once
from mooring.errors import Unavailable
from tests.compute.extending import attached, noted_gib, sizes_gib
from tests.compute.yard import Yard

pytestmark = pytest.mark.anyio


async def extends(yard: Yard, server_id: str) -> list[str | None]:
    """Return how the server's extends went."""
    return [message for action, message in await yard.actions(server_id) if action[:3] == "ext"]


async def working(yard: Yard) -> list[str]:
    """Return what holds or awaits the lock of any volume."""
    store, sagas = yard.compute.store, yard.compute.sagas
    volumes = await yard.ask("GET", "/volumes", service="volume", version="3.44")
    ids = [one["id"] for one in volumes.json()["volumes"]]
    return [
        holder
        for volume_id in ids
        for holder in await store.read(lambda tx, key=volume_id: sagas.holders(tx, f"volume:{key}"))
    ]


async def force_down(yard: Yard, *, down: bool) -> None:
    """Say that the host is dead, or lives again."""
    listed = await yard.ask("GET", "/os-services", who="admin", version="2.53")
    (service,) = listed.json()["services"]
    path = f"/os-services/{service['id']}"
    answer = await yard.ask("PUT", path, {"forced_down": down}, who="admin", version="2.53")
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("fenced", [True, False])
async def test_the_same_event_twice_is_one(yard: Yard, *, fenced: bool) -> None:
    server_id, volume = await attached(yard)
    yard.hypervisor().knobs.hold("resize_disk")
    first = await volume.send(server_id, fenced=fenced)
    second = await volume.send(server_id, fenced=fenced)
    assert (first.status_code, second.json()) == (200, first.json())
    yard.hypervisor().knobs.release("resize_disk")
    await yard.settle()
    assert (await extends(yard, server_id), volume.completions) == ([None], [False])


async def test_the_same_event_long_after_is_answered_and_not_heard(yard: Yard) -> None:
    server_id, volume = await attached(yard)
    first = await volume.send(server_id)
    await yard.settle()
    volume.status, volume.metadata = "extending", {"extend_new_size": "3"}
    assert (await volume.send(server_id)).json() == first.json()
    await yard.settle()
    assert (await extends(yard, server_id), volume.completions) == ([None], [False])


async def test_the_next_extend_waits_for_the_one_before(yard: Yard) -> None:
    server_id, volume = await attached(yard)
    volume.refusals = [503]
    await volume.send(server_id)
    await volume.send(server_id, step="send_next")
    await yard.settle()
    assert await extends(yard, server_id) == [None, None]
    # The second finds the volume in use again, so it tells the guest and completes nothing.
    assert volume.completions == [False, False]
    assert await sizes_gib(yard, server_id, volume.volume_id) == (2, 2)


async def test_an_event_without_operation_is_not_lost_behind_one_that_is_about_to_end(
    yard: Yard,
) -> None:
    server_id, volume = await attached(yard)
    volume.refusals = [503] * 3
    await volume.send(server_id, fenced=False)
    await yard.compute.sagas.settle(0.0)
    volume.finish(error=False)
    volume.status, volume.metadata = "extending", {"extend_new_size": "3"}
    await volume.send(server_id, fenced=False)
    volume.refusals = [400]
    await yard.settle()
    assert (volume.size_gib, volume.status) == (3, "in-use")
    assert await noted_gib(yard, volume.volume_id) == 3


async def test_an_operation_that_was_buried_starts_nothing(yard: Yard) -> None:
    server_id, volume = await attached(yard)
    assert (await volume.bury()).json() == {"made": []}
    assert (await volume.send(server_id)).status_code == 410
    await yard.settle()
    assert (await extends(yard, server_id), volume.completions) == ([], [])


async def test_burying_ends_a_resize_that_is_at_work(yard: Yard) -> None:
    server_id, volume = await attached(yard)
    yard.hypervisor().knobs.hold("resize_disk")
    await volume.send(server_id)
    # The volume service has claimed the answer for itself before it tells compute.
    volume.refusals = [400]
    assert (await volume.bury()).status_code == 200
    assert await working(yard) == []
    yard.hypervisor().knobs.release("resize_disk")
    await yard.settle()
    assert await sizes_gib(yard, server_id, volume.volume_id) == (1, 1)
    assert await extends(yard, server_id) == ["Error"]
    assert (await volume.bury()).status_code == 200


async def test_a_resize_that_comes_after_its_burial_changes_nothing(yard: Yard) -> None:
    server_id, volume = await attached(yard)
    kept: list[tuple[Request, Forward]] = []

    async def keep_back(request: Request, forward: Forward) -> Response:
        if request.method == "PUT" and request.target.endswith("/size"):
            kept.append((request, forward))
            raise Unavailable("The host gave no answer.")
        return await forward(request)

    yard.agents.deliver = keep_back
    await volume.send(server_id)
    await yard.compute.sagas.settle(0.0)
    volume.refusals = [400]
    assert (await volume.bury()).status_code == 200
    (request, forward), *_ = kept
    assert (await forward(request)).status == 410
    await yard.settle()
    assert await sizes_gib(yard, server_id, volume.volume_id) == (1, 1)


async def test_burying_ends_one_that_waits_for_its_turn(yard: Yard) -> None:
    server_id, volume = await attached(yard)
    yard.hypervisor().knobs.hold("resize_disk")
    await volume.send(server_id)
    await volume.send(server_id, step="send_next")
    assert len(await working(yard)) == 2
    assert (await volume.bury("send_next")).status_code == 200
    assert len(await working(yard)) == 1
    yard.hypervisor().knobs.release("resize_disk")
    await yard.settle()
    assert volume.completions[-1] is False or volume.status == "in-use"


async def test_burying_does_not_stop_a_completion_and_waits_for_it(yard: Yard) -> None:
    server_id, volume = await attached(yard)
    volume.refusals = [503] * 2
    await volume.send(server_id)
    await yard.compute.sagas.settle(0.0)
    burying = await yard.meanwhile(volume.bury())
    assert not burying.done()
    volume.refusals = [400]
    await yard.settle()
    assert (await burying).status_code == 200
    assert await extends(yard, server_id) == [None]


async def test_burying_waits_for_a_silent_host_until_it_is_forced_down(yard: Yard) -> None:
    server_id, volume = await attached(yard)
    yard.agents.deliver = silent_to(server_id)
    await volume.send(server_id)
    await yard.compute.sagas.settle(5.0)
    burying = asyncio.create_task(volume.bury())
    await yard.compute.sagas.settle(5.0)
    while not burying.done():
        yard.clock.advance(10.0)
        await asyncio.wait({burying}, timeout=0.05)
    assert (await burying).status_code == 504
    await force_down(yard, down=True)
    await yard.settle()
    assert (await volume.bury()).status_code == 200
    assert (volume.completions, await working(yard)) == ([True], [])
    yard.agents.deliver = deliver_once
    await yard.look()
    await force_down(yard, down=False)
    assert await sizes_gib(yard, server_id, volume.volume_id) == (1, 1)


def silent_to(server_id: str) -> Deliver:
    """Return a wire that answers nothing about one server."""

    async def deliver(request: Request, forward: Forward) -> Response:
        if request.target.startswith(f"/servers/{server_id}"):
            raise Unavailable("The host gave no answer.")
        return await forward(request)

    return deliver
