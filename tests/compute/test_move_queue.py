"""Moves that wait for each other: so many guests leave a host at a time, in their order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.compute.hosts.loops import watch_hosts
from tests.compute.cloud import ComputeCloud
from tests.compute.moving import Moving, begun, server_that_moves

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2", "host3")


async def only(cloud: ComputeCloud, *names: str) -> None:
    """Let new servers, and moves that choose, go to these hosts alone."""
    listed = await cloud.ask("GET", "/os-services", user="admin")
    for service in listed.body["services"]:
        status = "enabled" if service["host"] in names else "disabled"
        path = f"/os-services/{service['id']}"
        await cloud.ask("PUT", path, {"status": status}, user="admin")
    await cloud.look_at_hosts()


@pytest.fixture
async def three(tmp_path: Path) -> AsyncGenerator[list[Moving]]:
    """Three servers on one host, and two other hosts."""
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        await only(cloud, "host1")
        made = [await server_that_moves(cloud, volumes=1) for _ in range(3)]
        await only(cloud, *HOSTS)
        for one in made:
            assert one.source == "host1"
            one.destination = "host2"
        yield made


async def rest(cloud: ComputeCloud) -> None:
    """Let everything come to rest that does not wait for time to pass."""
    await cloud.compute.sagas.settle(0.0)


async def ask_all(three: list[Moving]) -> None:
    """Ask for the moves, one after the other, the first of which stays on its way."""
    three[0].cloud.hypervisor("host1").knobs.hold("send_memory")
    await three[0].cloud.look_at_hosts()
    for one in three:
        assert await one.migrate(host=one.destination) == 202
        await one.cloud.compute.sagas.settle(0.0)


def release(three: list[Moving]) -> None:
    """Let what is on its way arrive."""
    three[0].cloud.hypervisor("host1").knobs.release("send_memory")


async def statuses(three: list[Moving]) -> list[str]:
    """Return how the newest move of each stands."""
    return [await one.status() for one in three]


async def test_one_guest_leaves_a_host_at_a_time_and_the_others_wait_in_their_order(
    three: list[Moving],
) -> None:
    await ask_all(three)
    assert await statuses(three) == ["running", "queued", "queued"]
    assert [await one.states() for one in three[1:]] == [["running", "absent"]] * 2
    assert [await one.connected() for one in three[1:]] == [[3, 1]] * 2
    server = await three[1].cloud.server(three[1].server_id)
    assert (server["status"], server["OS-EXT-STS:task_state"]) == ("MIGRATING", "migrating")
    ended: list[str] = []

    async def note(request: Any, forward: Any) -> Any:
        if request.method == "PUT" and request.target.endswith("/departure"):
            ended.append(request.target.split("/")[2])
        return await forward(request)

    three[0].cloud.deliver_to_host = note
    release(three)
    await three[0].cloud.settle()
    assert await statuses(three) == ["completed"] * 3
    assert list(dict.fromkeys(ended)) in (
        [one.server_id for one in three],
        [one.server_id for one in three[1:]],
    )
    assert await three[0].cloud.complaints() == []


async def test_a_move_that_waits_is_aborted_from_2_65_on(three: list[Moving]) -> None:
    await ask_all(three)
    second = three[1]
    (shown,) = await second.under_way()
    path = f"/servers/{second.server_id}/migrations/{shown['id']}"
    early = await second.cloud.ask("DELETE", path, user="admin", version="2.64")
    assert early.status == 400
    assert "queued; before" in early.text
    assert "from microversion 2.65 on" in early.text
    assert (await second.cloud.ask("DELETE", path, user="admin", version="2.65")).status == 202
    await second.cloud.compute.sagas.settle(0.0)
    assert await statuses(three) == ["running", "cancelled", "queued"]
    release(three)
    await second.cloud.settle()
    assert await statuses(three) == ["completed", "cancelled", "completed"]
    assert await second.host() == "host1"
    assert await second.cloud.complaints() == []


@pytest.mark.parametrize("how", ["delete", "reset", "abort"])
async def test_the_next_one_goes_when_the_one_before_it_is_taken_away(
    three: list[Moving], how: str
) -> None:
    await ask_all(three)
    first, cloud = three[0], three[0].cloud
    if how == "delete":
        assert (await cloud.ask("DELETE", f"/servers/{first.server_id}")).status == 204
    elif how == "reset":
        state = {"state": "active"}
        assert await cloud.act(first.server_id, "os-resetState", state, user="admin") == 202
    else:
        (shown,) = await first.under_way()
        assert (await first.ask_of("DELETE", shown["id"])).status == 202
    await cloud.compute.sagas.settle(1.0)
    assert await three[1].status() == "running"
    assert await three[2].status() == "queued"
    release(three)
    await cloud.settle()
    assert [await one.host() for one in three[1:]] == ["host2"] * 2
    assert await cloud.complaints() == []


async def test_a_server_that_waits_can_be_deleted(three: list[Moving]) -> None:
    await ask_all(three)
    cloud = three[0].cloud
    assert (await cloud.ask("DELETE", f"/servers/{three[1].server_id}")).status == 204
    await cloud.compute.sagas.settle(1.0)
    assert (await cloud.server(three[1].server_id))["status"] == "gone"
    release(three)
    await cloud.settle()
    assert [await one.status() for one in three] == ["completed", "error", "completed"]
    assert await cloud.complaints() == []


async def test_the_queue_outlives_the_process(three: list[Moving]) -> None:
    await ask_all(three)
    cloud = three[0].cloud
    await cloud.restart()
    assert await statuses(three) == ["running", "queued", "queued"]
    release(three)
    await cloud.settle()
    assert await statuses(three) == ["completed"] * 3
    assert await cloud.complaints() == []


@pytest.mark.parametrize("most", [2, 0])
async def test_as_many_go_at_once_as_the_operator_allows(three: list[Moving], most: int) -> None:
    compute = three[0].cloud.compute
    compute.settings = replace(compute.settings, moves_at_once=most)
    await ask_all(three)
    assert (await statuses(three)).count("running") == (most or 3)
    release(three)
    await three[0].cloud.settle()
    assert await statuses(three) == ["completed"] * 3


async def test_hosts_have_a_queue_each(three: list[Moving]) -> None:
    """A guest that leaves another host does not wait for those of this one."""
    cloud = three[0].cloud
    assert await three[2].migrate(host="host3") == 202
    await cloud.settle()
    third = three[2]
    third.source, third.destination = "host3", "host2"
    await ask_all(three[:2])
    assert await statuses(three[:2]) == ["running", "queued"]
    assert await third.migrate(host="host2") == 202
    await rest(cloud)
    assert await third.status() == "completed"
    release(three)
    await cloud.settle()


async def test_a_silent_host_holds_up_nobody_who_goes_elsewhere(three: list[Moving]) -> None:
    first, second, cloud = three[0], three[1], three[0].cloud
    second.destination = "host3"

    thawed = asyncio.Event()

    async def freeze(request: Any, forward: Any) -> Any:
        if request.headers["host"] == "host2":
            await thawed.wait()
        return await forward(request)

    await cloud.look_at_hosts()

    cloud.deliver_to_host = freeze
    assert await first.ask(host="host2") == 202
    await cloud.pass_time(20.0)
    assert await second.ask(host="host3") == 202
    await watch_hosts.look_at(cloud.compute, "host3")
    for _ in range(40):
        await cloud.pass_time(1.0)
        if await second.status() == "completed":
            break
    assert await statuses([first, second]) == ["preparing", "completed"]
    thawed.set()
    await cloud.settle()
    assert await first.status() == "completed"


async def test_what_takes_too_long_is_held_still_if_the_operator_wants_it_so(
    three: list[Moving],
) -> None:
    first, compute = three[0], three[0].cloud.compute
    compute.settings = replace(
        compute.settings, move_timeout_s=1.0, move_timeout_action="force_complete"
    )
    await (await begun(first))
    assert (await first.status(), await first.host()) == ("completed", first.destination)


async def test_a_server_says_how_much_of_it_has_arrived(three: list[Moving]) -> None:
    first, cloud = three[0], three[0].cloud
    settling = await begun(first)
    (shown,) = await first.under_way()
    assert (await cloud.server(first.server_id))["progress"] == 0
    cloud.silent = ("DELETE", f"/servers/{first.server_id}/departure")
    body = {"force_complete": None}
    assert (await first.ask_of("POST", shown["id"], body, suffix="/action")).status == 202
    await cloud.compute.sagas.settle(1.0)
    (shown,) = await first.under_way()
    assert shown["memory_processed_bytes"] * 2 == shown["memory_total_bytes"] > 0
    assert (await cloud.server(first.server_id))["progress"] == 50
    cloud.silent = None
    await settling
    assert await first.status() == "completed"
