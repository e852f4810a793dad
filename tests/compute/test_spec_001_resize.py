"""What specs 001 says of migrations and resizes, sentence by sentence: each test names its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.compute.listening import GUESTS, Listener
from tests.compute.moving import Moving, held, moving_server, named
from tests.compute.verifying import ask, fill, migrate, show
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


def at(moving: Moving, *hosts: str) -> dict[str, list[tuple[str, str]]]:
    """What `held` is when each volume has an attachment for each of these hosts."""
    return dict.fromkeys(moving.volumes, sorted((moving.server_id, host) for host in hosts))


@pytest.mark.parametrize("way", ["migrate", "resize"])
async def test_there_are_attachments_for_both_the_source_and_the_destination_node(
    moving: Moving, way: str
) -> None:
    """At the start of the migration we have attachments for both the source and destination node.

    They stay until the user's word: the volumes belong to both hosts.
    """
    if way == "resize":
        await fill(moving)
        assert await ask(moving, "resize", {"flavorRef": "2"}) == 202
    else:
        await migrate(moving)
    assert (await show(moving))["status"] == "VERIFY_RESIZE"
    assert await held(moving) == at(moving, moving.source, moving.destination)
    assert await moving.connected() == [2, 2]


async def test_the_destination_is_attached_before_anything_happens_to_the_guest(
    light: Moving,
) -> None:
    """Similar to live-migrate, at the start of the migration: (destination) new attachment."""
    listener = Listener(light.cloud, GUESTS)
    await migrate(light)
    assert listener.heard == [
        "POST attachment with connector",
        f"{light.destination}: PUT connections",
        "POST attachment complete",
        f"{light.source}: PUT power",
        f"{light.destination}: PUT servers",
        f"{light.source}: DELETE servers",
    ]


async def test_on_calling_confirm_resize_we_do_a_detach_on_the_source(light: Moving) -> None:
    """The source disconnects, and only then is its attachment deleted."""
    before = await named(light)
    await migrate(light)
    kept = await named(light)
    listener = Listener(light.cloud)
    assert await ask(light, "confirmResize") == 204
    assert listener.heard == [f"{light.source}: DELETE connections", "DELETE attachment"]
    assert listener.ids == [*before.values()]
    assert await held(light) == at(light, light.destination)
    assert await named(light) == kept


async def test_a_call_to_revert_resize_and_its_detach_on_the_destination(light: Moving) -> None:
    """The guest is back at the source by then, with the attachment that it had at first."""
    before = await named(light)
    await migrate(light)
    there = await named(light)
    listener = Listener(light.cloud, GUESTS)
    assert await ask(light, "revertResize") == 202
    assert listener.heard == [
        f"{light.destination}: PUT power",
        f"{light.source}: PUT servers",
        f"{light.destination}: DELETE servers",
        f"{light.destination}: DELETE connections",
        "DELETE attachment",
    ]
    assert listener.ids == [*there.values()]
    assert await held(light) == at(light, light.source)
    assert await named(light) == before


@pytest.mark.parametrize("word", ["confirmResize", "revertResize"])
async def test_a_host_that_fails_to_disconnect_keeps_its_attachment(
    moving: Moving, word: str
) -> None:
    """Of a detach: if there was an error, we add a fault and set the instance into error."""
    await migrate(moving)
    moving.cloud.silent = ("DELETE", "/connections/")
    await ask(moving, word)
    shown = await show(moving)
    assert shown["status"] == "ERROR"
    assert shown["fault"]["message"]
    assert await held(moving) == at(moving, moving.source, moving.destination)
    moving.cloud.silent = None
