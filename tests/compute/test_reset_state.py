"""What a reset of a server's state frees of an operation that it ends, and what it leaves.

A live server keeps every volume that the operation had not begun to give or to take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Unavailable
from tests.compute.cloud import ComputeCloud
from tests.compute.test_owed_to_volumes import attached, require_peace
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def reset(cloud: ComputeCloud, server_id: str, state: str = "active") -> None:
    """Reset a server's state as an administrator."""
    await cloud.compute.sagas.settle(5.0)
    action, body = f"/servers/{server_id}/action", {"os-resetState": {"state": state}}
    asking = asyncio.create_task(cloud.ask("POST", action, body, user="admin"))
    while not asking.done():
        await asyncio.wait([asking], timeout=0.01)
        # The request waits a minute of this clock, so it is turned in small steps.
        await cloud.compute.sagas.settle(1.0)
    assert asking.result().status == 202


async def reset_while_silent(cloud: ComputeCloud, server_id: str, state: str = "active") -> None:
    """Reset a server's state as an administrator, and let the host answer again."""
    await reset(cloud, server_id, state)
    cloud.silent = None
    await require_peace(cloud)
    await cloud.look_at_hosts()


def hold_back_deletion(
    cloud: ComputeCloud, server_id: str
) -> list[Callable[[], Awaitable[Response]]]:
    """Let no call arrive that ends the guest; return those that are still on their way."""
    late: list[Callable[[], Awaitable[Response]]] = []
    deliver = cloud.deliver_to_host

    async def hold_back(request: Request, forward: Forward) -> Response:
        if (request.method, request.target) != ("DELETE", f"/servers/{server_id}"):
            return await deliver(request, forward)
        late.append(partial(forward, request))
        raise Unavailable("The call is still on its way.")

    cloud.deliver_to_host = hold_back
    return late


async def test_a_deletion_given_up_before_the_guest_ended_leaves_the_server_its_volumes(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await attached(cloud)
    cloud.silent = ("DELETE", f"/servers/{server_id}")
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await reset_while_silent(cloud, server_id)
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert await cloud.volume_status(volume_id) == "in-use"
    assert await cloud.disks(server_id) == [volume_id]
    assert (await cloud.detach(server_id, volume_id)).status == 202
    await require_peace(cloud)
    assert await cloud.volume_status(volume_id) == "available"


@pytest.mark.parametrize("state", ["error", "active"])
async def test_a_deletion_s_call_that_comes_after_the_reset_ends_no_guest(
    cloud: ComputeCloud, state: str
) -> None:
    server_id, volume_id = await attached(cloud)
    late = hold_back_deletion(cloud, server_id)
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await reset_while_silent(cloud, server_id, state)
    answers = [await deliver() for deliver in late]
    assert {answer.status for answer in answers} == {412}
    assert (await cloud.server(server_id))["status"] == state.upper()
    assert await cloud.disks(server_id) == [volume_id]


async def test_an_operator_lets_a_reset_go_on_without_a_silent_host(cloud: ComputeCloud) -> None:
    server_id, _ = await attached(cloud)
    cloud.silent = ("", f"/servers/{server_id}")
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await reset(cloud, server_id)
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    listed = (await cloud.ask("GET", "/mooring/operations", user="admin")).body["operations"]
    assert [one["name"] for one in listed] == ["compute.reset_state"]
    path = f"/mooring/operations/{listed[0]['id']}/action"
    assert (await cloud.ask("POST", path, {"abort": None}, user="admin")).status == 202
    await require_peace(cloud)
    assert (await cloud.server(server_id))["status"] == "ACTIVE"


@pytest.mark.parametrize("state", ["error", "active"])
async def test_a_deletion_given_up_behind_the_end_of_the_guest_still_frees_the_volumes(
    cloud: ComputeCloud, state: str
) -> None:
    """And no server is said to be active that has no guest."""
    server_id, volume_id = await attached(cloud)
    cloud.silent = ("DELETE", "/connections/")
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await reset_while_silent(cloud, server_id, state)
    shown = await cloud.server(server_id)
    assert shown["status"] == "ERROR"
    assert ("had already ended the guest" in str(shown.get("fault"))) == (state == "active")
    assert await cloud.volume_status(volume_id) == "available"
    assert await cloud.connections() == []


async def test_a_reset_that_takes_the_place_of_another_one_looks_for_the_guest_too(
    any_cloud: ComputeCloud,
) -> None:
    """The first one had learned that a deletion may have ended it, and could not ask the host."""
    cloud = any_cloud
    server_id, volume_id = await attached(cloud)
    cloud.silent = ("DELETE", "/connections/")
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.compute.sagas.settle(5.0)
    cloud.silent = ("", "/")
    for _ in range(3):
        await reset(cloud, server_id)
    cloud.silent = None
    await require_peace(cloud)
    await cloud.look_at_hosts()
    shown = await cloud.server(server_id)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ERROR", None)
    assert "had already ended the guest" in str(shown["fault"])
    assert await cloud.volume_status(volume_id) == "available"
    assert await cloud.connections() == []


async def test_a_deletion_s_call_that_comes_after_the_second_reset_ends_no_guest(
    any_cloud: ComputeCloud,
) -> None:
    cloud = any_cloud
    server_id, volume_id = await attached(cloud)
    late = hold_back_deletion(cloud, server_id)
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.compute.sagas.settle(5.0)
    cloud.silent = ("POST", f"/servers/{server_id}")
    await reset(cloud, server_id)
    await reset_while_silent(cloud, server_id)
    assert {(await deliver()).status for deliver in late} == {412}
    shown = await cloud.server(server_id)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    assert await cloud.disks(server_id) == [volume_id]


async def test_a_server_whose_deletion_was_given_up_can_be_deleted_again(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await attached(cloud)
    cloud.silent = ("DELETE", f"/servers/{server_id}")
    await cloud.ask("DELETE", f"/servers/{server_id}")
    await reset_while_silent(cloud, server_id)
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await require_peace(cloud)
    assert (await cloud.server(server_id))["status"] == "gone"
    assert await cloud.volume_status(volume_id) == "available"


async def test_a_deletion_asked_for_behind_a_reset_is_carried_out(
    any_cloud: ComputeCloud,
) -> None:
    """And only once, however often it is asked for."""
    cloud = any_cloud
    server_id, volume_id = await attached(cloud)
    arrived, thawed = asyncio.Event(), asyncio.Event()

    async def hang(request: Request, forward: Forward) -> Response:
        if (request.method, request.target) != ("DELETE", f"/servers/{server_id}"):
            return await forward(request)
        arrived.set()
        await thawed.wait()
        raise Unavailable("The host gave no answer.")

    cloud.deliver_to_host = hang
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await arrived.wait()
    body = {"os-resetState": {"state": "active"}}
    asking = asyncio.create_task(
        cloud.ask("POST", f"/servers/{server_id}/action", body, user="admin")
    )
    both = ["compute.delete_server", "compute.reset_state"]

    async def waits() -> bool:
        return await at_work(cloud) == both

    await until(waits, "the reset waits behind the deletion")
    for _ in range(2):
        assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    assert (await at_work(cloud)).count("compute.delete_server") == 2
    thawed.set()
    await require_peace(cloud)
    await asking
    assert (await cloud.server(server_id))["status"] == "gone"
    assert await cloud.volume_status(volume_id) == "available"


async def at_work(cloud: ComputeCloud) -> list[str]:
    """Return the names of the operations that have not ended, in order."""
    listed = await cloud.ask("GET", "/mooring/operations", user="admin")
    return sorted(one["name"] for one in listed.body["operations"])
