"""A reset to active of a server whose guest is not there: it says so, and what helps."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.compute.cloud import ComputeCloud
from tests.compute.local_disks import FORMER
from tests.compute.moving import Moving, moving_server
from tests.compute.pictured import Kept, kept_server
from tests.compute.test_reset_state import reset, reset_while_silent
from tests.compute.test_shelve import HOSTS, act, is_back, put_away
from tests.compute.test_shelve_disks import put_away as put_disk_away
from tests.compute.verifying import show
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
NO_GUEST = "has no guest of it"


@pytest.fixture
async def away(keeper: Keeper, database: str) -> AsyncGenerator[Moving]:
    async with moving_server(keeper, hosts=HOSTS, database=database, then=put_away) as made:
        yield made


@pytest.fixture
async def disk_away(keeper: Keeper, database: str) -> AsyncGenerator[Kept]:
    async with kept_server(keeper, database=database, then=put_disk_away) as made:
        yield made


async def bring_back_in_vain(cloud: ComputeCloud, server_id: str) -> None:
    """Unshelve a server at a host that does not answer, and reset it; then that host does."""
    cloud.silent = ("", "/servers/")
    assert await cloud.act(server_id, "unshelve", None, version="2.90") == 202
    await cloud.compute.sagas.settle(60.0)
    await reset_while_silent(cloud, server_id)
    shown = await cloud.server(server_id)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ERROR", None)
    assert NO_GUEST in shown["fault"]["message"]
    assert await cloud.complaints() == []


async def test_reset_while_it_is_brought_back(away: Moving) -> None:
    await bring_back_in_vain(away.cloud, away.server_id)
    assert await act(away, "reboot", {"type": "HARD"}) == 202
    await is_back(away)
    assert await away.cloud.complaints() == []


async def test_reset_while_it_is_brought_back_with_its_disk(disk_away: Kept) -> None:
    moving = disk_away.moving
    await bring_back_in_vain(moving.cloud, moving.server_id)
    assert await disk_away.act("reboot", {"type": "HARD"}) == 202
    shown = await show(moving)
    assert shown["status"] == "ACTIVE"
    assert disk_away.reads(shown["OS-EXT-SRV-ATTR:host"]) == ([FORMER], 1)
    assert await moving.cloud.complaints() == []


async def test_one_that_was_to_be_deleted_then_says_that_its_image_has_its_disk(
    disk_away: Kept,
) -> None:
    moving = disk_away.moving
    cloud, server_id = moving.cloud, moving.server_id
    cloud.silent = ("", "/servers/")
    assert await cloud.act(server_id, "unshelve", None, version="2.90") == 202
    await cloud.compute.sagas.settle(60.0)
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.compute.sagas.settle(60.0)
    await reset_while_silent(cloud, server_id)
    shown = await cloud.server(server_id)
    told = "reboot it hard: an image has its disk"
    assert (shown["status"], told in shown["fault"]["message"]) == ("ERROR", True)
    assert await disk_away.act("reboot", {"type": "HARD"}) == 202
    assert disk_away.reads(shown["OS-EXT-SRV-ATTR:host"]) == ([FORMER], 1)
    assert await cloud.complaints() == []


async def test_a_second_reset_finds_it_too(away: Moving) -> None:
    away.cloud.silent = ("", "/servers/")
    assert await away.cloud.act(away.server_id, "unshelve", None, version="2.90") == 202
    await reset(away.cloud, away.server_id)
    await reset_while_silent(away.cloud, away.server_id)
    shown = await away.cloud.server(away.server_id)
    assert (shown["status"], NO_GUEST in shown["fault"]["message"]) == ("ERROR", True)


@pytest.mark.parametrize(("method", "told"), [("PUT", "took its place"), ("", "never ended")])
async def test_a_server_that_never_ran_is_not_active(
    any_cloud: ComputeCloud, method: str, told: str
) -> None:
    """Whether the host lets its creation be undone or not."""
    cloud = any_cloud
    cloud.silent = (method, "/servers/")
    asked = {"name": "s", "flavorRef": "1", "imageRef": cloud.image_id, "networks": "none"}
    made = await cloud.ask("POST", "/servers", {"server": asked})
    server_id = made.body["server"]["id"]
    await reset_while_silent(cloud, server_id)
    shown = await cloud.server(server_id)
    assert (shown["status"], told in shown["fault"]["message"]) == ("ERROR", True)
    assert await cloud.complaints() == []
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "gone"
    assert await cloud.complaints() == []
