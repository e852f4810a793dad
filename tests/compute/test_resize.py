"""Servers that get another size, and what is refused of moves (facts/compute.md 1.4, 4.9)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.errors import Conflict
from tests.compute.cloud import ComputeCloud
from tests.compute.moving import Moving, moving_server, server_that_moves
from tests.compute.verifying import ask, fill, migrate, show, usage
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2")


@pytest.fixture
async def moving(keeper: Keeper) -> AsyncGenerator[Moving]:
    async with moving_server(keeper, hosts=HOSTS) as made:
        yield made


# -- what is refused ---------------------------------------------------------------------------


async def test_who_asks_wrongly_changes_nothing(moving: Moving) -> None:
    assert await ask(moving, "confirmResize") == 409
    assert await ask(moving, "revertResize") == 409
    assert await ask(moving, "migrate") == 403
    for host in (moving.source, "nowhere"):
        assert await ask(moving, "migrate", {"host": host}, user="admin") == 400
    for flavor in ("1", "none"):
        assert await ask(moving, "resize", {"flavorRef": flavor}) == 400
    await moving.stays_whole()


# -- sizes -------------------------------------------------------------------------------------


async def test_a_larger_flavor_is_paid_for_from_the_beginning(moving: Moving) -> None:
    before = await usage(moving.cloud)
    assert await ask(moving, "resize", {"flavorRef": "3"}) == 202
    shown = await show(moving)
    assert (shown["status"], shown["flavor"]["vcpus"]) == ("VERIFY_RESIZE", 2)
    during = await usage(moving.cloud)
    assert during == (before[0] + 1, before[1] - 512 + 4096)
    assert await ask(moving, "confirmResize") == 204
    assert await usage(moving.cloud) == during
    assert await ask(moving, "resize", {"flavorRef": "1"}) == 202
    assert (await show(moving))["flavor"]["ram"] == 512
    assert await usage(moving.cloud) == during
    assert await ask(moving, "revertResize") == 202
    assert (await show(moving))["flavor"]["ram"] == 4096
    assert await usage(moving.cloud) == during
    assert await ask(moving, "resize", {"flavorRef": "1"}) == 202
    assert await ask(moving, "confirmResize") == 204
    assert await usage(moving.cloud) == before


async def test_a_larger_size_is_paid_for_while_it_is_made(moving: Moving) -> None:
    before = await usage(moving.cloud)
    body = {"flavorRef": "2"}
    assert await moving.cloud.act(moving.server_id, "resize", body, version="2.90") == 202
    assert await usage(moving.cloud) == (before[0], before[1] - 512 + 2048)
    await moving.cloud.settle()


async def test_a_server_stays_on_its_host_while_both_sizes_fit(moving: Moving) -> None:
    assert await ask(moving, "resize", {"flavorRef": "2"}) == 202
    assert await moving.host() == moving.source
    assert (await show(moving))["status"] == "VERIFY_RESIZE"
    guest = await moving.cloud.known_agents[moving.source].show_server(moving.server_id)
    assert guest is not None
    assert (guest.state, guest.memory_mib) == ("running", 2048)
    assert (await moving.attachments(), await moving.connected()) == (2, [2, 0])
    assert len((await moving.claims())[0]) == 2
    assert await ask(moving, "revertResize") == 202
    await moving.stays_whole()
    guest = await moving.cloud.known_agents[moving.source].show_server(moving.server_id)
    assert guest is not None
    assert guest.memory_mib == 512


async def test_a_server_goes_elsewhere_where_its_host_has_no_room_for_both(moving: Moving) -> None:
    await fill(moving)
    assert await ask(moving, "resize", {"flavorRef": "2"}) == 202
    assert ((await show(moving))["status"], await moving.host()) == (
        "VERIFY_RESIZE",
        moving.destination,
    )
    assert await moving.states() == ["absent", "running"]
    assert (await moving.attachments(), await moving.connected()) == (4, [2, 2])
    assert await ask(moving, "revertResize") == 202
    assert (await moving.states(), await moving.connected()) == (["running", "absent"], [2, 0])
    assert moving.server_id in (await moving.claims())[0]


async def test_a_size_that_does_not_start_leaves_the_former_one(moving: Moving) -> None:
    moving.cloud.hypervisor(moving.source).knobs.fail("define", Conflict("Too large."))
    before = await usage(moving.cloud)
    assert await ask(moving, "resize", {"flavorRef": "2"}) == 202
    await moving.stays_whole()
    assert await usage(moving.cloud) == before
    assert (await show(moving))["flavor"]["ram"] == 512


async def test_a_size_above_the_quota_is_refused(moving: Moving) -> None:
    project = (await show(moving))["tenant_id"]
    path, limit = f"/os-quota-sets/{project}", {"quota_set": {"ram": 1024}}
    assert (await moving.cloud.ask("PUT", path, limit, user="admin")).status == 200
    assert await ask(moving, "resize", {"flavorRef": "2"}) == 403
    await moving.stays_whole()


async def test_a_server_with_a_local_disk_gets_another_size_on_its_host(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        server_id = await cloud.make_server()
        host = (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]
        size = {"flavor": {"name": "same", "vcpus": 2, "ram": 1024, "disk": 1, "id": "same"}}
        assert (await cloud.ask("POST", "/flavors", size, user="admin")).status == 200
        for word, vcpus in (("revertResize", 1), ("confirmResize", 2)):
            assert await cloud.act(server_id, "resize", {"flavorRef": "same"}) == 202
            await cloud.settle()
            shown = await cloud.server(server_id)
            assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("VERIFY_RESIZE", host)
            assert await cloud.act(server_id, word) in {202, 204}
            await cloud.settle()
            shown = await cloud.server(server_id)
            assert (shown["status"], shown["flavor"]["vcpus"]) == ("ACTIVE", vcpus)


# -- groups ------------------------------------------------------------------------------------


async def test_a_member_of_a_group_keeps_the_place_to_which_it_may_go_back(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path, hosts=(*HOSTS, "host3")) as cloud:
        wanted = {"server_group": {"name": "apart", "policy": "anti-affinity"}}
        made = await cloud.ask("POST", "/os-server-groups", wanted)
        group = made.body["server_group"]["id"]
        first = await server_that_moves(cloud, volumes=1, group=group)
        second = await server_that_moves(cloud, volumes=1, group=group)
        (free,) = {*cloud.hosts} - {first.source, second.source}
        await migrate(first)
        assert await first.host() == free
        await migrate(second)
        assert (await second.host(), await second.status()) == (second.source, "error")
        assert await ask(first, "confirmResize") == 204
        await migrate(second)
        assert await second.host() == first.source
