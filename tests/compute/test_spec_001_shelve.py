"""What specs 001 says of shelving and unshelving, sentence by sentence: each test names its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from mooring.errors import Conflict
from tests.compute.listening import GUESTS, Listener
from tests.compute.moving import Moving, held, moving_server, named
from tests.compute.verifying import ask, show
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2")


@pytest.fixture
async def moving(keeper: Keeper) -> AsyncGenerator[Moving]:
    async with moving_server(keeper, hosts=HOSTS) as made:
        yield made


@pytest.fixture
async def light(keeper: Keeper) -> AsyncGenerator[Moving]:
    """A server with its root volume alone."""
    async with moving_server(keeper, hosts=HOSTS, volumes=1) as made:
        yield made


async def shelve(moving: Moving) -> None:
    assert await ask(moving, "shelve") == 202


async def kept(moving: Moving) -> list[tuple[str, bool]]:
    """Return the server of each attachment, and whether there is connection data of it."""
    found: list[tuple[str, bool]] = []
    for volume_id in moving.volumes:
        listed = await moving.cloud.volume_api("GET", f"/attachments?volume_id={volume_id}")
        for one in listed["attachments"]:
            path = f"/attachments/{one['id']}"
            shown = (await moving.cloud.volume_api("GET", path, user="compute"))["attachment"]
            found.append((shown["instance"], bool(shown["connection_info"])))
    return found


async def test_offloading_first_adds_a_new_attachment_and_then_disconnects_the_old_one(
    light: Moving,
) -> None:
    """We first add a new attachment (with no connector set), then disconnect the old attachment."""
    before = await named(light)
    listener = Listener(light.cloud, GUESTS)
    await shelve(light)
    assert listener.heard == [
        "POST attachment",
        f"{light.source}: PUT power",
        f"{light.source}: DELETE servers",
        f"{light.source}: DELETE connections",
        "DELETE attachment",
    ]
    assert listener.ids[-1:] == [*before.values()]


async def test_the_volume_is_still_attached_to_the_instance_but_detached_from_the_host(
    moving: Moving,
) -> None:
    """For the shelved-offloaded case the volume is 'reserved' and not physically attached."""
    await shelve(moving)
    assert (await show(moving))["status"] == "SHELVED_OFFLOADED"
    assert await kept(moving) == [(moving.server_id, False)] * 2
    assert [*(await held(moving)).values()] == [[], []]
    assert await moving.connected() == [0, 0]
    for volume_id in moving.volumes:
        assert await moving.cloud.volume_status(volume_id) == "reserved"


async def test_should_that_detach_fail_the_instance_is_moved_into_an_error_state(
    light: Moving,
) -> None:
    """The attachment of the host stays, beside the one that keeps the volume."""
    point = "compute.offload_server/disconnect_left/forward/before"
    light.cloud.probe.arm(point, lambda: Conflict("It will not go."))
    await shelve(light)
    shown = await show(light)
    assert shown["status"] == "ERROR"
    assert shown["fault"]["message"].endswith(" It will not go.")
    (of_root,) = (await held(light)).values()
    assert (light.server_id, light.source) in of_root


async def test_unshelve_updates_the_existing_attachments_with_the_connector(
    light: Moving,
) -> None:
    """Before continuing with the usual attach volume flow. The ids stay the same."""
    await shelve(light)
    before = await named(light)
    listener = Listener(light.cloud, GUESTS)
    assert await ask(light, "unshelve") == 202
    host = await light.host()
    assert listener.heard == [
        "PUT attachment with connector",
        "POST attachment complete",
        f"{host}: PUT servers",
    ]
    assert {*listener.ids} == {*before.values()}
    assert await named(light) == before
    assert [*(await held(light)).values()] == [[(light.server_id, host)]]


async def test_old_flow_and_new_flow_volumes_are_both_attached_to_what_is_shelved(
    light: Moving,
) -> None:
    """It is possible to have both old flow and new flow volumes attached to the one instance."""
    volume_id = await light.cloud.make_volume()
    await light.cloud.make_legacy(light.server_id, volume_id, light.source)
    light.volumes.append(volume_id)
    listener = Listener(light.cloud)
    await shelve(light)
    assert listener.heard.count("POST attachment") == 2
    assert listener.heard.count(f"{light.source}: DELETE connections") == 2
    assert listener.heard.count("DELETE attachment") == 1
    asked = [one for one in listener.heard if one.startswith("volume ")]
    assert asked == ["volume os-terminate_connection", "volume os-detach"]
    assert await kept(light) == [(light.server_id, False)] * 2
    assert await ask(light, "unshelve") == 202
    there = [(light.server_id, await light.host())]
    assert await held(light) == dict.fromkeys(light.volumes, there)


async def test_a_volume_is_attached_to_and_detached_from_a_shelved_instance(
    light: Moving,
) -> None:
    """No host has a part in it: there is none."""
    volume_id = await light.cloud.make_volume()
    await shelve(light)
    listener = Listener(light.cloud, GUESTS)
    assert (await light.cloud.attach(light.server_id, volume_id)).status == 200
    await light.cloud.settle()
    assert listener.heard == ["POST attachment", "POST attachment complete"]
    assert (await light.cloud.detach(light.server_id, volume_id)).status == 202
    await light.cloud.settle()
    assert listener.heard[2:] == ["DELETE attachment"]
    assert await light.cloud.volume_status(volume_id) == "available"
