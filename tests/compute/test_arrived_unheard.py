"""Servers that a reset takes out of a cold move whose other host has their guest, unheard."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Unavailable
from tests.compute.late import comes_to
from tests.compute.local_disks import FORMER, LARGER, LATER, Local, local_server
from tests.compute.moving import Moving, moving_server
from tests.compute.verifying import ask, fill, force_down, migrate, show
from tests.kept import Keeper

pytestmark = pytest.mark.anyio


@pytest.fixture
async def local(keeper: Keeper, database: str) -> AsyncGenerator[Local]:
    async with local_server(keeper, database=database) as made:
        yield made


@pytest.fixture
async def moving(keeper: Keeper, database: str) -> AsyncGenerator[Moving]:
    async with moving_server(keeper, database=database) as made:
        yield made


class Silence:
    """A host that begins a guest, and says nothing from then on; `late`: it begins it later."""

    def __init__(self, moving: Moving, host: str, *, late: bool = False) -> None:
        self.cloud, self.host, self.late = moving.cloud, host, late
        self.is_silent = False
        self.lost: list[tuple[Request, Forward]] = []
        self._starting = f"/servers/{moving.server_id}"
        self.cloud.deliver_to_host = self._deliver

    async def _deliver(self, request: Request, forward: Forward) -> Response:
        if request.headers["host"] != self.host:
            return await forward(request)
        if (request.method, request.target) == ("PUT", self._starting) and not self.is_silent:
            self.is_silent = True
            self.lost.append((request, forward))
            if not self.late:
                assert await comes_to(request, forward) == 200
        if self.is_silent:
            raise Unavailable("The agent gave no answer.")
        return await forward(request)

    async def end(self) -> None:
        self.is_silent = False
        self.cloud.deliver_to_host = self._forward
        await self.cloud.look_at_hosts()
        await self.cloud.settle()

    async def _forward(self, request: Request, forward: Forward) -> Response:
        return await forward(request)


async def begin(
    moving: Moving, action: str, value: object = None, *, late: bool = False
) -> Silence:
    """Begin to move until the other host is silent."""
    goes_back = action == "revertResize"
    silence = Silence(moving, moving.source if goes_back else moving.destination, late=late)
    await moving.cloud.look_at_hosts()
    status = await moving.cloud.act(moving.server_id, action, value, user="admin", version="2.90")
    assert status == 202
    await moving.cloud.compute.sagas.settle(5.0)
    assert silence.is_silent
    return silence


async def ask_for_reset(moving: Moving, state: str = "active") -> None:
    value = {"state": state}
    status = await moving.cloud.act(moving.server_id, "os-resetState", value, user="admin")
    assert status == 202
    await moving.cloud.compute.sagas.settle(5.0)


async def reset(moving: Moving, silence: Silence) -> None:
    """Reset the server while the host is silent, then let that answer again."""
    await ask_for_reset(moving)
    await silence.end()
    assert await moving.cloud.unfinished() == []
    assert (await show(moving))["status"] == "ACTIVE"


async def reboot_hard(moving: Moving) -> None:
    await moving.cloud.look_at_hosts()
    assert await ask(moving, "reboot", {"type": "HARD"}) == 202


async def is_whole_at(moving: Moving, host: str) -> None:
    """See that the server runs there with its volumes, and that no other host has any of it."""
    cloud, (other,) = moving.cloud, {moving.source, moving.destination} - {host}
    assert await moving.host() == host
    guest = await cloud.known_agents[host].show_server(moving.server_id)
    assert guest is not None
    assert guest.state == "running"
    assert await cloud.known_agents[other].show_server(moving.server_id) is None
    assert len(await cloud.connections(host)) == len(moving.volumes)
    assert await cloud.connections(other) == []
    assert await moving.attachments() == len(moving.volumes)
    held = dict(zip((moving.source, moving.destination), await moving.claims(), strict=True))
    move = (await moving.migrations(instance_uuid=moving.server_id))[0]["uuid"]
    both = {moving.server_id, move}
    assert (both & held[host], both & held[other]) == ({moving.server_id}, set())
    assert await moving.under_way() == []
    # What fills a host is nobody's.
    found = [one for one in await cloud.complaints() if not one.startswith("allocation ")]
    assert found == []


async def test_a_guest_that_had_arrived_runs_on_with_all_that_it_wrote(local: Local) -> None:
    moving = local.moving
    silence = await begin(moving, "migrate")
    local.write(moving.destination, LATER)
    await reset(moving, silence)
    await is_whole_at(moving, moving.destination)
    assert local.reads(moving.destination) == ([FORMER, LATER], 1)
    assert not local.disk(moving.source).parent.exists()
    assert await local.held() == [{}, {moving.server_id: 1}]


async def test_so_does_one_that_has_nothing_but_volumes(moving: Moving) -> None:
    silence = await begin(moving, "migrate")
    await reset(moving, silence)
    await is_whole_at(moving, moving.destination)


async def test_what_it_wrote_stays_where_the_host_lost_its_power_meanwhile(local: Local) -> None:
    moving = local.moving
    silence = await begin(moving, "migrate")
    local.write(moving.destination, LATER)
    moving.cloud.hypervisor(moving.destination).crash(moving.server_id)
    await reset(moving, silence)
    await reboot_hard(moving)
    await is_whole_at(moving, moving.destination)
    assert local.reads(moving.destination) == ([FORMER, LATER], 1)


@pytest.mark.parametrize("is_gone", [False, True], ids=["flavor", "flavor_deleted"])
async def test_it_has_the_size_that_it_was_given_there(local: Local, *, is_gone: bool) -> None:
    moving, cloud = local.moving, local.cloud
    path = f"/flavors/{LARGER['flavorRef']}"
    flavor = (await cloud.ask("GET", path)).body["flavor"]
    await fill(moving)
    silence = await begin(moving, "resize", LARGER)
    if is_gone:
        assert (await cloud.ask("DELETE", path, user="admin")).status == 202
    await reset(moving, silence)
    await is_whole_at(moving, moving.destination)
    shown = (await show(moving))["flavor"]
    assert (shown["vcpus"], shown["ram"]) == (flavor["vcpus"], flavor["ram"])
    assert shown["original_name"] == flavor["name"]


async def test_one_that_had_gone_back_stays_there_with_its_former_size(moving: Moving) -> None:
    before = (await show(moving))["flavor"]
    await fill(moving)
    assert await ask(moving, "resize", LARGER) == 202
    assert await moving.host() == moving.destination
    silence = await begin(moving, "revertResize")
    await reset(moving, silence)
    assert (await show(moving))["flavor"] == before
    await is_whole_at(moving, moving.source)


@pytest.mark.parametrize("goes_back", [False, True], ids=["moves", "goes_back"])
async def test_a_guest_that_had_not_begun_there_does_not_begin_late(
    moving: Moving, *, goes_back: bool
) -> None:
    stays = moving.source
    if goes_back:
        await migrate(moving)
        stays = moving.destination
    silence = await begin(moving, "revertResize" if goes_back else "migrate", late=True)
    await reset(moving, silence)
    for request, forward in silence.lost:
        assert await comes_to(request, forward) >= 400
    await reboot_hard(moving)
    await is_whole_at(moving, stays)


async def test_a_host_that_is_forced_down_loses_it_and_owes_what_it_has(local: Local) -> None:
    moving = local.moving
    silence = await begin(moving, "migrate")
    await ask_for_reset(moving)
    moving.cloud.hypervisor(moving.destination).crash(moving.server_id)
    await force_down(moving.cloud, moving.destination, down=True)
    await moving.cloud.compute.sagas.settle(60.0)
    assert await moving.cloud.unfinished() == []
    await reboot_hard(moving)
    assert await moving.host() == moving.source
    silence.is_silent = False
    await moving.cloud.look_at_hosts()
    await force_down(moving.cloud, moving.destination, down=False)
    await local.stays_whole()


async def test_a_reset_in_the_place_of_another_one_keeps_it_too(local: Local) -> None:
    moving = local.moving
    silence = await begin(moving, "migrate")
    local.write(moving.destination, LATER)
    await ask_for_reset(moving, "error")
    await reset(moving, silence)
    await is_whole_at(moving, moving.destination)
    assert local.reads(moving.destination) == ([FORMER, LATER], 1)
