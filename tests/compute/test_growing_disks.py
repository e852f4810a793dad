"""Servers whose root disk lies on their host, and which get a flavor with another one.

Design, cold migration; facts/compute.md 1.4; ADR 9.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from mooring.agent_api import wire
from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Conflict, NoCapacity
from tests.compute.late import comes_to
from tests.compute.local_disks import (
    FORMER,
    LARGER,
    LATER,
    SMALLER,
    Local,
    local_server,
)
from tests.compute.test_resize import fill
from tests.compute.verifying import ask, show
from tests.kept import Keeper

pytestmark = pytest.mark.anyio


@pytest.fixture
async def local(keeper: Keeper) -> AsyncGenerator[Local]:
    async with local_server(keeper) as made:
        yield made


async def test_a_disk_grows_on_its_host_and_is_confirmed(local: Local) -> None:
    moving = local.moving
    size = (await moving.cloud.ask("GET", "/flavors/2", user="admin")).body["flavor"]["disk"]
    assert await ask(moving, "resize", LARGER) == 202
    assert ((await show(moving))["status"], await moving.host()) == ("VERIFY_RESIZE", moving.source)
    assert local.reads(moving.source) == ([FORMER], size)
    assert sorted((await local.held())[0].values()) == [1, size]
    await local.doctor_finds_nothing()
    assert await ask(moving, "confirmResize") == 204
    await local.stays_whole(size)


async def test_a_disk_that_grew_on_its_host_is_as_it_was_before(local: Local) -> None:
    moving = local.moving
    assert await ask(moving, "resize", LARGER) == 202
    local.write(moving.source, LATER)
    assert await ask(moving, "revertResize") == 202
    await local.stays_whole()


async def test_a_disk_grows_on_another_host_and_is_as_it_was_before(local: Local) -> None:
    moving = local.moving
    await fill(moving)
    assert await ask(moving, "resize", LARGER) == 202
    assert await moving.host() == moving.destination
    found, size = local.reads(moving.destination)
    assert (found, size > 1) == ([FORMER], True)
    assert local.reads(moving.source) == ([FORMER], 1)
    assert [sorted(one.values()) for one in await local.held()] == [[1], [size]]
    assert await ask(moving, "revertResize") == 202
    assert local.reads(moving.source) == ([FORMER], 1)
    assert not local.disk(moving.destination).parent.exists()
    assert (await local.held())[0][moving.server_id] == 1


async def test_a_flavor_with_a_smaller_disk_is_refused_and_the_server_stays(local: Local) -> None:
    """Facts, compute.md 1.4: accepted, then refused, state kept and a fault."""
    moving = local.moving
    assert await ask(moving, "resize", LARGER) == 202
    assert await ask(moving, "confirmResize") == 204
    size = local.reads(moving.source)[1]
    before = moving.cloud.hypervisor(moving.source).ledger()
    assert await ask(moving, "resize", SMALLER) == 202
    await local.stays_whole(size)
    # Its guest was never off.
    assert moving.cloud.hypervisor(moving.source).ledger() == before
    assert "not made smaller" in await local.why()
    nothing = {"flavor": {"name": "none", "vcpus": 1, "ram": 512, "disk": 0, "id": "none"}}
    assert (await moving.cloud.ask("POST", "/flavors", nothing, user="admin")).status == 200
    assert await ask(moving, "resize", {"flavorRef": "none"}) == 400


@pytest.mark.parametrize("point", ["find_root", "define", "power_on"])
async def test_a_size_that_does_not_start_leaves_the_former_disk(local: Local, point: str) -> None:
    moving = local.moving
    moving.cloud.hypervisor(moving.source).knobs.fail(point, Conflict("Too large."))
    assert await ask(moving, "resize", LARGER) == 202
    await local.stays_whole()


async def test_the_disk_of_a_server_that_starts_with_no_size_is_its_own(local: Local) -> None:
    moving, refused = local.moving, [True]

    async def refuse(request: Request, forward: Forward) -> Response:
        is_start = (request.method, request.target) == ("PUT", f"/servers/{moving.server_id}")
        if is_start and refused:
            raise Conflict("It will not start.")
        return await forward(request)

    moving.cloud.deliver_to_host = refuse
    assert await ask(moving, "resize", LARGER) == 202
    assert (await show(moving))["status"] == "ERROR"
    assert await moving.states() == ["absent", "absent"]
    await local.doctor_finds_nothing()
    refused.clear()
    assert await ask(moving, "reboot", {"type": "HARD"}) == 202
    assert (await show(moving))["status"] == "ACTIVE"
    await local.stays_whole()


async def test_a_size_that_comes_late_is_given_to_nobody(local: Local) -> None:
    """The host lost the answers, then refused: the call still is on its way."""
    moving, late = local.moving, list[tuple[Request, Forward]]()

    async def refuse(request: Request, forward: Forward) -> Response:
        if (request.method, request.target) != ("PUT", f"/servers/{moving.server_id}") or late:
            return await forward(request)
        late.append((request, forward))
        refused = wire.body_of(Conflict("Too large."))
        return Response(409, refused, {"content-type": "application/json"})

    moving.cloud.deliver_to_host = refuse
    assert await ask(moving, "resize", LARGER) == 202
    ((request, forward),) = late
    assert (await forward(request)).status == 410
    await local.stays_whole()


async def test_a_disk_that_cannot_be_kept_does_not_grow(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise NoCapacity("There is no room for another disk.")

    monkeypatch.setattr("mooring.agent.copying.check_room", refuse)
    assert await ask(local.moving, "resize", LARGER) == 202
    await local.stays_whole()
    assert "no room" in await local.why()


@pytest.mark.parametrize("point", ["find_root", "define", "power_on"])
async def test_a_former_size_that_does_not_start_leaves_the_disk_that_has_grown(
    local: Local, point: str
) -> None:
    moving = local.moving
    assert await ask(moving, "resize", LARGER) == 202
    local.write(moving.source, LATER)
    grown = local.reads(moving.source)
    moving.cloud.hypervisor(moving.source).knobs.fail(point, Conflict("It will not start."))
    assert await ask(moving, "revertResize") == 202
    assert (await show(moving))["status"] == "VERIFY_RESIZE"
    assert (await moving.states(), local.reads(moving.source)) == (["running", "absent"], grown)
    await local.doctor_finds_nothing()
    assert await ask(moving, "revertResize") == 202
    await local.stays_whole()


async def test_a_reset_of_a_server_that_was_to_get_its_former_size_leaves_it_the_new_one(
    local: Local,
) -> None:
    moving = local.moving
    assert await ask(moving, "resize", LARGER) == 202
    local.write(moving.source, LATER)
    grown = local.reads(moving.source)
    lost = local.lose(f"/servers/{moving.server_id}")
    assert await moving.cloud.act(moving.server_id, "revertResize", version="2.90") == 202
    await moving.cloud.compute.sagas.settle(5.0)
    assert local.reads(moving.source) == ([FORMER], 1)
    assert await ask(moving, "os-resetState", {"state": "active"}, user="admin") == 202
    assert lost
    for request, forward in lost:
        assert await comes_to(request, forward) >= 400
    assert local.reads(moving.source) == grown
    assert local.beside(moving.source) == ["root"]
    await moving.cloud.look_at_hosts()
    assert await ask(moving, "reboot", {"type": "HARD"}) == 202
    assert await moving.states() == ["running", "absent"]
    await local.doctor_finds_nothing()
