"""What specs 001 says of what is remembered of a volume, whatever is done to its server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from mooring.agent_api import transport as hosts
from mooring.clients import transport
from mooring.errors import Conflict
from tests.compute.moving import Moving, moving_server, named, server_that_moves
from tests.compute.swapping import swap
from tests.compute.verifying import ask, force_down, migrate, show
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2")
DATA = (b"driver_volume_type", b"simulated:", b"connection_info")
"""What connection data has, and nothing else."""


@pytest.fixture
async def moving(keeper: Keeper) -> AsyncGenerator[Moving]:
    async with moving_server(keeper, hosts=HOSTS) as made:
        yield made


async def went_live(moving: Moving) -> None:
    await moving.move()


async def stayed(moving: Moving) -> None:
    """Break off a live migration."""
    knobs = moving.cloud.hypervisor(moving.source).knobs
    knobs.fail("send_memory", Conflict("It broke off."))
    await moving.move()


async def confirmed(moving: Moving) -> None:
    await migrate(moving)
    assert await ask(moving, "confirmResize") == 204


async def reverted(moving: Moving) -> None:
    await migrate(moving)
    assert await ask(moving, "revertResize") == 202


async def evacuated(moving: Moving) -> None:
    moving.cloud.hypervisor(moving.source).crash(moving.server_id)
    await force_down(moving.cloud, moving.source, down=True)
    assert await ask(moving, "evacuate", {}, user="admin", version="2.94") == 200


async def unshelved(moving: Moving) -> None:
    assert await ask(moving, "shelve") == 202
    assert await ask(moving, "unshelve") == 202


async def swapped(moving: Moving) -> None:
    new = await moving.cloud.make_volume()
    await moving.cloud.look_at_hosts()
    answer = await swap(moving.cloud, moving.server_id, moving.volumes[-1], new)
    assert answer.status == 202, answer.text
    await moving.cloud.settle()


async def rebuilt(moving: Moving) -> None:
    value = {"imageRef": moving.cloud.image_id}
    assert await ask(moving, "rebuild", value, version="2.93") == 202


async def rebooted(moving: Moving) -> None:
    assert await ask(moving, "reboot", {"type": "HARD"}) == 202


async def booted(moving: Moving) -> None:
    await server_that_moves(moving.cloud)


Way = Callable[[Moving], Awaitable[None]]
WAYS: list[Way] = [went_live, stayed, confirmed, reverted, evacuated, unshelved, swapped, rebuilt]


@pytest.mark.parametrize("way", [*WAYS, rebooted, booted])
async def test_no_flow_stores_the_connection_info_not_even_on_its_way(
    moving: Moving, way: Way
) -> None:
    """We no longer need to store the connection_info; we just store the attachment_id."""
    cloud = moving.cloud
    looks: list[bytes] = []

    def look() -> None:
        files = sorted(cloud.settings.state_path.glob("compute.sqlite*"))
        kept = b"".join(file.read_bytes() for file in files)
        looks.extend(one for one in DATA if one in kept)

    async def pass_on(request: hosts.Request, forward: hosts.Forward) -> hosts.Response:
        look()
        return await forward(request)

    cloud.deliver_to_host = pass_on
    await way(moving)
    look()
    assert looks == []
    assert (await show(moving))["status"] == "ACTIVE"


@pytest.mark.parametrize("way", WAYS)
async def test_a_reboot_gets_connection_info_by_the_attachments_that_there_are_then(
    moving: Moving, way: Way
) -> None:
    """Any time we need the connection_info we fetch that from Cinder, by the attachment_id."""
    cloud = moving.cloud
    await way(moving)
    ids = {*(await named(moving)).values()}
    there = await cloud.compute.volumes.attachments(None, server_id=moving.server_id)
    assert {one.id for one in there} == ids
    asked: list[str] = []
    deliver = cloud.deliver

    async def note(request: transport.Request, forward: transport.Forward) -> transport.Response:
        if request.method == "GET" and "/volume/v3/attachments/" in request.path:
            asked.append(request.path.rpartition("/")[2])
        return await deliver(request, forward)

    cloud.deliver = note
    await cloud.look_at_hosts()
    assert await ask(moving, "reboot", {"type": "HARD"}) == 202
    assert {*asked} == ids
    assert (await cloud.actions(moving.server_id))[-1] == ("reboot", None)
    guest = await cloud.known_agents[await moving.host()].show_server(moving.server_id)
    assert guest is not None
    assert {one.attachment_id for one in guest.disks} == ids
