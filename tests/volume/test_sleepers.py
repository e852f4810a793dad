"""A control plane that slept while another one went on changes nothing of what came since."""

from __future__ import annotations

import asyncio

import pytest

from mooring.errors import Invalid
from tests.sleeping import SlumberAfterCall, SlumberBeforeWrite
from tests.volume.assisting import Assisting, tell
from tests.volume.cloud import VolumeCloud, connector
from tests.volume.test_assisted_snapshots import active_file, attached, begin

pytestmark = pytest.mark.anyio


async def test_who_slept_over_the_end_of_an_export_takes_no_connection_away(
    any_cloud: VolumeCloud,
) -> None:
    cloud = any_cloud
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    cloud.storage.knobs.fail("export", Invalid("No such host."))
    slumber = SlumberAfterCall(cloud, "DELETE")
    asking = asyncio.create_task(cloud.connect(attachment_id))
    await slumber.succeed()
    connected = await cloud.connect(attachment_id)
    assert (await cloud.complete(attachment_id)).status == 204
    await slumber.end()
    assert (await asking).status == 400
    shown = await cloud.ask("GET", f"/attachments/{attachment_id}", user="compute")
    found = shown.body["attachment"]["connection_info"]
    assert found == connected.body["attachment"]["connection_info"]
    assert found["driver_volume_type"] == "simulated"


async def test_who_slept_over_the_end_of_a_legacy_export_forgets_no_other(
    any_cloud: VolumeCloud,
) -> None:
    cloud, body = any_cloud, {"connector": connector()}
    volume_id = await cloud.make()
    cloud.storage.knobs.fail("export", Invalid("No such host."))
    slumber = SlumberAfterCall(cloud, "DELETE")
    asking = asyncio.create_task(cloud.act(volume_id, "os-initialize_connection", body))
    await slumber.succeed()
    assert (await cloud.act(volume_id, "os-initialize_connection", body)).status == 200
    await slumber.end()
    assert (await asking).status == 400
    ending = await cloud.act(volume_id, "os-terminate_connection", body, user="compute")
    assert ending.status == 202
    assert await cloud.exports() == set()


async def test_who_slept_over_an_overlay_names_none_that_has_another_on_top(
    any_cloud: VolumeCloud,
) -> None:
    cloud = any_cloud
    cloud.compute = cloud.neighbour = cloud.volume.compute = compute = Assisting(cloud)
    volume_id, attachment_id = await attached(cloud)
    cloud.storage.shows_locks = False
    compute.buried.knows = False
    first = await begin(cloud, volume_id)
    slumber = SlumberAfterCall(cloud, "PUT", "/exports/")
    resting = asyncio.create_task(cloud.settle())
    await slumber.has_come.wait()
    resting.cancel()
    cloud.storage.shows_locks = False
    await slumber.succeed()
    assert await active_file(cloud, attachment_id) == (f"volume-{volume_id}.{first}", "qcow2")
    compute.says = {"status": "creating"}
    second = await begin(cloud, volume_id)
    await cloud.settle()
    await slumber.end()
    assert await active_file(cloud, attachment_id) == (f"volume-{volume_id}.{second}", "qcow2")
    assert await cloud.complaints() == []


async def test_who_slept_over_a_failed_creation_gives_the_volume_no_pool(
    any_cloud: VolumeCloud,
) -> None:
    cloud = any_cloud
    cloud.storage.knobs.fail("create", Invalid("No such pool."))
    slumber = SlumberBeforeWrite(cloud, "volume", "_place_volume")
    answer = await cloud.ask("POST", "/volumes", {"volume": {"size": 1}})
    volume_id = answer.body["volume"]["id"]
    resting = asyncio.create_task(cloud.settle())
    await slumber.has_come.wait()
    resting.cancel()
    await slumber.succeed()
    assert await cloud.status(volume_id) == "error"
    await slumber.end()
    assert (await cloud.show(volume_id))["os-vol-host-attr:host"] is None
    assert await cloud.complaints() == []


async def test_who_slept_as_compute_gave_up_refuses_no_word_of_what_is_asked_later(
    any_cloud: VolumeCloud,
) -> None:
    cloud = any_cloud
    cloud.compute = cloud.neighbour = cloud.volume.compute = compute = Assisting(cloud)
    volume_id, _ = await attached(cloud)
    cloud.storage.shows_locks = compute.buried.knows = False
    slumber = SlumberBeforeWrite(cloud, "volume", "CLOSED")
    snapshot_id = await begin(cloud, volume_id)
    resting = asyncio.create_task(cloud.settle())
    await slumber.has_come.wait()
    resting.cancel()
    await slumber.succeed()
    shown = await cloud.ask("GET", f"/snapshots/{snapshot_id}")
    assert shown.body["snapshot"]["status"] == "error"
    assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await cloud.settle(20.0)
    assert len(compute.calls) > 1
    slumber.rouse()
    await cloud.settle(20.0)
    compute.merge(volume_id, *compute.calls[-1])
    assert await tell(cloud, snapshot_id, "deleting") == 202
    await cloud.settle()
    assert (await cloud.ask("GET", f"/snapshots/{snapshot_id}")).status == 404
