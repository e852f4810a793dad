"""Servers that move to another host while they run (specs 001, live migration)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Conflict, Unavailable
from tests.compute.cloud import ComputeCloud
from tests.compute.extending import GIB
from tests.compute.late import comes_to
from tests.compute.moving import LIVE, Moving, begun, moving_server, server_that_moves
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2")


@pytest.fixture
async def moving(keeper: Keeper) -> AsyncGenerator[Moving]:
    async with moving_server(keeper, hosts=HOSTS) as made:
        yield made


async def test_a_server_moves_with_its_volumes(moving: Moving) -> None:
    await moving.move()
    assert await moving.status() == "completed"
    assert await moving.host() == moving.destination
    assert (await moving.cloud.server(moving.server_id))["status"] == "ACTIVE"
    assert await moving.states() == ["absent", "running"]
    assert await moving.connected() == [0, 2]
    assert await moving.attachments() == 2
    assert await moving.claims() == [set(), {moving.server_id}]
    for volume_id in moving.volumes:
        assert await moving.cloud.volume_status(volume_id) == "in-use"
    assert ("live-migration", None) in await moving.cloud.actions(moving.server_id)


async def test_a_server_moves_back_and_forth(moving: Moving) -> None:
    for host in (moving.destination, moving.source, moving.destination):
        await moving.move(host=host)
        assert (await moving.host(), await moving.status()) == (host, "completed")


async def test_the_guest_writes_from_one_host_at_a_time(moving: Moving) -> None:
    await moving.move()
    spans = [
        one
        for host in (moving.source, moving.destination)
        for one in moving.cloud.hypervisor(host).ledger()
        if one.volume_id == moving.volumes[0]
    ]
    first, second = sorted(spans, key=lambda one: one.since)
    assert first.until is not None
    assert first.until <= second.since
    assert second.until is None


async def test_what_cannot_be_prepared_leaves_no_trace(moving: Moving) -> None:
    knobs = moving.cloud.hypervisor(moving.destination).knobs
    knobs.fail("expect", Conflict("The processor does not fit."))
    await moving.move()
    await moving.stays_whole()
    assert await moving.status() == "error"
    assert ("live-migration", "Error") in await moving.cloud.actions(moving.server_id)


async def test_a_guest_that_cannot_be_sent_stays(moving: Moving) -> None:
    moving.cloud.hypervisor(moving.source).knobs.fail("send_memory", Conflict("It broke off."))
    await moving.move()
    await moving.stays_whole()
    assert await moving.status() == "error"
    assert ("live-migration", "Error") in await moving.cloud.actions(moving.server_id)


async def test_a_destination_that_will_not_let_go_leaves_the_server_in_error(
    moving: Moving,
) -> None:
    """Spec 001: otherwise put the instance into the ERROR state; the attachment stays."""
    moving.cloud.hypervisor(moving.source).knobs.fail("send_memory", Conflict("It broke off."))
    moving.cloud.silent = ("DELETE", "/connections/")
    await moving.move()
    assert (await moving.cloud.server(moving.server_id))["status"] == "ERROR"
    assert await moving.host() == moving.source
    assert await moving.states() == ["running", "absent"]
    assert await moving.status() == "error"
    assert await moving.attachments() == 4
    assert await moving.claims() == [{moving.server_id}, set()]


async def test_a_source_that_will_not_let_go_leaves_the_server_in_error_where_it_runs(
    moving: Moving,
) -> None:
    """Spec 001: if there are any failures with disconnect on the source host, ERROR, kept."""
    moving.cloud.silent = ("DELETE", "/connections/")
    await moving.move()
    assert (await moving.cloud.server(moving.server_id))["status"] == "ERROR"
    assert await moving.host() == moving.destination
    assert await moving.states() == ["absent", "running"]
    assert await moving.status() == "error"
    assert await moving.attachments() == 4
    moving.cloud.silent = None
    assert (await moving.cloud.ask("DELETE", f"/servers/{moving.server_id}")).status == 204
    await moving.cloud.settle()
    assert (await moving.states(), await moving.connected()) == (["absent"] * 2, [0, 0])
    assert await moving.attachments() == 0


async def test_a_move_is_aborted_while_the_guest_is_on_its_way(moving: Moving) -> None:
    settling = await begun(moving)
    (shown,) = await moving.under_way()
    assert (shown["status"], shown["dest_compute"]) == ("running", moving.destination)
    assert (await moving.cloud.server(moving.server_id))["status"] == "MIGRATING"
    assert (await moving.ask_of("DELETE", shown["id"])).status == 202
    await settling
    await moving.stays_whole()
    assert (await moving.status(), await moving.under_way()) == ("cancelled", [])
    assert (await moving.ask_of("DELETE", shown["id"])).status == 400


async def test_a_move_is_forced_to_its_end(moving: Moving) -> None:
    settling = await begun(moving)
    (shown,) = await moving.under_way()
    body = {"force_complete": None}
    answer = await moving.ask_of("POST", shown["id"], body, suffix="/action")
    assert answer.status == 202
    await settling
    assert (await moving.status(), await moving.host()) == ("completed", moving.destination)


async def test_a_volume_that_is_to_grow_during_a_move_grows_where_the_guest_is_then(
    moving: Moving,
) -> None:
    settling, volume_id = await begun(moving), moving.volumes[-1]
    body = {"os-extend": {"new_size": 2}}
    await moving.cloud.volume_api("POST", f"/volumes/{volume_id}/action", body)
    moving.cloud.hypervisor(moving.source).knobs.release("send_memory")
    await settling
    await moving.cloud.settle()
    assert (await moving.status(), await moving.host()) == ("completed", moving.destination)
    assert await moving.cloud.volume_status(volume_id) == "in-use"
    agent = moving.cloud.known_agents[moving.destination]
    size = await agent.show_disk_size(moving.server_id, volume_id)
    assert (size.guest_bytes, size.image_bytes) == (2 * GIB, 2 * GIB)
    assert (await moving.cloud.actions(moving.server_id))[-1] == ("extend_volume", None)


async def arrived(moving: Moving) -> None:
    """Move until the guest is at the destination, and its source does not say so."""
    moving.cloud.silent = ("DELETE", f"/servers/{moving.server_id}/departure")
    assert await moving.migrate() == 202
    await moving.cloud.compute.sagas.settle(10.0)
    assert await moving.states() == ["migrated", "running"]
    assert await moving.host() == moving.source


@pytest.mark.parametrize("end", ["source", "destination"])
async def test_as_long_as_one_host_does_not_tell_nothing_is_started_and_nothing_destroyed(
    moving: Moving, end: str
) -> None:
    """The control plane came back in the middle of a move (design, section 4: one unknown)."""
    await arrived(moving)
    moving.cloud.silent = None
    moving.cloud.ended_hosts.add(getattr(moving, end))
    await moving.cloud.restart()
    await moving.cloud.compute.sagas.settle(1800.0)
    moving.cloud.ended_hosts.clear()
    assert await moving.states() == ["migrated", "running"]
    assert (await moving.cloud.server(moving.server_id))["status"] == "MIGRATING"
    assert await moving.connected() == [2, 2]
    await moving.cloud.settle()
    assert (await moving.host(), await moving.status()) == (moving.destination, "completed")
    assert await moving.states() == ["absent", "running"]


async def test_a_server_is_deleted_where_its_guest_has_just_arrived(moving: Moving) -> None:
    await arrived(moving)
    answer = await moving.cloud.ask("DELETE", f"/servers/{moving.server_id}")
    assert answer.status == 204
    await moving.cloud.settle()
    assert (await moving.cloud.server(moving.server_id))["status"] == "gone"
    assert (await moving.states(), await moving.connected()) == (["absent"] * 2, [0, 0])
    assert (await moving.attachments(), await moving.claims()) == (0, [set(), set()])


async def test_a_server_that_is_reset_is_where_its_guest_has_just_arrived(moving: Moving) -> None:
    await arrived(moving)
    state = {"state": "active"}
    assert await moving.cloud.act(moving.server_id, "os-resetState", state, user="admin") == 202
    moving.cloud.silent = None
    await moving.cloud.settle()
    assert (await moving.host(), await moving.states()) == (
        moving.destination,
        ["absent", "running"],
    )
    assert (await moving.connected(), await moving.attachments()) == ([0, 2], 2)
    assert await moving.claims() == [set(), {moving.server_id}]


async def test_a_guest_that_stayed_is_not_sent_by_a_call_that_comes_late(moving: Moving) -> None:
    lost: list[tuple[Request, Forward]] = []

    async def lose(request: Request, forward: Forward) -> Response:
        if (request.method, request.target.rpartition("/")[2]) == ("PUT", "departure"):
            lost.append((request, forward))
            raise Unavailable("The host gave no answer.")
        return await forward(request)

    moving.cloud.deliver_to_host = lose
    await moving.move()
    assert await moving.status() == "error"
    for request, forward in lost:
        assert await comes_to(request, forward) >= 400
    await moving.stays_whole()


async def test_an_abort_that_is_asked_by_many_at_once_is_one(moving: Moving) -> None:
    settling = await begun(moving)
    (shown,) = await moving.under_way()
    answers = await asyncio.gather(*(moving.ask_of("DELETE", shown["id"]) for _ in range(4)))
    assert {one.status for one in answers} <= {202, 400}
    await settling
    await moving.stays_whole()
    assert await moving.status() == "cancelled"


async def test_a_server_that_is_reset_during_its_move_is_where_its_guest_is(moving: Moving) -> None:
    settling = await begun(moving)
    state = {"state": "active"}
    assert await moving.cloud.act(moving.server_id, "os-resetState", state, user="admin") == 202
    await settling
    await moving.cloud.settle()
    await moving.stays_whole()
    assert await moving.under_way() == []


async def test_servers_that_share_a_volume_move_at_once(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        volume_id = await cloud.make_shared_volume()
        both = [await server_that_moves(cloud, volumes=1) for _ in range(2)]
        for one in both:
            assert (await cloud.attach(one.server_id, volume_id, version="2.60")).status == 200
            await cloud.settle()
        assert await asyncio.gather(*(one.migrate() for one in both)) == [202, 202]
        await cloud.settle()
        for one in both:
            assert (await one.status(), await one.host()) == ("completed", one.destination)
            assert (await one.states(), await one.attachments()) == (["absent", "running"], 2)
        assert await cloud.volume_status(volume_id) == "in-use"


async def test_a_move_waits_for_a_volume_that_another_server_is_being_given(
    tmp_path: Path,
) -> None:
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        volume_id, moving = await cloud.make_shared_volume(), await server_that_moves(cloud)
        await cloud.attach(moving.server_id, volume_id, version="2.60")
        await cloud.settle()
        path = f"/volumes/{volume_id}/action"
        await cloud.volume_api("POST", path, {"os-reserve": {}}, user="admin")
        assert await cloud.volume_status(volume_id) == "attaching"
        assert await moving.migrate() == 202
        await cloud.compute.sagas.settle(20.0)
        assert await moving.status() == "preparing"
        await cloud.volume_api("POST", path, {"os-unreserve": {}}, user="admin")
        await cloud.settle()
        assert (await moving.status(), await moving.host()) == ("completed", moving.destination)


@pytest.fixture
async def apart(tmp_path: Path) -> AsyncGenerator[tuple[Moving, Moving, str]]:
    """Two members of an anti-affinity group on two of three hosts, and the third host."""
    async with ComputeCloud(tmp_path, hosts=(*HOSTS, "host3")) as cloud:
        wanted = {"server_group": {"name": "apart", "policy": "anti-affinity"}}
        made = await cloud.ask("POST", "/os-server-groups", wanted)
        group = made.body["server_group"]["id"]
        both = [await server_that_moves(cloud, volumes=1, group=group) for _ in range(2)]
        (free,) = {*cloud.hosts} - {one.source for one in both}
        yield both[0], both[1], free


async def test_a_member_of_a_group_that_has_moved_leaves_its_former_host_to_others(
    apart: tuple[Moving, Moving, str],
) -> None:
    first, second, free = apart
    await first.move()
    assert (await first.status(), await first.host()) == ("completed", free)
    await second.move()
    assert (await second.status(), await second.host()) == ("completed", first.source)


@pytest.mark.parametrize("point", ["expect", "send_memory"])
async def test_a_member_of_a_group_that_stayed_leaves_to_others_where_it_was_to_go(
    apart: tuple[Moving, Moving, str], point: str
) -> None:
    first, second, free = apart
    at = free if point == "expect" else first.source
    first.cloud.hypervisor(at).knobs.fail(point, Conflict("No."))
    await first.move()
    assert (await first.host(), await first.status()) != (free, "completed")
    await second.move()
    assert (await second.status(), await second.host()) == ("completed", free)


async def test_a_guest_that_never_arrives_stays_after_its_time(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        cloud.compute.settings = replace(cloud.compute.settings, move_timeout_s=1.0)
        moving = await server_that_moves(cloud, volumes=1)
        await (await begun(moving))
        await moving.stays_whole()
        assert await moving.status() == "error"


async def test_a_server_is_deleted_in_the_middle_of_its_move(moving: Moving) -> None:
    settling = await begun(moving)
    answer = await moving.cloud.ask("DELETE", f"/servers/{moving.server_id}")
    assert answer.status == 204
    await settling
    await moving.cloud.settle()
    assert (await moving.cloud.server(moving.server_id))["status"] == "gone"
    assert (await moving.states(), await moving.connected()) == (["absent"] * 2, [0, 0])
    assert (await moving.attachments(), await moving.claims()) == (0, [set(), set()])


async def test_no_host_is_found_where_there_is_no_room(moving: Moving) -> None:
    placement = moving.cloud.compute.placement
    known = {one.name: one.uuid for one in await placement.providers()}
    for _ in range(4):
        await moving.cloud.claim(str(uuid4()), {known[moving.destination]: {"VCPU": 64}})
    await moving.move()
    assert await moving.host() == moving.source
    assert (await moving.cloud.server(moving.server_id))["status"] == "ACTIVE"
    assert await moving.status() == "error"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"host": "nowhere"}, "could not be found"),
        ({"block_migration": True}, "nothing to copy"),
    ],
    ids=["unknown host", "block migration"],
)
async def test_what_cannot_be_is_refused_at_once(
    moving: Moving, more: dict[str, Any], said: str
) -> None:
    value = {"host": None, "block_migration": False, **more}
    path = f"/servers/{moving.server_id}/action"
    answer = await moving.cloud.ask("POST", path, {LIVE: value}, user="admin", version="2.90")
    assert answer.status == 400
    assert said in answer.text
    assert await moving.migrations() == []
    await moving.stays_whole()


async def test_a_server_does_not_move_to_where_it_is_nor_to_a_host_that_is_down(
    moving: Moving,
) -> None:
    assert await moving.migrate(host=moving.source) == 400
    answer = await moving.cloud.ask("GET", "/os-services?binary=nova-compute", user="admin")
    service = next(one for one in answer.body["services"] if one["host"] == moving.destination)
    path = f"/os-services/{service['id']}"
    await moving.cloud.ask("PUT", path, {"forced_down": True}, user="admin")
    assert await moving.migrate(host=moving.destination) == 400
    assert await moving.migrations() == []


async def test_only_what_runs_moves_and_only_once_at_a_time(moving: Moving) -> None:
    settling = await begun(moving)
    assert await moving.migrate() == 409
    moving.cloud.hypervisor(moving.source).knobs.release("send_memory")
    await settling
    await moving.cloud.act(moving.server_id, "os-stop")
    await moving.cloud.settle()
    assert await moving.migrate() == 409


async def test_users_may_not_choose_hosts_nor_see_them(moving: Moving) -> None:
    value = {"host": moving.destination, "block_migration": False}
    assert await moving.cloud.act(moving.server_id, LIVE, value, version="2.90") == 403
