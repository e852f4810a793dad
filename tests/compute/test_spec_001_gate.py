"""What specs 001 says of when it is safe to use the new calls: each test names its sentence."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.compute.closed_gate import OldService
from tests.compute.cloud import ComputeCloud
from tests.compute.elsewhere import events
from tests.compute.moving import LIVE, Moving, moving_server, server_that_moves
from tests.compute.verifying import fill, force_down, show
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2", "host3")
OLD = 23
"""The last service version of hosts that know nothing of attachments."""


@pytest.fixture
async def moving(keeper: Keeper) -> AsyncGenerator[Moving]:
    """A server with two volumes that have attachments; the third host is no part of its moves."""
    async with moving_server(keeper, hosts=HOSTS) as made:
        yield made


def bystander(moving: Moving) -> str:
    """Return the host that has nothing to do with the server."""
    return next(host for host in HOSTS if host not in {moving.source, moving.destination})


async def test_the_new_calls_are_used_only_when_all_of_the_hosts_have_been_upgraded(
    moving: Moving,
) -> None:
    """We can detect that by looking up the minimum service version: a dead host counts, too."""
    cloud, old = moving.cloud, bystander(moving)
    await cloud.change_host(old, version=OLD)
    await force_down(cloud, old, down=True)
    asked = OldService(cloud)
    asked.is_old = False
    first, second = await cloud.make_volume(), await cloud.make_volume()
    assert (await cloud.attach(moving.server_id, first)).status == 200
    await cloud.settle()
    assert asked.actions == ["os-reserve", "os-initialize_connection", "os-attach"]
    await cloud.change_host(old, version=OLD + 1)
    asked.actions.clear()
    assert (await cloud.attach(moving.server_id, second)).status == 200
    await cloud.settle()
    assert asked.actions == ["os-complete"]


MOVES: list[tuple[str, Any]] = [
    (LIVE, {"host": None, "block_migration": False}),
    ("migrate", None),
    ("resize", {"flavorRef": "2"}),
    ("shelve", None),
]


@pytest.mark.parametrize(("action", "value"), MOVES)
async def test_no_attachment_for_another_host_is_made_before_all_hosts_have_been_upgraded(
    moving: Moving, action: str, value: Any
) -> None:
    cloud, old = moving.cloud, bystander(moving)
    await cloud.change_host(old, version=OLD)
    path = f"/servers/{moving.server_id}/action"
    answer = await cloud.ask("POST", path, {action: value}, user="admin", version="2.90")
    assert answer.status == 409, answer.text
    said = answer.body["conflictingRequest"]["message"]
    assert said.startswith(f"Host {old} (23) is older than service version 24 and cannot")
    await cloud.settle()
    await moving.stays_whole()
    await cloud.change_host(old, version=OLD + 1)
    assert await cloud.act(moving.server_id, action, value, user="admin", version="2.90") == 202
    await cloud.settle()
    assert (await cloud.actions(moving.server_id))[-1][1] is None


@pytest.mark.parametrize(("action", "value"), MOVES)
async def test_without_3_44_a_server_with_volumes_stays_where_it_is_and_says_why(
    tmp_path: Path, action: str, value: Any
) -> None:
    """That endpoint should have the micro-version v3.44 available."""
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        asked = OldService(cloud)
        moving = await server_that_moves(cloud)
        asked.actions.clear()
        if action == "resize":
            await fill(moving)
        path = f"/servers/{moving.server_id}/action"
        await cloud.ask("POST", path, {action: value}, user="admin", version="2.90")
        await cloud.settle()
        [*_, (_, result, why)] = await events(cloud, moving.server_id)
        assert (result, asked.actions) == ("Error", [])
        assert "it is older than 3.44" in str(why)
        asked.is_old = False
        if action != "resize":
            await moving.stays_whole()
        assert (await show(moving))["status"] == "ACTIVE"


async def test_a_server_without_volumes_moves_among_hosts_of_every_version(
    moving: Moving,
) -> None:
    cloud = moving.cloud
    server_id = await cloud.make_server()
    source = (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]
    await cloud.change_host(next(host for host in HOSTS if host != source), version=OLD)
    assert await cloud.act(server_id, "migrate", None, user="admin") == 202
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "VERIFY_RESIZE"


async def test_an_evacuation_waits_for_no_dead_host_to_be_upgraded(moving: Moving) -> None:
    """A dead one could be neither upgraded nor removed before; one that is up can be."""
    cloud, old = moving.cloud, bystander(moving)
    how = {"user": "admin", "version": "2.94"}
    for host in (moving.source, old):
        await cloud.change_host(host, version=OLD)
    cloud.hypervisor(moving.source).crash(moving.server_id)
    await force_down(cloud, moving.source, down=True)
    assert await cloud.act(moving.server_id, "evacuate", {}, **how) == 409
    await force_down(cloud, old, down=True)
    assert await cloud.act(moving.server_id, "evacuate", {}, **how) == 200
    await cloud.settle()
    assert (await moving.host(), (await show(moving))["status"]) == (moving.destination, "ACTIVE")
