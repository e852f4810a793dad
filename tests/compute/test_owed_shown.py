"""Operators see what keeps a host that is forced down from being up again."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring import typed
from mooring.compute.hosts.fence_views import Fence, Fences
from mooring.host_command import enabled, forced_down
from tests.compute.cloud import ComputeCloud
from tests.compute.moving import Moving, server_that_moves
from tests.compute.test_evacuation import HOSTS, come_back, die, evacuate

pytestmark = pytest.mark.anyio


async def _shown(moving: Moving) -> Fence:
    answer = await moving.cloud.ask("GET", "/mooring/fences", user="admin")
    [found] = typed.convert(answer.body, Fences).fences
    return found


async def test_what_a_host_owes_is_counted_until_it_has_paid(tmp_path: Path, database: str) -> None:
    async with ComputeCloud(tmp_path, hosts=HOSTS, database=database) as cloud:
        moving = await server_that_moves(cloud)
        await die(moving)
        assert (await _shown(moving)).owes == 0
        await evacuate(moving, host=moving.destination)
        found = await _shown(moving)
        assert found.owes == 3
        owed = "It owes 3 undone operations, and cannot be up before its agent has paid."
        assert forced_down(found).endswith(owed)
        said = enabled(found)
        assert f"once it is up: openstack compute service set --up {moving.source} " in said
        await come_back(moving)
        found = await _shown(moving)
        assert found.owes == 0
        assert forced_down(found).endswith("It owes nothing.")


def test_a_host_that_is_up_may_have_servers_at_once() -> None:
    assert enabled(Fence(host="h", forced_down=False)) == "Host h may have servers again."
