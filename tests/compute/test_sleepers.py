"""A control plane that slept while another one went on changes nothing of what came since."""

from __future__ import annotations

import asyncio

import pytest

from mooring.compute.hosts.loops import watch_hosts
from mooring.fence import debts
from tests.compute.cloud import ComputeCloud
from tests.compute.fenced import say_down
from tests.sleeping import SlumberAtService, SlumberBeforeWrite

pytestmark = pytest.mark.anyio


async def test_who_slept_over_the_return_of_a_host_owes_it_nothing_when_that_is_down_again(
    any_cloud: ComputeCloud,
) -> None:
    cloud = any_cloud
    server_id = await cloud.make_server()
    await say_down(cloud, "host1", down=True)
    slumber = SlumberBeforeWrite(cloud, "compute", "_owe")
    await cloud.ask("DELETE", f"/servers/{server_id}")
    resting = asyncio.create_task(cloud.settle())
    await slumber.has_come.wait()
    resting.cancel()
    await slumber.succeed()
    assert (await cloud.server(server_id))["status"] == "gone"
    await cloud.look_at_hosts()
    assert await cloud.disks(server_id) == []
    assert (await say_down(cloud, "host1", down=False)).status == 200
    assert (await say_down(cloud, "host1", down=True)).status == 200
    await slumber.end()
    assert await cloud.stores["compute"].read(debts.hosts_in_debt) == []
    await cloud.look_at_hosts()
    assert (await say_down(cloud, "host1", down=False)).status == 200


async def enable(cloud: ComputeCloud, *, enabled: bool) -> None:
    """Let a host have new servers, or no more of them; placement hears of it at the next look."""
    services = (await cloud.ask("GET", "/os-services", user="admin")).body["services"]
    [path] = [f"/os-services/{one['id']}" for one in services if one["host"] == "host1"]
    body = {"status": "enabled" if enabled else "disabled"}
    assert (await cloud.ask("PUT", path, body, user="admin")).status == 200


async def is_closed(cloud: ComputeCloud) -> bool:
    """Whether placement gives nobody a place on the host."""
    [provider] = await cloud.compute.placement.providers(name="host1")
    return watch_hosts.DISABLED in await cloud.compute.placement.traits(provider.uuid)


async def test_who_slept_as_placement_was_told_of_a_host_tells_it_nothing_of_before(
    any_cloud: ComputeCloud,
) -> None:
    cloud = any_cloud
    await enable(cloud, enabled=False)
    slumber = SlumberAtService(cloud, "PUT", "/traits")
    looking = asyncio.create_task(watch_hosts.look_once(cloud.compute))
    await slumber.succeed()
    assert await is_closed(cloud)
    await enable(cloud, enabled=True)
    await cloud.look_at_hosts()
    assert not await is_closed(cloud)
    slumber.rouse()
    await looking
    assert not await is_closed(cloud)


async def test_placement_is_told_of_a_host_in_one_look_though_a_server_leaves_it_meanwhile(
    any_cloud: ComputeCloud,
) -> None:
    cloud = any_cloud
    server_id = await cloud.make_server()
    await enable(cloud, enabled=False)
    slumber = SlumberAtService(cloud, "PUT", "/traits")
    looking = asyncio.create_task(watch_hosts.look_once(cloud.compute))
    await slumber.has_come.wait()
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.settle()
    slumber.rouse()
    await looking
    assert await is_closed(cloud)


async def test_a_host_is_open_though_who_told_that_it_is_closed_was_killed(
    any_cloud: ComputeCloud,
) -> None:
    cloud = any_cloud
    await enable(cloud, enabled=False)
    slumber = SlumberAtService(cloud, "PUT", "/traits", answered=True)
    looking = asyncio.create_task(watch_hosts.look_once(cloud.compute))
    await slumber.has_come.wait()
    looking.cancel()
    assert await is_closed(cloud)
    await enable(cloud, enabled=True)
    await cloud.look_at_hosts()
    assert not await is_closed(cloud)
