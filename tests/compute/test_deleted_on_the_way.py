"""Servers deleted while their volumes are on the way: what was to go with them goes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mooring.saga.laws import Crash
from tests.compute.moving_volumes import FAR, FAST, SLOW, MovingVolumes, prepared_volumes
from tests.compute.test_drain import take_over
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
GOES_TOO, LOOKS = {"delete_on_termination": True}, 60


@pytest.fixture
async def cloud(keeper: Keeper, database: str) -> AsyncIterator[MovingVolumes]:
    async with prepared_volumes(keeper, prepare, database=database) as opened:
        yield opened


async def prepare(cloud: MovingVolumes) -> tuple[str, str]:
    """Return a server on the first host, with a volume that goes with it."""
    if (found := cloud.take_prepared()) is not None:
        return found
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    assert (await cloud.attach(server_id, volume_id, more=GOES_TOO)).status < 300
    await cloud.settle()
    return server_id, volume_id


async def delete(cloud: MovingVolumes, server_id: str) -> None:
    answer = await cloud.do("DELETE", f"/servers/{server_id}")
    assert answer is not None
    assert answer.status == 204, answer.text


async def kept_by(cloud: MovingVolumes, server_id: str) -> str | None:
    """Return what the deletion of a server says of volumes that were to go, and did not."""
    path = f"/servers/{server_id}/os-instance-actions"
    listed = await cloud.ask("GET", path, user="admin")
    [last, *_] = listed.body["instanceActions"]
    shown = await cloud.ask("GET", f"{path}/{last['request_id']}", user="admin")
    assert last["action"] == "delete"
    return shown.body["instanceAction"]["events"][0]["details"]


async def check_gone(cloud: MovingVolumes, server_id: str) -> None:
    """See that neither server nor volume is left anywhere, nor an operation."""
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "gone"
    assert await kept_by(cloud, server_id) is None
    listed = await cloud.volume_api("GET", "/volumes/detail?all_tenants=1", user="admin")
    assert listed["volumes"] == []
    assert await cloud.there() == {}
    assert await cloud.connections() == []


@pytest.mark.parametrize("pool", [FAST, FAR])
async def test_in_the_middle_of_a_copy(cloud: MovingVolumes, pool: str) -> None:
    server_id, volume_id = await prepare(cloud)
    cloud.hypervisor().lagging.add(volume_id)
    await cloud.migrate(volume_id, pool)
    await cloud.pass_time(10.0)
    await delete(cloud, server_id)
    await check_gone(cloud, server_id)


@pytest.mark.parametrize("pool", [FAST, FAR])
async def test_in_the_middle_of_the_switch(cloud: MovingVolumes, pool: str) -> None:
    server_id, volume_id = await prepare(cloud)
    cloud.hypervisor().knobs.hold("switch_disk")
    await cloud.migrate(volume_id, pool)
    await cloud.hypervisor().knobs.held("switch_disk")
    answer = await cloud.do("DELETE", f"/servers/{server_id}")
    assert answer is not None
    cloud.hypervisor().knobs.release("switch_disk")
    await check_gone(cloud, server_id)


async def test_before_compute_knows_of_it(cloud: MovingVolumes) -> None:
    server_id, volume_id = await prepare(cloud)
    cloud.pool(FAST).knobs.hold("create")
    await cloud.migrate(volume_id, FAST)
    await cloud.pool(FAST).knobs.held("create")
    await delete(cloud, server_id)
    cloud.pool(FAST).knobs.release("create")
    await check_gone(cloud, server_id)


async def test_in_the_middle_of_a_retype(cloud: MovingVolumes) -> None:
    server_id, volume_id = await prepare(cloud)
    specs = {"name": "quick", "extra_specs": {"volume_backend_name": "fast"}}
    await cloud.volume_api("POST", "/types", {"volume_type": specs}, user="admin")
    cloud.hypervisor().lagging.add(volume_id)
    value = {"new_type": "quick", "migration_policy": "on-demand"}
    assert (await cloud.act_on(volume_id, "os-retype", value)).status == 202
    await cloud.pass_time(10.0)
    await delete(cloud, server_id)
    await check_gone(cloud, server_id)


@pytest.mark.parametrize(
    "point",
    [
        "compute.delete_server/delete_volume/forward/before",
        "compute.delete_server/delete_volume/forward/after",
        "volume.migrate_in_use/settle_swap/failing/before",
        "volume.migrate_in_use/show_outcome/failing/before",
    ],
)
async def test_with_the_control_plane_killed_in_between(cloud: MovingVolumes, point: str) -> None:
    server_id, volume_id = await prepare(cloud)
    cloud.hypervisor().lagging.add(volume_id)
    await cloud.migrate(volume_id, FAST)
    await cloud.pass_time(10.0)
    cloud.probe.arm(point, Crash)
    await cloud.do("DELETE", f"/servers/{server_id}")
    for _ in range(LOOKS):
        if not cloud.probe.crashed:
            await cloud.pass_time(5.0)
    assert cloud.probe.crashed
    await cloud.restart()
    await take_over(cloud)
    await check_gone(cloud, server_id)


async def test_a_volume_that_it_did_not_have_yet_is_free_again(cloud: MovingVolumes) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    cloud.pool(FAST).knobs.hold("create")
    await cloud.migrate(volume_id, FAST)
    await cloud.pool(FAST).knobs.held("create")
    asking = await cloud.meanwhile(cloud.attach(server_id, volume_id, more=GOES_TOO))
    while await cloud.volume_status(volume_id) != "reserved":
        await cloud.pass_time(1.0)
    await delete(cloud, server_id)
    await cloud.pass_time(10.0)
    cloud.pool(FAST).knobs.release("create")
    await cloud.settle()
    assert (await asking).status < 500
    assert await cloud.stands(volume_id) == ("available", "success", FAST)


async def test_in_the_middle_of_a_swap(cloud: MovingVolumes) -> None:
    server_id, volume_id = await prepare(cloud)
    other = await cloud.make_volume()
    cloud.hypervisor().lagging.add(other)
    path = f"/servers/{server_id}/os-volume_attachments/{volume_id}"
    body = {"volumeAttachment": {"volumeId": other}}
    answer = await cloud.ask("PUT", path, body, user="admin", version="2.1")
    assert answer.status == 202, answer.text
    await cloud.pass_time(10.0)
    await delete(cloud, server_id)
    await cloud.settle()
    assert await kept_by(cloud, server_id) is None
    assert await cloud.volume_status(volume_id) == "gone"
    assert await cloud.there() == {SLOW: [other]}
    assert await cloud.volume_status(other) == "available"


async def test_while_it_grows(cloud: MovingVolumes) -> None:
    server_id, volume_id = await prepare(cloud)
    cloud.pool(SLOW).knobs.hold("extend")
    extend = {"new_size": 2}
    answer = await cloud.act_on(volume_id, "os-extend", extend)
    assert answer.status == 202, answer.text
    await cloud.pool(SLOW).knobs.held("extend")
    await cloud.ask("DELETE", f"/servers/{server_id}")
    await cloud.pass_time(10.0)
    cloud.pool(SLOW).knobs.release("extend")
    await check_gone(cloud, server_id)
