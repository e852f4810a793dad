"""Images of servers that boot from a volume: what they name, and what is left when one fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import Conflict
from mooring.limits import COMPUTE_SNAPSHOT_POLL_S
from tests.cloud import SimulatedCloud
from tests.compute import picturing
from tests.compute.picturing import IMAGES, SERVERS, VOLUME

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path) as opened:
        yield opened


@pytest.fixture
async def any_cloud(tmp_path: Path, database: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path, database=database) as opened:
        yield opened


@pytest.mark.parametrize("before", ["", "os-stop", "pause", "suspend"])
async def test_an_image_names_a_snapshot_of_each_volume(cloud: SimulatedCloud, before: str) -> None:
    server_id = await picturing.make_booted(cloud, data_gib=2)
    if before:
        await picturing.act(cloud, server_id, before, None)
        await cloud.settle()
    was = await picturing.show(cloud, server_id)
    volumes = await picturing.volumes_of(cloud, server_id)
    image_id = (await picturing.picture(cloud, server_id)).key("image_id")
    await cloud.settle()
    image = (await cloud.ask("GET", f"{IMAGES}/{image_id}")).body
    told = {key: image[key] for key in ("status", "name", "visibility", "size", "min_disk")}
    assert told == {
        "status": "active",
        "name": "picture",
        "visibility": "private",
        "size": 0,
        "min_disk": 1,
    }
    assert (image["bdm_v2"], image["root_device_name"]) == ("True", "/dev/vda")
    assert (image["base_image_ref"], image["instance_uuid"]) == ("", server_id)
    assert (image["role"], image["hw_disk_bus"]) == ("db", "scsi")
    found = {one["volume_id"]: one for one in await picturing.snapshots(cloud)}
    assert {*found} == {*volumes}
    assert {(one["status"], one["name"]) for one in found.values()} == {
        ("available", "snapshot for picture")
    }
    mapping = await picturing.mapping_of(cloud, image_id)
    assert [item["snapshot_id"] for item in mapping] == [found[one]["id"] for one in volumes]
    assert [(item["boot_index"], item["volume_size"]) for item in mapping] == [(0, 1), (None, 2)]
    assert [item["delete_on_termination"] for item in mapping] == [True, False]
    assert {item["source_type"] for item in mapping} == {"snapshot"}
    now = await picturing.show(cloud, server_id)
    assert (now["status"], now["OS-EXT-STS:task_state"]) == (was["status"], None)
    actions = (await cloud.ask("GET", f"{SERVERS}/{server_id}/os-instance-actions")).body
    assert actions["instanceActions"][0]["action"] == "createImage"


async def test_a_server_is_made_from_such_an_image(cloud: SimulatedCloud) -> None:
    first = await picturing.make_booted(cloud, data_gib=2)
    image_id = (await picturing.picture(cloud, first)).key("image_id")
    await cloud.settle()
    # As the stock client asks: the image, and an item that stands for it.
    item = {"source_type": "image", "destination_type": "local", "boot_index": 0}
    item |= {"uuid": image_id, "delete_on_termination": True}
    second = await picturing.make_server(cloud, imageRef=image_id, block_device_mapping_v2=[item])
    shown = await picturing.show(cloud, second)
    assert (shown["status"], shown["image"]) == ("ACTIVE", "")
    old = await picturing.volumes_of(cloud, first)
    made = await picturing.volumes_of(cloud, second)
    assert len(made) == 2
    assert not {*made} & {*old}
    snapshots = [one["snapshot_id"] for one in await picturing.mapping_of(cloud, image_id)]
    volumes = [(await cloud.ask("GET", f"{VOLUME}/volumes/{one}")).key("volume") for one in made]
    assert [volume["snapshot_id"] for volume in volumes] == snapshots
    assert [volume["size"] for volume in volumes] == [1, 2]
    # A picture of the second one names its own volumes.
    again = (await picturing.picture(cloud, second)).key("image_id")
    await cloud.settle()
    named = [one["snapshot_id"] for one in await picturing.mapping_of(cloud, again)]
    assert not {*named} & {*snapshots}
    # It is deleted with the volumes that were to go with it, before their snapshots: they stay.
    await cloud.ask("DELETE", f"{SERVERS}/{second}")
    await cloud.settle()
    assert (await cloud.ask("GET", f"{SERVERS}/{second}")).status == 404


async def test_a_flavor_without_disk_is_enough_for_such_an_image(cloud: SimulatedCloud) -> None:
    image_id = (await picturing.picture(cloud, await picturing.make_booted(cloud))).key("image_id")
    await cloud.settle()
    flavor = {"name": "flat", "vcpus": 1, "ram": 64, "disk": 0, "id": "flat"}
    made = await cloud.ask("POST", "/compute/v2.1/flavors", {"flavor": flavor}, user="admin")
    assert made.status == 200
    server_id = await picturing.make_server(cloud, imageRef=image_id, flavorRef="flat")
    assert (await picturing.show(cloud, server_id))["status"] == "ACTIVE"


async def test_what_is_asked_for_takes_the_place_of_what_the_image_names(
    cloud: SimulatedCloud,
) -> None:
    first = await picturing.make_booted(cloud, data_gib=2)
    image_id = (await picturing.picture(cloud, first)).key("image_id")
    await cloud.settle()
    blank = {"source_type": "blank", "destination_type": "volume", "device_name": "/dev/vdb"}
    larger = await picturing.make_server(
        cloud, imageRef=image_id, block_device_mapping_v2=[{**blank, "volume_size": 3}]
    )
    made = await picturing.volumes_of(cloud, larger)
    volumes = [(await cloud.ask("GET", f"{VOLUME}/volumes/{one}")).key("volume") for one in made]
    assert [(one["size"], one["snapshot_id"] is None) for one in volumes] == [(1, False), (3, True)]
    none = {**blank, "volume_size": 3, "no_device": True}
    alone = await picturing.make_server(cloud, imageRef=image_id, block_device_mapping_v2=[none])
    assert len(await picturing.volumes_of(cloud, alone)) == 1


@pytest.mark.parametrize(
    ("mapping", "bdm_v2"),
    [("nonsense", "True"), ("[1]", "True"), ('[{"source_type":"snapshot"}]', ""), ("{}", "True")],
)
async def test_an_image_that_names_its_disks_in_nonsense_is_refused(
    cloud: SimulatedCloud, mapping: str, bdm_v2: str
) -> None:
    base = {**picturing.BASE, "block_device_mapping": mapping, "bdm_v2": bdm_v2}
    image_id = (await cloud.ask("POST", IMAGES, base)).key("id")
    await cloud.ask("PUT", f"{IMAGES}/{image_id}/file", b"")
    wanted = {"name": "s", "flavorRef": "1", "imageRef": image_id}
    refused = await cloud.ask("POST", SERVERS, {"server": wanted})
    assert refused.status == 400
    assert "Nothing was created" in refused.fault


async def test_an_image_without_data_fills_no_disk(cloud: SimulatedCloud) -> None:
    booted = await picturing.make_booted(cloud)
    plain = await picturing.make_server(cloud, imageRef=await picturing.make_base(cloud))
    image_id = (await picturing.picture(cloud, booted)).key("image_id")
    await cloud.settle()
    for server_id in (booted, plain):
        wanted = {"imageRef": image_id}
        refused = await picturing.act(cloud, server_id, "rebuild", wanted, version="2.93")
        assert refused.status == 400
        assert "has no data" in refused.fault
    root = {"source_type": "image", "destination_type": "volume", "uuid": image_id}
    root |= {"boot_index": 0, "volume_size": 1}
    body = {"server": {"name": "s", "flavorRef": "1", "block_device_mapping_v2": [root]}}
    refused = await cloud.ask("POST", SERVERS, body)
    assert refused.status == 400
    assert "has no data" in refused.fault


async def test_a_snapshot_that_fails_leaves_neither_image_nor_snapshots(
    cloud: SimulatedCloud,
) -> None:
    server_id = await picturing.make_booted(cloud, data_gib=2)
    hypervisor: Any = cloud.agents["h1"].agent.hypervisor
    hypervisor.knobs.fail("snapshot_disk", Conflict("The emulator will not."))
    image_id = (await picturing.picture(cloud, server_id)).key("image_id")
    await cloud.settle()
    assert (await cloud.ask("GET", f"{IMAGES}/{image_id}")).status == 404
    assert await picturing.snapshots(cloud) == []
    shown = await picturing.show(cloud, server_id)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", None)


async def test_a_snapshot_that_is_being_backed_up_is_there(cloud: SimulatedCloud) -> None:
    server_id = await picturing.make_booted(cloud)
    agent = cloud.agents["h1"].agent
    hypervisor: Any = agent.hypervisor
    storage: Any = next(iter(agent.drivers.values()))
    hypervisor.knobs.hold("snapshot_disk")
    image_id = (await picturing.picture(cloud, server_id)).key("image_id")
    await hypervisor.knobs.held("snapshot_disk")
    hypervisor.knobs.release("snapshot_disk")
    storage.knobs.hold("capture")
    wanted: dict[str, Any] = {"backup": {}}
    while not wanted["backup"]:
        (snapshot,) = await picturing.snapshots(cloud)
        if snapshot["status"] == "available":
            wanted["backup"] = {"volume_id": snapshot["volume_id"], "snapshot_id": snapshot["id"]}
    assert (await cloud.ask("POST", f"{VOLUME}/backups", wanted)).status == 202
    await storage.knobs.held("capture")
    assert [one["status"] for one in await picturing.snapshots(cloud)] == ["backing-up"]
    await cloud.pass_time(2 * COMPUTE_SNAPSHOT_POLL_S)
    assert (await cloud.ask("GET", f"{IMAGES}/{image_id}")).body["status"] == "active"
    storage.knobs.release("capture")
    await cloud.settle()
    assert [one["status"] for one in await picturing.snapshots(cloud)] == ["available"]


async def test_what_the_volume_service_refuses_is_the_answer(cloud: SimulatedCloud) -> None:
    server_id = await picturing.make_booted(cloud, data_gib=2)
    project = (await cloud.ask("GET", "/identity/v3/auth/projects")).body["projects"][0]["id"]
    quota = {"quota_set": {"snapshots": 1}}
    await cloud.ask("PUT", f"{VOLUME}/os-quota-sets/{project}", quota, user="admin")
    refused = await picturing.picture(cloud, server_id)
    assert refused.status in {403, 413}
    await cloud.settle()
    assert await picturing.snapshots(cloud) == []


async def test_an_image_or_a_snapshot_that_is_deleted_on_its_way_ends_it(
    cloud: SimulatedCloud,
) -> None:
    server_id = await picturing.make_booted(cloud, data_gib=1)
    image_id = (await picturing.picture(cloud, server_id)).key("image_id")
    assert (await cloud.ask("DELETE", f"{IMAGES}/{image_id}")).status == 204
    await cloud.settle()
    assert await picturing.snapshots(cloud) == []


async def test_a_server_that_is_deleted_meanwhile_keeps_nobody_waiting(
    cloud: SimulatedCloud,
) -> None:
    server_id = await picturing.make_booted(cloud, data_gib=1)
    image_id = (await picturing.picture(cloud, server_id)).key("image_id")
    await cloud.ask("DELETE", f"{SERVERS}/{server_id}")
    await cloud.settle()
    assert (await cloud.ask("GET", f"{SERVERS}/{server_id}")).status == 404
    left = await cloud.ask("GET", f"{IMAGES}/{image_id}")
    known = await picturing.snapshots(cloud)
    if left.status == 404:
        assert known == []
    else:
        assert left.body["status"] == "active"
        assert {one["status"] for one in known} == {"available"}


async def test_a_server_is_made_from_a_snapshot_that_is_named(cloud: SimulatedCloud) -> None:
    first = await picturing.make_booted(cloud)
    await picturing.picture(cloud, first)
    await cloud.settle()
    (snapshot,) = await picturing.snapshots(cloud)
    root = {"source_type": "snapshot", "uuid": snapshot["id"], "boot_index": 0}
    server_id = await picturing.make_server(cloud, block_device_mapping_v2=[root])
    assert (await picturing.show(cloud, server_id))["status"] == "ACTIVE"
    body = {"server": {"name": "s", "flavorRef": "1", "block_device_mapping_v2": [root]}}
    root["uuid"] = "7f6f0a3e-58a9-4d5b-93f4-4f2f15fbc6f1"
    refused = await cloud.ask("POST", SERVERS, body)
    assert refused.status == 400
    assert "failed to get snapshot" in refused.fault


async def test_images_that_are_made_at_once_name_snapshots_of_their_own(
    any_cloud: SimulatedCloud,
) -> None:
    server_id = await picturing.make_booted(any_cloud, data_gib=1)
    asking = asyncio.gather(*(picturing.picture(any_cloud, server_id) for _ in range(4)))
    made = [answer.key("image_id") for answer in await asking]
    await any_cloud.settle()
    named = [
        item["snapshot_id"]
        for image_id in made
        for item in await picturing.mapping_of(any_cloud, image_id)
    ]
    images = [
        (await any_cloud.ask("GET", f"{IMAGES}/{image_id}")).key("status") for image_id in made
    ]
    assert images == ["active"] * 4
    found = await picturing.snapshots(any_cloud)
    assert sorted(one["id"] for one in found) == sorted(named)
    assert len({*named}) == 8
    assert {one["status"] for one in found} == {"available"}


async def test_an_image_is_begun_anew_by_whoever_takes_over(cloud: SimulatedCloud) -> None:
    server_id = await picturing.make_booted(cloud, data_gib=1)
    image_id = (await picturing.picture(cloud, server_id)).key("image_id")
    await cloud.restart()
    await cloud.settle()
    assert (await cloud.ask("GET", f"{IMAGES}/{image_id}")).key("status") == "active"
    named = [one["snapshot_id"] for one in await picturing.mapping_of(cloud, image_id)]
    assert sorted(one["id"] for one in await picturing.snapshots(cloud)) == sorted(named)
