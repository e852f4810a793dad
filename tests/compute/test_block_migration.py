"""Servers whose root disk lies on their host, moved to another one while they run.

Design, live migration; facts/compute.md 1.5 and 4.8. Real guests: tests/hosts/test_block_moves.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Conflict, NoCapacity, Unavailable
from tests.compute.local_disks import FORMER, HOSTS, LATER, Local, local_server
from tests.compute.moving import LIVE, moving_server
from tests.compute.verifying import ask, force_down
from tests.kept import Keeper
from tests.waiting import until

pytestmark = pytest.mark.anyio
FORCE = {"force_complete": None}


@pytest.fixture
async def local(keeper: Keeper) -> AsyncGenerator[Local]:
    async with local_server(keeper) as made:
        yield made


async def move(local: Local) -> None:
    """Move the server while it runs, and let everything come to rest."""
    await local.moving.move(block_migration="auto")


async def begun(local: Local, point: str = "send_memory") -> asyncio.Task[None]:
    """Begin to move, and return when the source is at that point and goes no further."""
    moving = local.moving
    knobs = moving.cloud.hypervisor(moving.source).knobs
    knobs.hold(point)
    assert await moving.migrate(block_migration=True) == 202
    settling = asyncio.create_task(moving.cloud.settle())

    async def is_there() -> bool:
        return bool(knobs.passed.get(point))

    await until(is_there, "the guest is sent")
    return settling


async def has_moved(local: Local) -> None:
    """See that the server runs at the destination from its own disk, and the source has nothing."""
    moving = local.moving
    assert (await moving.status(), await moving.host()) == ("completed", moving.destination)
    assert await moving.states() == ["absent", "running"]
    assert local.beside(moving.destination) == ["root"]
    assert not local.disk(moving.source).parent.exists()
    assert await local.held() == [{}, {moving.server_id: 1}]
    assert (await moving.connected(), await moving.attachments()) == ([0, 1], 1)
    await local.doctor_finds_nothing()


async def test_a_server_moves_with_its_disk_and_its_volume(local: Local) -> None:
    await move(local)
    await has_moved(local)
    assert local.reads(local.moving.destination) == ([FORMER], 1)


async def test_a_server_moves_back_and_forth_and_is_moved_off_afterwards(local: Local) -> None:
    moving = local.moving
    for host in (moving.destination, moving.source, moving.destination):
        await moving.move(host=host, block_migration="auto")
        assert (await moving.host(), await moving.status()) == (host, "completed")
    await has_moved(local)
    assert await ask(moving, "migrate", user="admin") == 202
    assert await ask(moving, "confirmResize") == 204
    await local.stays_whole()


async def test_what_the_guest_writes_on_its_way_is_there(local: Local) -> None:
    moving = local.moving
    settling = await begun(local)
    local.write(moving.source, LATER)
    moving.cloud.hypervisor(moving.source).knobs.release("send_memory")
    await settling
    await has_moved(local)
    assert local.reads(moving.destination) == ([FORMER, LATER], 1)


async def test_how_much_of_the_disk_is_there_is_shown(local: Local) -> None:
    moving = local.moving
    settling = await begun(local, "send_disk")
    await moving.cloud.compute.sagas.settle(2.0)
    (shown,) = await moving.under_way()
    sizes = [shown[f"disk_{part}_bytes"] for part in ("total", "processed", "remaining")]
    assert sizes == [1 << 30, 1 << 29, 1 << 29]
    assert shown["memory_remaining_bytes"] == shown["memory_total_bytes"] > 0
    answer = await moving.ask_of("POST", shown["id"], FORCE, suffix="/action")
    assert answer.status == 202
    await settling
    await has_moved(local)


@pytest.mark.parametrize("point", ["send_disk", "send_memory"])
async def test_a_move_is_aborted_while_disk_or_memory_is_on_its_way(
    local: Local, point: str
) -> None:
    moving = local.moving
    settling = await begun(local, point)
    (shown,) = await moving.under_way()
    assert (await moving.ask_of("DELETE", shown["id"])).status == 202
    await settling
    assert await moving.status() == "cancelled"
    await local.stays_whole()


@pytest.mark.parametrize(
    ("side", "point"),
    [
        ("destination", "expect"),
        ("destination", "expect_root"),
        ("source", "send"),
        ("source", "send_disk"),
        ("source", "send_memory"),
    ],
)
async def test_a_guest_that_cannot_be_sent_stays_with_its_disk(
    local: Local, side: str, point: str
) -> None:
    moving = local.moving
    host = getattr(moving, side)
    moving.cloud.hypervisor(host).knobs.fail(point, Conflict("It broke off."))
    await move(local)
    assert await moving.status() == "error"
    assert "It broke off." in await local.why()
    await local.stays_whole()


async def test_a_disk_that_has_no_room_there_stays(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(directory: Path, server_id: str, wanted: int) -> None:
        del directory, server_id
        assert 0 < wanted < 1 << 20
        raise NoCapacity("There is no room for another disk.")

    monkeypatch.setattr("mooring.agent.moves.check_room", refuse)
    await move(local)
    assert await local.moving.status() == "error"
    assert "no room for another disk" in await local.why()
    await local.stays_whole()


async def test_a_disk_that_is_not_there_any_more_is_sent_nowhere(local: Local) -> None:
    """As QEMU refuses what is no disk, or one of another size."""
    moving = local.moving
    settling = await begun(local, "send")
    local.disk(moving.destination).unlink()
    moving.cloud.hypervisor(moving.source).knobs.release("send")
    await settling
    assert await moving.status() == "error"
    await local.stays_whole()


@pytest.mark.parametrize("side", ["source", "destination"])
async def test_a_host_of_a_release_that_copies_no_disks_is_told(local: Local, side: str) -> None:
    moving, end = local.moving, {"source": "/portrait", "destination": "/arrival"}[side]

    async def forget_disks(request: Request, forward: Forward) -> Response:
        answer = await forward(request)
        if request.method == "GET" and request.target.endswith(end):
            body = {**msgspec.json.decode(answer.body), "root": None if side == "source" else ""}
            answer = structs.replace(answer, body=msgspec.json.encode(body))
        return answer

    moving.cloud.deliver_to_host = forget_disks
    await move(local)
    assert f"The agent of host {getattr(moving, side)} is of a release" in await local.why()
    await local.stays_whole()


async def test_a_server_whose_image_is_gone_moves_only_to_who_has_it(local: Local) -> None:
    moving = local.moving
    await move(local)
    moving.cloud.shelf.images.clear()
    await moving.move(host=moving.source, block_migration="auto")
    await local.stays_whole()
    agent = moving.cloud.known_agents[moving.destination]
    await agent.delete_image(moving.cloud.image_id)
    await move(local)
    assert await moving.status() == "error"
    assert "was deleted" in await local.why()
    assert "migrate it while it is off" in await local.why()
    await local.stays_whole()
    assert await ask(moving, "migrate", user="admin") == 202
    assert await ask(moving, "confirmResize") == 204
    assert await moving.host() == moving.destination


# -- hosts that are gone -----------------------------------------------------------------------


async def test_a_destination_that_dies_in_the_middle_owes_what_it_has_of_the_disk(
    local: Local,
) -> None:
    moving = local.moving
    settling = await begun(local)
    assert local.disk(moving.destination).exists()
    await force_down(moving.cloud, moving.destination, down=True)
    moving.cloud.hypervisor(moving.source).knobs.fail("send_memory", Unavailable("It is gone."))
    moving.cloud.hypervisor(moving.source).knobs.release("send_memory")
    await settling
    assert (await moving.status(), await moving.host()) == ("error", moving.source)
    assert (await moving.states())[0] == "running"
    await moving.cloud.look_at_hosts()
    await force_down(moving.cloud, moving.destination, down=False)
    await moving.cloud.look_at_hosts()
    await moving.cloud.settle()
    await local.stays_whole()


async def test_a_source_that_dies_behind_the_move_owes_its_disk(local: Local) -> None:
    moving = local.moving
    moving.cloud.silent = ("DELETE", f"/servers/{moving.server_id}")
    assert await moving.migrate(block_migration="auto") == 202
    await moving.cloud.compute.sagas.settle(10.0)
    assert local.reads(moving.source) == local.reads(moving.destination)
    await force_down(moving.cloud, moving.source, down=True)
    await moving.cloud.settle()
    assert (await moving.status(), await moving.host()) == ("completed", moving.destination)
    assert local.disk(moving.source).exists()
    # Its debt says so, and it is down: nobody else is to see to that.
    assert await moving.cloud.complaints() == []
    moving.cloud.silent = None
    await moving.cloud.look_at_hosts()
    await force_down(moving.cloud, moving.source, down=False)
    await moving.cloud.look_at_hosts()
    await moving.cloud.settle()
    await has_moved(local)


# -- deleted, reset ----------------------------------------------------------------------------


async def test_a_server_that_is_deleted_on_its_way_leaves_no_disk(local: Local) -> None:
    moving = local.moving
    settling = await begun(local)
    answer = await moving.cloud.ask("DELETE", f"/servers/{moving.server_id}")
    assert answer.status == 204
    await settling
    await moving.cloud.settle()
    assert (await moving.states(), await moving.connected()) == (["absent"] * 2, [0, 0])
    for host in HOSTS:
        assert not local.disk(host).parent.exists()
    assert (await moving.claims(), await moving.attachments()) == ([set(), set()], 0)
    await local.doctor_finds_nothing()


async def test_a_server_that_is_reset_on_its_way_has_one_disk(local: Local) -> None:
    settling = await begun(local)
    state = {"state": "active"}
    act = local.moving.cloud.act
    assert await act(local.moving.server_id, "os-resetState", state, user="admin") == 202
    await settling
    await local.moving.cloud.settle()
    await local.stays_whole()


# -- what is asked for -------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.24", "2.25", "2.90"])
async def test_a_disk_on_its_host_is_copied_only_when_that_is_asked_for(
    local: Local, version: str
) -> None:
    """facts/compute.md 1.5: "auto" since 2.25."""
    moving, more = local.moving, {"disk_over_commit": False} if version == "2.24" else {}
    await moving.cloud.look_at_hosts()
    path = f"/servers/{moving.server_id}/action"
    value = {"host": None, "block_migration": False, **more}
    answer = await moving.cloud.ask("POST", path, {LIVE: value}, user="admin", version=version)
    assert answer.status == 400
    assert "block migration only" in answer.text
    assert await moving.migrations() == []
    await local.stays_whole()
    value["block_migration"] = True
    answer = await moving.cloud.ask("POST", path, {LIVE: value}, user="admin", version=version)
    assert answer.status == 202
    await moving.cloud.settle()
    await has_moved(local)


async def test_there_is_nothing_to_copy_of_a_server_whose_disks_are_volumes(
    keeper: Keeper,
) -> None:
    async with moving_server(keeper, hosts=HOSTS) as moving:
        cloud = moving.cloud
        path, value = f"/servers/{moving.server_id}/action", {"host": None, "block_migration": True}
        answer = await cloud.ask("POST", path, {LIVE: value}, user="admin", version="2.90")
        assert answer.status == 400
        assert "nothing to copy" in answer.text
        assert await moving.migrations() == []
        await moving.stays_whole()


async def test_no_host_is_chosen_that_has_no_room_for_the_disk(local: Local) -> None:
    moving = local.moving
    placement = moving.cloud.compute.placement
    known = {one.name: one.uuid for one in await placement.providers()}
    free = 64 * 160
    await moving.cloud.claim("5" * 32, {known[moving.destination]: {"DISK_GB": free}})
    await move(local)
    assert (await moving.status(), await moving.host()) == ("error", moving.source)
    assert await moving.states() == ["running", "absent"]
    assert not local.disk(moving.destination).parent.exists()
