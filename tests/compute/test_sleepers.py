"""A control plane that slept while another one went on changes nothing of what came since."""

from __future__ import annotations

import asyncio

import pytest

from mooring.fence import debts
from tests.compute.cloud import ComputeCloud
from tests.compute.fenced import say_down
from tests.sleeping import SlumberBeforeWrite

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
