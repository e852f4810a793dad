"""Operators see what keeps a host that is forced down from being up again."""

from __future__ import annotations

import pytest

from mooring import typed
from mooring.compute.hosts.fence_views import Fence, Fences
from mooring.compute.hosts.loops import watch_hosts
from mooring.errors import Unavailable
from mooring.host_command import enabled, forced_down
from tests.compute.fenced import say_down
from tests.compute.moving import Moving, moving_server
from tests.compute.test_evacuation import HOSTS, come_back, die, evacuate
from tests.kept import Keeper

pytestmark = pytest.mark.anyio


async def _shown(moving: Moving) -> Fence:
    answer = await moving.cloud.ask("GET", "/mooring/fences", user="admin")
    [found] = typed.convert(answer.body, Fences).fences
    return found


async def test_what_a_host_owes_is_counted_until_it_has_paid(keeper: Keeper, database: str) -> None:
    async with moving_server(keeper, hosts=HOSTS, database=database) as moving:
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


async def test_what_a_host_cannot_pay_is_told_with_its_reason(
    keeper: Keeper, database: str
) -> None:
    async with moving_server(keeper, hosts=HOSTS, database=database) as moving:
        cloud = moving.cloud
        await die(moving)
        await evacuate(moving, host=moving.destination)
        cloud.hypervisor(moving.source).knobs.fail("remove", Unavailable("It hangs."), times=20)
        await watch_hosts.look_once(cloud.compute)
        found = await _shown(moving)
        assert found.owes == len(found.unpaid) > 0
        assert found.unpaid[0].why == "It hangs."
        call = f"DELETE /servers/{moving.server_id}"
        assert f"It could not do {call}: It hangs." in forced_down(found)
        refused = await say_down(cloud, moving.source, down=False)
        assert refused.status == 400
        assert f"It could not do {call}: It hangs." in refused.text


def test_a_host_that_is_up_may_have_servers_at_once() -> None:
    assert enabled(Fence(host="h", forced_down=False)) == "Host h may have servers again."
