"""A move whose destination cannot take the server goes to another host and leaves nothing there."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.errors import Conflict
from mooring.limits import COMPUTE_BUILD_HOSTS
from tests.compute.cloud import ComputeCloud
from tests.compute.elsewhere import EVENTS, MOUNTS, events, move, refuse
from tests.compute.local_disks import make_local
from tests.compute.moving import LIVE, Moving, server_that_moves
from tests.compute.shared_moves import server_with_shares, sharing_cloud
from tests.compute.test_server_groups import make_group
from tests.compute.verifying import ask, fill, force_down, is_to_be_verified, show

pytestmark = pytest.mark.anyio
_HOSTS = ("host1", "host2", "host3")


@asynccontextmanager
async def _many(directory: Path, hosts: int) -> AsyncGenerator[Moving]:
    """A server on one of so many hosts."""
    names = [f"host{number}" for number in range(1, hosts + 1)]
    async with ComputeCloud(directory, hosts=names) as cloud:
        yield await server_that_moves(cloud)


@pytest.fixture
async def moving(tmp_path: Path) -> AsyncGenerator[Moving]:
    async with _many(tmp_path, 3) as made:
        yield made


@pytest.fixture(params=EVENTS)
def way(request: pytest.FixtureRequest) -> str:
    """Off, or while it runs."""
    return request.param


def _others(moving: Moving) -> list[str]:
    return [host for host in moving.cloud.hosts if host != moving.source]


def _in_turn(asked: list[str]) -> list[str]:
    """Return who was asked, each once."""
    return [*dict.fromkeys(asked)]


async def test_another_host_takes_it_and_the_first_one_has_nothing(
    moving: Moving, way: str
) -> None:
    asked = refuse(moving.cloud, _others(moving), one=True)
    await move(moving, way)
    first, other = _in_turn(asked)
    assert asked == [first, other, other]
    assert await moving.cloud.connections(first) == []
    moved = replace(moving, destination=other)
    if way == LIVE:
        assert (await show(moving))["status"] == "ACTIVE"
        assert await moved.states() == ["absent", "running"]
        assert (await moved.connected(), await moved.attachments()) == ([0, 2], 2)
        assert await moved.claims() == [set(), {moving.server_id}]
    else:
        await is_to_be_verified(moved)
    assert (await replace(moving, destination=first).claims())[1] == set()
    [newest, *_] = await moving.migrations(instance_uuid=moving.server_id)
    assert (newest["source_compute"], newest["dest_compute"]) == (moving.source, other)
    refused = f"{first} does not see the storage."
    seen = await events(moving.cloud, moving.server_id)
    assert seen[:2] == [(EVENTS[way], "Error", refused), (EVENTS[way], "Success", None)]
    assert (await moving.cloud.actions(moving.server_id))[-1][1] is None


async def test_one_that_was_asked_for_is_the_only_one_tried(moving: Moving, way: str) -> None:
    asked = refuse(moving.cloud, [moving.destination])
    await move(moving, way, moving.destination)
    assert asked == [moving.destination]
    await moving.stays_whole()
    refused = f"{moving.destination} does not see the storage."
    seen = await events(moving.cloud, moving.server_id)
    assert seen == [(EVENTS[way], "Error", refused)]


async def test_a_forced_one_is_tried_nowhere_else(moving: Moving) -> None:
    asked = refuse(moving.cloud, _others(moving))
    value = {"host": moving.destination, "block_migration": False, "force": True}
    assert await ask(moving, LIVE, value, user="admin", version="2.30") == 202
    assert asked == [moving.destination]
    await moving.stays_whole()


async def test_a_server_that_no_other_host_can_take_stays_and_says_why(
    moving: Moving, way: str
) -> None:
    asked = refuse(moving.cloud, _others(moving))
    await move(moving, way)
    assert sorted(asked) == _others(moving)
    await moving.stays_whole()
    [newest, *_] = await moving.migrations(instance_uuid=moving.server_id)
    assert (newest["status"], newest["dest_compute"]) == ("error", asked[-1])
    said = [f"On {host} it failed: {host} does not see the storage." for host in asked]
    assert (await events(moving.cloud, moving.server_id))[-1][2] == " ".join(
        [*said, "No valid host was found. 3 hosts: 2 tried already, 1 where the server is."]
    )


async def test_no_more_hosts_are_tried_than_for_a_new_server(tmp_path: Path, way: str) -> None:
    async with _many(tmp_path, COMPUTE_BUILD_HOSTS + 2) as moving:
        asked = refuse(moving.cloud, _others(moving))
        await move(moving, way)
        assert len(asked) == len({*asked}) == COMPUTE_BUILD_HOSTS
        await moving.stays_whole()
        assert (await moving.migrations())[0]["dest_compute"] == asked[-1]
        seen = await events(moving.cloud, moving.server_id)
        said = [f"On {host} it failed: {host} does not see the storage." for host in asked]
        alone = [f"{host} does not see the storage." for host in asked[:-1]]
        assert [details for _, _, details in seen] == [*alone, " ".join(said)]
        assert {(event, result) for event, result, _ in seen} == {(EVENTS[way], "Error")}


async def test_what_is_not_the_host_s_fault_is_not_tried_elsewhere(moving: Moving) -> None:
    moving.cloud.driver().knobs.fail("export", Conflict("The storage is full."), times=9)
    asked = refuse(moving.cloud, [])
    await move(moving, "migrate")
    assert asked == []
    await moving.stays_whole()


async def test_abort_ends_the_trying(moving: Moving) -> None:
    async def abort(_: str) -> None:
        [under_way] = await moving.under_way()
        await moving.ask_of("DELETE", under_way["id"])

    asked = refuse(moving.cloud, _others(moving), one=True, then=abort)
    await move(moving, LIVE)
    assert len(asked) == 1
    await moving.stays_whole()
    assert await moving.status() == "cancelled"


async def test_a_destination_that_is_forced_down_owes_what_it_has(moving: Moving, way: str) -> None:
    async def die(host: str) -> None:
        await force_down(moving.cloud, host, down=True)

    asked = refuse(moving.cloud, _others(moving), one=True, then=die)
    await move(moving, way)
    first, other = _in_turn(asked)
    assert await moving.host() == other
    await moving.cloud.look_at_hosts()
    await force_down(moving.cloud, first, down=False)
    assert await moving.cloud.connections(first) == []
    assert (await replace(moving, destination=first).states())[1] == "absent"
    assert await moving.cloud.complaints() == []


async def test_a_new_size_goes_elsewhere_too(moving: Moving) -> None:
    await fill(moving)
    asked = refuse(moving.cloud, _others(moving), one=True)
    assert await ask(moving, "resize", {"flavorRef": "2"}) == 202
    first, other = _in_turn(asked)
    shown = await show(moving)
    assert (shown["status"], await moving.host()) == ("VERIFY_RESIZE", other)
    assert shown["flavor"]["ram"] == 2048
    assert await moving.cloud.connections(first) == []
    assert (await replace(moving, destination=first).claims())[1] == set()
    assert await ask(moving, "confirmResize") == 204
    assert await moving.attachments() == 2


# -- what goes along ---------------------------------------------------------------------------


async def test_a_disk_that_was_made_at_the_first_host_is_removed(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path, hosts=_HOSTS) as cloud:
        local = await make_local(cloud)
        moving = local.moving
        made: list[bool] = []

        async def look(host: str) -> None:
            made.append(local.disk(host).exists())

        asked = refuse(cloud, _others(moving), one=True, then=look)
        value = {"host": None, "block_migration": True}
        assert await ask(moving, LIVE, value, user="admin") == 202
        first, other = _in_turn(asked)
        assert (await moving.status(), await moving.host()) == ("completed", other)
        assert made == [True]
        assert not local.disk(first).parent.exists()
        assert local.disk(other).exists()
        await local.doctor_finds_nothing()


async def test_a_host_without_a_deleted_image_leaves_the_server_to_one_that_has_it(
    tmp_path: Path,
) -> None:
    async with ComputeCloud(tmp_path, hosts=_HOSTS) as cloud:
        moving = (await make_local(cloud)).moving
        await moving.move(block_migration=True)
        first = await moving.host()
        [other] = {*_HOSTS} - {moving.source, first}
        for host in (other, moving.source):
            await moving.move(host=host, block_migration=True)
        cloud.shelf.images.clear()
        await cloud.known_agents[first].delete_image(cloud.image_id)
        await moving.move(block_migration=True)
        assert (await moving.status(), await moving.host()) == ("completed", other)
        seen = await events(cloud, moving.server_id)
        assert [result for _, result, _ in seen] == ["Error", "Success"]
        assert f"which host {first} has not" in str(seen[0][2])


async def test_a_disk_is_copied_to_the_host_that_takes_the_server(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path, hosts=_HOSTS) as cloud:
        local = await make_local(cloud)
        moving = local.moving
        asked = refuse(cloud, _others(moving), one=True)
        assert await ask(moving, "migrate", user="admin") == 202
        first, other = _in_turn(asked)
        assert ((await show(moving))["status"], await moving.host()) == ("VERIFY_RESIZE", other)
        assert not local.disk(first).parent.exists()
        assert local.reads(other) == local.reads(moving.source)
        await local.doctor_finds_nothing()


async def test_shares_are_taken_back_before_the_next_host_is_tried(tmp_path: Path) -> None:
    async with sharing_cloud(tmp_path, _HOSTS) as cloud:
        shares = await cloud.make_share(), await cloud.make_share()
        sharing = await server_with_shares(cloud, *shares)
        others = [host for host in _HOSTS if host != sharing.source]
        mounted: list[int] = []

        async def look(host: str) -> None:
            mounted.append(len(await cloud.mounts(host)))

        target = f"{MOUNTS}{shares[1]}"
        asked = refuse(cloud, others, target, one=True, then=look)
        await sharing.act("migrate")
        first, other = _in_turn(asked)
        assert mounted == [1]
        moved = replace(sharing, destination=other)
        assert (await moved.status(), await moved.host()) == ("VERIFY_RESIZE", other)
        await moved.has(rules="sd", mounts="sd", guest="d")
        await moved.act("confirmResize")
        await moved.has(rules="d", mounts="d", guest="d")
        assert await cloud.mounts(first) == []
        assert await cloud.complaints() == []


async def test_a_member_of_a_group_leaves_the_first_host_to_others(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path, hosts=_HOSTS) as cloud:
        group = await make_group(cloud, "anti-affinity")
        moving = await server_that_moves(cloud, volumes=1, group=group)
        deliver = cloud.deliver_to_host
        asked = refuse(cloud, _others(moving), one=True)
        await move(moving, "migrate")
        first, other = _in_turn(asked)
        assert await moving.host() == other
        cloud.deliver_to_host = deliver
        second = await server_that_moves(cloud, volumes=1, group=group)
        assert second.source == first


async def test_the_next_host_suits_the_group_too(tmp_path: Path, way: str) -> None:
    async with ComputeCloud(tmp_path, hosts=_HOSTS) as cloud:
        group = await make_group(cloud, "anti-affinity")
        moving = await server_that_moves(cloud, volumes=2, group=group)
        second = await server_that_moves(cloud, volumes=1, group=group)
        asked = refuse(cloud, _others(moving))
        await move(moving, way)
        [free] = {*_HOSTS} - {moving.source, second.source}
        assert asked == [free]
        await replace(moving, destination=free).stays_whole()
        (_, _, why) = (await events(cloud, moving.server_id))[-1]
        assert why is not None
        assert "1 with a member of the anti-affinity group" in why
