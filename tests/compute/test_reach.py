"""Servers go where their volumes can be reached, and move nowhere else."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.settings import PoolSettings, Role
from tests.compute.cloud import ComputeCloud
from tests.compute.moving import LIVE, Moving, server_that_moves

pytestmark = pytest.mark.anyio
_BOTH: tuple[Role, ...] = ("compute", "volume")
_ROLES: dict[str, tuple[Role, ...]] = {
    "host1": _BOTH,
    "host2": ("compute",),
    "host3": ("compute",),
}


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncGenerator[ComputeCloud]:
    """Three hosts, two of which reach the only pool."""
    async with ComputeCloud(tmp_path, hosts=tuple(_ROLES), roles=_ROLES) as opened:
        await _let_reach(opened, "host1", "host2")
        yield opened


async def _let_reach(cloud: ComputeCloud, *hosts: str) -> None:
    pool = PoolSettings(name="local", driver="simulated", hosts=hosts)
    await cloud.change_host("host1", pools=(pool,))
    await cloud.look_at_hosts()


async def _switch(cloud: ComputeCloud, host: str, status: str) -> None:
    body = {"host": host, "binary": "nova-compute"}
    path = f"/os-services/{status}"
    assert (await cloud.ask("PUT", path, body, user="admin", version="2.1")).status == 200


async def _ask_to_move(moving: Moving, host: str | None = None) -> tuple[int, str]:
    return await _act(moving, LIVE, {"host": host, "block_migration": False})


async def _act(moving: Moving, action: str, value: Any) -> tuple[int, str]:
    path = f"/servers/{moving.server_id}/action"
    body = {action: value}
    answer = await moving.cloud.ask("POST", path, body, user="admin", version="2.90")
    return answer.status, answer.text


async def test_a_pool_tells_administrators_which_hosts_reach_it(cloud: ComputeCloud) -> None:
    path = "/volume/v3/scheduler-stats/get_pools?detail=true"
    answer = await cloud.ask("GET", path, user="admin", version="3.67")
    [pool] = answer.body["pools"]
    assert pool["capabilities"]["reached_by"] == ["host1", "host2"]
    await _let_reach(cloud)
    [pool] = (await cloud.ask("GET", path, user="admin", version="3.67")).body["pools"]
    assert pool["capabilities"]["reached_by"] is None


async def test_a_server_is_made_where_its_volume_is_reached(cloud: ComputeCloud) -> None:
    await _switch(cloud, "host1", "disable")
    for _ in range(3):
        assert (await server_that_moves(cloud, volumes=1)).source == "host2"


async def test_the_fault_of_a_server_counts_the_hosts_that_do_not_reach_its_volume(
    cloud: ComputeCloud,
) -> None:
    await _switch(cloud, "host1", "disable")
    await _switch(cloud, "host2", "disable")
    root = await cloud.make_volume(bootable=True)
    mapping = {"source_type": "volume", "destination_type": "volume", "uuid": root}
    wanted = {"name": "s", "flavorRef": "1", "networks": "none"}
    wanted |= {"block_device_mapping_v2": [{**mapping, "boot_index": 0}]}
    made = await cloud.ask("POST", "/servers", {"server": wanted})
    await cloud.settle()
    server = await cloud.server(made.body["server"]["id"])
    message = "No valid host was found. 3 hosts: 2 disabled, 1 out of reach of pool local."
    assert server["fault"]["message"] == message
    assert await cloud.volume_status(root) == "available"


async def test_a_server_moves_to_a_host_that_reaches_its_volumes(cloud: ComputeCloud) -> None:
    moving = await server_that_moves(cloud)
    other = {"host1": "host2", "host2": "host1"}[moving.source]
    await moving.move()
    assert (await moving.status(), await moving.host()) == ("completed", other)


async def test_a_move_that_cannot_keep_its_volumes_is_refused_before_anything_happens(
    cloud: ComputeCloud,
) -> None:
    moving = await server_that_moves(cloud)
    acted = await cloud.actions(moving.server_id)
    status, said = await _ask_to_move(moving, "host3")
    assert status == 400
    assert "cannot keep its volumes on host3: pool host1@simulated#local is reached by" in said
    await _let_reach(cloud, moving.source)
    status, said = await _ask_to_move(moving)
    assert status == 400
    assert (
        f"on any other host: pool host1@simulated#local is reached by {moving.source} only" in said
    )
    await cloud.settle()
    assert await moving.migrations() == []
    assert await cloud.actions(moving.server_id) == acted
    await moving.stays_whole()


async def test_a_cold_move_that_cannot_keep_its_volumes_is_refused_before_anything_happens(
    cloud: ComputeCloud,
) -> None:
    moving = await server_that_moves(cloud)
    acted = await cloud.actions(moving.server_id)
    status, said = await _act(moving, "migrate", {"host": "host3"})
    assert status == 400
    assert "cannot keep its volumes on host3: pool host1@simulated#local is reached by" in said
    await _let_reach(cloud, moving.source)
    status, said = await _act(moving, "migrate", None)
    assert status == 400
    assert "cannot keep its volumes on any other host: pool" in said
    await cloud.settle()
    assert await moving.migrations() == []
    assert await cloud.actions(moving.server_id) == acted
    await moving.stays_whole()


async def test_a_server_that_is_off_moves_to_a_host_that_reaches_its_volumes(
    cloud: ComputeCloud,
) -> None:
    moving = await server_that_moves(cloud)
    other = {"host1": "host2", "host2": "host1"}[moving.source]
    assert (await _act(moving, "migrate", None))[0] == 202
    await cloud.settle()
    assert (await moving.status(), await moving.host()) == ("finished", other)


async def test_a_server_does_not_go_back_where_a_volume_of_its_own_is_out_of_reach(
    cloud: ComputeCloud,
) -> None:
    moving = await server_that_moves(cloud)
    assert (await _act(moving, "migrate", None))[0] == 202
    await cloud.settle()
    moved_to = await moving.host()
    await _let_reach(cloud, moved_to)
    status, said = await _act(moving, "revertResize", None)
    assert status == 400
    assert f"cannot keep its volumes on {moving.source}: pool" in said
    await cloud.settle()
    assert (await moving.status(), await moving.host()) == ("finished", moved_to)
    await _let_reach(cloud, "host1", "host2")
    assert (await _act(moving, "revertResize", None))[0] == 202
    await cloud.settle()
    await moving.stays_whole()


async def test_a_move_finds_no_host_while_those_that_reach_its_volumes_are_disabled(
    cloud: ComputeCloud,
) -> None:
    moving = await server_that_moves(cloud)
    await _switch(cloud, "host1", "disable")
    await _switch(cloud, "host2", "disable")
    await moving.move()
    assert await moving.status() == "error"
    await moving.stays_whole()
    actions = f"/servers/{moving.server_id}/os-instance-actions"
    listed = (await cloud.ask("GET", actions, user="admin")).body["instanceActions"]
    path = f"{actions}/{listed[0]['request_id']}"
    shown = (await cloud.ask("GET", path, user="admin")).body["instanceAction"]
    [event] = shown["events"]
    said, _, reasons = event["details"].rstrip(".").partition(": ")
    assert said == "No valid host was found. 3 hosts"
    assert set(reasons.split(", ")) == {
        "1 disabled",
        "1 where the server is",
        "1 out of reach of pool local",
    }
