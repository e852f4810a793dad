"""Servers whose root disk lies on their host, moved to another one while they are off.

Design, cold migration; facts/compute.md 4.9; ADR 8 and 9.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec
import pytest

from mooring.agent_api.copies import CopyProgress
from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Conflict, Unavailable
from mooring.limits import COMPUTE_UNDO_ATTEMPTS as PATIENCE
from tests.compute.late import comes_to
from tests.compute.local_disks import FORMER, HOSTS, LATER, Local, local_server
from tests.compute.verifying import ask, force_down, migrate, show
from tests.kept import Keeper

pytestmark = pytest.mark.anyio


@pytest.fixture
async def local(keeper: Keeper) -> AsyncGenerator[Local]:
    async with local_server(keeper) as made:
        yield made


# -- to another host ---------------------------------------------------------------------------


async def test_a_server_moves_with_its_disk_and_is_confirmed(local: Local) -> None:
    moving = local.moving
    await migrate(moving)
    assert (await show(moving))["status"] == "VERIFY_RESIZE"
    assert await moving.states() == ["absent", "running"]
    assert local.reads(moving.destination) == local.reads(moving.source) == ([FORMER], 1)
    await local.doctor_finds_nothing()
    assert await ask(moving, "confirmResize") == 204
    assert not local.disk(moving.source).parent.exists()
    assert local.reads(moving.destination) == ([FORMER], 1)
    assert await moving.states() == ["absent", "running"]
    assert await local.held() == [{}, {moving.server_id: 1}]
    assert (await moving.connected(), await moving.attachments()) == ([0, 1], 1)
    await local.doctor_finds_nothing()


async def test_a_server_goes_back_to_the_disk_that_it_left(local: Local) -> None:
    moving = local.moving
    await migrate(moving)
    local.write(moving.destination, LATER)
    assert await ask(moving, "revertResize") == 202
    assert await moving.status() == "reverted"
    await local.stays_whole()


async def test_a_stopped_server_is_moved_stopped(local: Local) -> None:
    moving = local.moving
    assert await ask(moving, "os-stop") == 202
    await migrate(moving)
    assert await moving.states() == ["absent", "stopped"]
    assert local.reads(moving.destination) == ([FORMER], 1)
    assert await ask(moving, "revertResize") == 202
    assert await moving.states() == ["stopped", "absent"]
    assert await ask(moving, "os-start") == 202
    await local.stays_whole()


async def test_a_server_moves_twice_and_is_rebuilt_where_it_is(local: Local) -> None:
    moving = local.moving
    for _ in range(2):
        await migrate(moving)
        assert await ask(moving, "confirmResize") == 204
    await local.stays_whole()
    assert await ask(moving, "reboot", {"type": "HARD"}) == 202
    assert await ask(moving, "rebuild", {"imageRef": moving.cloud.image_id}) == 202
    await moving.stays_whole()


async def test_the_image_may_be_gone_by_then(local: Local) -> None:
    moving = local.moving
    for host in HOSTS:
        await moving.cloud.known_agents[host].delete_image(moving.cloud.image_id)
    moving.cloud.shelf.images.clear()
    await migrate(moving)
    assert await ask(moving, "revertResize") == 202
    await local.stays_whole()


async def test_the_guest_is_off_while_its_disk_is_copied(local: Local) -> None:
    moving, seen = local.moving, list[tuple[str, list[str]]]()

    async def look(request: Request, forward: Forward) -> Response:
        if request.method == "PUT" and request.target.endswith(("/offer", "/copy")):
            seen.append((request.headers["host"], await moving.states()))
        return await forward(request)

    moving.cloud.deliver_to_host = look
    await migrate(moving)
    off = ["stopped", "absent"]
    assert seen == [(moving.source, off), (moving.destination, off)]


# -- what fails --------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["take_in", "define", "power_on"])
async def test_a_guest_that_does_not_start_there_goes_on_with_its_own_disk(
    local: Local, point: str
) -> None:
    moving = local.moving
    moving.cloud.hypervisor(moving.destination).knobs.fail(point, Conflict("It will not start."))
    await migrate(moving)
    await local.stays_whole()
    assert await moving.status() == "error"
    assert ("migrate", "Error") in await moving.cloud.actions(moving.server_id)


async def test_a_copy_that_does_not_get_on_is_given_up(local: Local) -> None:
    moving = local.moving
    moving.cloud.hypervisor(moving.destination).knobs.fail(
        "take_in", Unavailable("The other host does not send."), times=1000
    )
    await migrate(moving)
    await local.stays_whole()
    assert "does not send" in await local.why()


async def test_a_copy_that_gets_on_is_not_given_up(local: Local) -> None:
    moving, seen = local.moving, list[int]()

    async def send_slowly(request: Request, forward: Forward) -> Response:
        if request.target != f"/servers/{moving.server_id}/copy" or len(seen) > 2 * PATIENCE:
            return await forward(request)
        if request.method == "PUT":
            raise Unavailable("It takes longer than one call.")
        seen.append(len(seen) + 1)
        progress = CopyProgress(total_bytes=1000, copied_bytes=len(seen))
        return Response(200, msgspec.json.encode(progress), {"content-type": "application/json"})

    moving.cloud.deliver_to_host = send_slowly
    await migrate(moving)
    assert len(seen) > 2 * PATIENCE
    assert await moving.states() == ["absent", "running"]
    assert local.reads(moving.destination) == ([FORMER], 1)


async def test_a_copy_that_comes_late_leaves_nothing(local: Local) -> None:
    moving = local.moving
    lost = local.lose(f"/servers/{moving.server_id}/copy")
    await migrate(moving)
    for request, forward in lost:
        assert await comes_to(request, forward) >= 400
    assert len(lost) > 1
    await local.stays_whole()


@pytest.mark.parametrize("end", ["delete", "reset"])
async def test_a_copy_that_comes_after_its_server_was_taken_over_leaves_nothing(
    local: Local, end: str
) -> None:
    moving = local.moving
    lost = local.lose(f"/servers/{moving.server_id}/copy")
    assert await moving.cloud.act(moving.server_id, "migrate", user="admin", version="2.90") == 202
    await moving.cloud.compute.sagas.settle(5.0)
    if end == "delete":
        assert (await moving.cloud.ask("DELETE", f"/servers/{moving.server_id}")).status == 204
    else:
        assert await ask(moving, "os-resetState", {"state": "active"}, user="admin") == 202
    await moving.cloud.settle()
    for request, forward in lost:
        assert await comes_to(request, forward) >= 400
    assert lost
    assert not local.disk(moving.destination).parent.exists()
    assert local.disk(moving.source).parent.exists() == (end == "reset")
    await moving.cloud.settle()


async def test_a_server_whose_source_is_lost_while_it_is_copied_is_in_error_there(
    local: Local,
) -> None:
    moving = local.moving
    moving.cloud.silent = ("PUT", f"/servers/{moving.server_id}/offer")
    assert await moving.cloud.act(moving.server_id, "migrate", user="admin", version="2.90") == 202
    await moving.cloud.compute.sagas.settle(5.0)
    await force_down(moving.cloud, moving.source, down=True)
    await moving.cloud.settle()
    assert ((await show(moving))["status"], await moving.host()) == ("ERROR", moving.source)
    moving.cloud.silent = None
    await force_down(moving.cloud, moving.source, down=False)
    assert await ask(moving, "reboot", {"type": "HARD"}) == 202
    await local.stays_whole()


async def test_a_destination_that_is_lost_while_it_copies_owes_what_has_come(local: Local) -> None:
    moving = local.moving
    moving.cloud.silent = ("PUT", f"/servers/{moving.server_id}/copy")
    assert await moving.cloud.act(moving.server_id, "migrate", user="admin", version="2.90") == 202
    await moving.cloud.compute.sagas.settle(5.0)
    await force_down(moving.cloud, moving.destination, down=True)
    await moving.cloud.settle()
    assert await moving.states() == ["running", "absent"]
    moving.cloud.silent = None
    await moving.cloud.look_at_hosts()
    await force_down(moving.cloud, moving.destination, down=False)
    await local.stays_whole()


async def test_a_server_that_does_not_start_where_it_was_keeps_both_disks(local: Local) -> None:
    moving = local.moving
    await migrate(moving)
    local.write(moving.destination, LATER)
    moving.cloud.hypervisor(moving.source).knobs.fail("define", Conflict("It will not start."))
    assert await ask(moving, "revertResize") == 202
    assert (await show(moving))["status"] == "VERIFY_RESIZE"
    assert await moving.states() == ["absent", "running"]
    assert local.reads(moving.destination) == ([FORMER, LATER], 1)
    assert local.reads(moving.source) == ([FORMER], 1)
    await local.doctor_finds_nothing()
    assert await ask(moving, "revertResize") == 202
    await local.stays_whole()


async def test_a_destination_without_room_stops_no_guest(local: Local) -> None:
    moving = local.moving
    placement = moving.cloud.compute.placement
    known = {one.name: one.uuid for one in await placement.providers()}
    inventory = (await placement.inventory(known[moving.destination]))["DISK_GB"]
    taken = {known[moving.destination]: {"DISK_GB": inventory.total}}
    await moving.cloud.claim("0f9a1f3e-54f4-4b1a-9d1a-6b1f0d9f7c99", taken)
    await migrate(moving)
    assert (await show(moving))["status"] == "ACTIVE"
    assert await moving.status() == "error"
    assert local.reads(moving.source) == ([FORMER], 1)
    assert not local.disk(moving.destination).parent.exists()
    ledger = moving.cloud.hypervisor(moving.source).ledger()
    assert all(one.until is None for one in ledger)


# -- deleted, reset ----------------------------------------------------------------------------


async def test_a_server_is_deleted_with_both_disks(local: Local) -> None:
    moving = local.moving
    await migrate(moving)
    assert (await moving.cloud.ask("DELETE", f"/servers/{moving.server_id}")).status == 204
    await moving.cloud.settle()
    for host in HOSTS:
        assert not local.disk(host).parent.exists()
    assert await local.held() == [{}, {}]
    await local.doctor_finds_nothing()


async def test_a_server_that_is_reset_stays_with_the_disk_that_it_has(local: Local) -> None:
    moving = local.moving
    await migrate(moving)
    local.write(moving.destination, LATER)
    assert await ask(moving, "os-resetState", {"state": "active"}, user="admin") == 202
    assert not local.disk(moving.source).parent.exists()
    assert local.reads(moving.destination) == ([FORMER, LATER], 1)
    assert await local.held() == [{}, {moving.server_id: 1}]
    await local.doctor_finds_nothing()


async def test_a_host_that_is_lost_pays_with_the_disk_that_it_was_left(local: Local) -> None:
    moving = local.moving
    await migrate(moving)
    await force_down(moving.cloud, moving.source, down=True)
    assert await ask(moving, "confirmResize") == 204
    assert (await show(moving))["status"] == "ACTIVE"
    assert local.disk(moving.source).exists()
    await moving.cloud.look_at_hosts()
    await force_down(moving.cloud, moving.source, down=False)
    assert not local.disk(moving.source).parent.exists()
    await local.doctor_finds_nothing()
