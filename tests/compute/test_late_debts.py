"""A host that is back pays also what was noted by a former owner, and for a thing since taken."""

from __future__ import annotations

import asyncio

import pytest

from mooring.errors import Bug
from mooring.fence import debts
from mooring.fence.debts import Debt
from mooring.fence.operation import Operation
from tests.compute.cloud import ComputeCloud
from tests.compute.fenced import say_down
from tests.sleeping import Slumber, sleep_before_write

pytestmark = pytest.mark.anyio


class SlumberAfterFirstDebt(Slumber):
    """Comes as a second thing is to be noted that a host owes."""

    def __init__(self, cloud: ComputeCloud) -> None:
        super().__init__(cloud)
        self._noted = 0
        sleep_before_write(cloud.cloud.stores["compute"], "_owe", self._count)

    async def _count(self) -> None:
        self._noted += 1
        if self._noted == 2:
            await self.fall()


async def owed(cloud: ComputeCloud) -> list[Debt]:
    return await cloud.stores["compute"].read(lambda tx: debts.owed(tx, "host1"))


async def test_a_host_pays_what_was_noted_before_another_process_went_on(
    any_cloud: ComputeCloud,
) -> None:
    cloud = any_cloud
    server_id, _ = await cloud.make_attached()
    await say_down(cloud, "host1", down=True)
    slumber = SlumberAfterFirstDebt(cloud)
    await cloud.ask("DELETE", f"/servers/{server_id}")
    resting = asyncio.create_task(cloud.settle())
    await slumber.has_come.wait()
    resting.cancel()
    cloud.hypervisor().knobs.fail("remove", Bug("It broke."))
    await slumber.succeed()
    first, *later = await owed(cloud)
    assert [one.operation.epoch - first.operation.epoch for one in later] == [1]
    cloud.hypervisor().knobs.fail("remove", Bug("It broke."))
    await cloud.look_at_hosts()
    assert [one.resource for one in await owed(cloud)] == [first.resource, later[0].resource]
    await cloud.look_at_hosts()
    assert await owed(cloud) == []
    assert (await say_down(cloud, "host1", down=False)).status == 200
    assert await cloud.hypervisor().guest(server_id) is None
    assert await cloud.connections() == []
    await slumber.end()
    assert await owed(cloud) == []


async def owe(cloud: ComputeCloud, resource: str) -> None:
    """Note what an operation owes that was there before all others."""
    early = Operation("early", "undo", 1, 1)
    store = cloud.stores["compute"]
    await store.write(lambda tx: debts.owe(tx, "host1", "DELETE", resource, early))


async def test_a_host_owes_nothing_that_a_later_operation_has_taken(
    any_cloud: ComputeCloud,
) -> None:
    cloud = any_cloud
    server_id, volume_id = await cloud.make_attached()
    disk = f"/disks/{volume_id}"
    for thing in ("", disk, f"{disk}?attachment_id={volume_id}"):
        await owe(cloud, f"/servers/{server_id}{thing}")
    assert (await say_down(cloud, "host1", down=True)).status == 200
    await cloud.look_at_hosts()
    assert await owed(cloud) == []
    assert (await say_down(cloud, "host1", down=False)).status == 200
    assert await cloud.disks(server_id) == [volume_id]
    assert await cloud.connections() == [volume_id]


async def test_a_host_leaves_a_connection_though_the_disk_was_taken_since(
    any_cloud: ComputeCloud,
) -> None:
    cloud = any_cloud
    server_id, volume_id = await cloud.make_attached()
    agent, volumes = cloud.known_agents["host1"], cloud.compute.volumes
    connector = await agent.connector()
    former = await volumes.create_attachment(None, volume_id, server_id, connector=connector)
    await agent.connect(former.id, volume_id, former.connection_info)
    assert len(await cloud.connections()) == 2
    await owe(cloud, f"/servers/{server_id}/disks/{volume_id}?attachment_id={former.id}")
    await cloud.look_at_hosts()
    assert await owed(cloud) == []
    assert await cloud.disks(server_id) == [volume_id]
    assert await cloud.connections() == [volume_id]
