"""Creating a server: from an image, from volumes; refused, and failed after the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.errors import Conflict
from mooring.limits import AGENT_DISKS
from tests.compute.cloud import IMAGE, ComputeCloud

pytestmark = pytest.mark.anyio
OWN = "6c2b7a1e-90d4-4c35-8f0e-2d9b1a7e4f63"
"""An image that names disks of its own."""


def existing(volume_id: str, **more: Any) -> dict[str, Any]:
    item = {"source_type": "volume", "destination_type": "volume", "uuid": volume_id}
    return {**item, "boot_index": 0, **more}


def blank(size_gib: int, **more: Any) -> dict[str, Any]:
    item = {"source_type": "blank", "destination_type": "volume", "volume_size": size_gib}
    return {**item, "boot_index": -1, **more}


async def post(cloud: ComputeCloud, **server: Any) -> Any:
    wanted = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none", **server}
    return await cloud.ask("POST", "/servers", {"server": wanted})


def naming(items: list[dict[str, Any]]) -> dict[str, str]:
    """Return the properties of an image that names disks."""
    return written(json.dumps(items))


def written(mapping: str) -> dict[str, str]:
    """Return the properties of an image that names its disks by this text."""
    return {"block_device_mapping": mapping, "bdm_v2": "True"}


async def used(cloud: ComputeCloud) -> tuple[int, int]:
    """Return what placement has given away of the host, and the project's instances."""
    claims = 0
    for provider in await cloud.compute.placement.providers():
        claims += len(await cloud.compute.placement.provider_allocations(provider.uuid))
    limits = (await cloud.ask("GET", "/limits")).body["limits"]["absolute"]
    return claims, limits["totalInstancesUsed"]


async def refuse_image(cloud: ComputeCloud, mapping: str) -> None:
    """See that no server is made of an image that names its disks by this text."""
    cloud.shelf.put(OWN, b"data" * 16384, **written(mapping))
    refused = await post(cloud, imageRef=OWN)
    assert refused.status == 400, refused.text
    assert f"the property block_device_mapping of image {OWN}" in refused.text
    assert "Nothing was created" in refused.text


async def test_server_from_an_image_runs_on_a_host(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    server = await cloud.server(server_id)
    assert server["status"] == "ACTIVE"
    assert server["OS-EXT-SRV-ATTR:host"] == "host1"
    assert server["OS-SRV-USG:launched_at"]
    guest = await cloud.known_agents["host1"].show_server(server_id)
    assert guest is not None
    assert (guest.state, guest.image_id, guest.memory_mib) == ("running", IMAGE, 512)
    assert await used(cloud) == (1, 1)
    assert await cloud.actions(server_id) == [("create", None)]


async def test_what_the_openstack_command_sends_is_the_plain_server(cloud: ComputeCloud) -> None:
    root = {
        "source_type": "image",
        "destination_type": "local",
        "uuid": IMAGE,
        "boot_index": 0,
        "delete_on_termination": True,
    }
    server_id = await cloud.make_server(block_device_mapping_v2=[root])
    assert (await cloud.server(server_id))["image"]["id"] == IMAGE


async def test_server_from_a_volume_holds_it_reserved_when_the_answer_comes(
    cloud: ComputeCloud,
) -> None:
    volume_id = await cloud.make_volume(bootable=True)
    cloud.hypervisor().knobs.hold("define")
    answer = await post(cloud, imageRef="", block_device_mapping_v2=[existing(volume_id)])
    assert answer.status == 202
    assert await cloud.volume_status(volume_id) != "available"
    cloud.hypervisor().knobs.release("define")
    await cloud.settle()
    server_id = answer.body["server"]["id"]
    server = await cloud.server(server_id)
    assert (server["status"], server["image"]) == ("ACTIVE", "")
    assert await cloud.volume_status(volume_id) == "in-use"
    assert await cloud.disks(server_id) == [volume_id]
    assert (await cloud.attachments(server_id))[0]["device"] == "/dev/vda"


async def test_volumes_are_made_for_the_server_and_go_with_it(cloud: ComputeCloud) -> None:
    keep, drop = blank(1), blank(2, delete_on_termination=True)
    server_id = await cloud.make_server(block_device_mapping_v2=[keep, drop])
    shown = await cloud.attachments(server_id)
    assert [one["device"] for one in shown] == ["/dev/vdb", "/dev/vdc"]
    kept_id, dropped_id = (one["volumeId"] for one in shown)
    assert await cloud.volume_status(kept_id) == "in-use"
    await cloud.ask("DELETE", f"/servers/{server_id}")
    await cloud.settle()
    assert await cloud.volume_status(kept_id) == "available"
    assert await cloud.volume_status(dropped_id) == "gone"


async def test_the_image_of_a_root_volume_names_its_type(cloud: ComputeCloud) -> None:
    kind: dict[str, Any] = {"volume_type": {"name": "fast", "extra_specs": {}}}
    await cloud.volume_api("POST", "/types", kind, user="admin")
    cloud.shelf.images[IMAGE]["cinder_img_volume_type"] = "fast"
    root = {"source_type": "image", "destination_type": "volume", "uuid": IMAGE}
    root |= {"boot_index": 0, "volume_size": 1}
    server_id = await cloud.make_server(block_device_mapping_v2=[root])
    (volume_id,) = await cloud.disks(server_id)
    shown = await cloud.volume_api("GET", f"/volumes/{volume_id}")
    assert shown["volume"]["volume_type"] == "fast"


async def test_refused_volume_leaves_nothing_of_the_server(cloud: ComputeCloud) -> None:
    good, bad = await cloud.make_volume(bootable=True), await cloud.make_volume()
    await cloud.volume_api("POST", f"/volumes/{bad}/action", {"os-reserve": None})
    items = [existing(good), existing(bad, boot_index=-1)]
    answer = await post(cloud, imageRef="", block_device_mapping_v2=items)
    assert answer.status == 400
    await cloud.settle()
    assert (await cloud.ask("GET", "/servers")).body["servers"] == []
    assert await cloud.volume_status(good) == "available"
    assert await used(cloud) == (0, 0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"imageRef": "", "block_device_mapping_v2": [blank(1)]}, "Boot sequence"),
        ({"block_device_mapping_v2": [blank(1, boot_index=2)]}, "Boot sequence"),
        ({"imageRef": "22222222-2222-2222-2222-222222222222"}, "Can not find requested image"),
        ({"flavorRef": "nothing"}, "Flavor nothing could not be found"),
        ({"availability_zone": "mars"}, "openstack availability zone list --compute"),
        ({"key_name": "nobodys"}, "nobodys"),
        ({"block_device_mapping_v2": [blank(1, device_type="cdrom")]}, "cdrom is not built"),
        ({"block_device_mapping_v2": [blank(1, device_type="lun")]}, "speaks SCSI to the guest"),
    ],
)
async def test_request_that_makes_no_sense_is_400(
    cloud: ComputeCloud, wrong: dict[str, Any], words: str
) -> None:
    answer = await post(cloud, **wrong)
    assert answer.status == 400
    assert words in answer.text
    assert (await cloud.ask("GET", "/servers")).body["servers"] == []


async def test_no_more_disks_are_asked_for_than_a_guest_can_have(cloud: ComputeCloud) -> None:
    cloud.shelf.put(OWN, b"", **naming([blank(1)] * 20))
    for wanted in (
        {"block_device_mapping_v2": [blank(1)] * AGENT_DISKS},
        {"imageRef": "", "block_device_mapping_v2": [blank(1)] * (AGENT_DISKS + 1)},
        {"imageRef": OWN, "block_device_mapping_v2": [blank(1)] * (AGENT_DISKS - 20)},
    ):
        refused = await post(cloud, **wanted)
        assert refused.status == 403, refused.text
        assert f"({AGENT_DISKS})" in refused.text
        assert "Nothing was created" in refused.text
    await cloud.settle()
    assert (await cloud.ask("GET", "/servers")).body["servers"] == []
    assert (await cloud.volume_api("GET", "/volumes"))["volumes"] == []
    # What is to be left out is no disk.
    none = [blank(1, no_device=True)] * AGENT_DISKS
    most = [blank(1)] * (AGENT_DISKS - 1)
    assert (await post(cloud, block_device_mapping_v2=[*none, *most])).status == 202


async def test_the_operator_may_allow_fewer_disks(cloud: ComputeCloud) -> None:
    cloud.compute.settings = replace(cloud.compute.settings, max_disks=2)
    refused = await post(cloud, block_device_mapping_v2=[blank(1)] * 2)
    assert refused.status == 403
    assert "(2)" in refused.text
    assert (await post(cloud, block_device_mapping_v2=[blank(1)])).status == 202


@pytest.mark.parametrize(
    "wrong",
    [
        {"volume_size": 10**30},
        {"volume_size": 2**40},
        {"volume_size": -5},
        {"volume_size": 0},
        {"boot_index": -(2**40)},
        {"source_type": "tape"},
        {"destination_type": "shelf"},
        {"source_type": "volume", "volume_id": "detail"},
        {"source_type": "snapshot", "snapshot_id": "detail"},
        {"source_type": "image", "image_id": "../images"},
        {"tag": "nul\0"},
        {"tag": "a,b"},
        {"device_type": "disk\0"},
        {"guest_format": "f" * 256},
        {"volume_type": "t\0"},
        {"device_name": "/dev/vd\0"},
    ],
)
async def test_disks_of_an_image_are_as_those_of_a_request(
    cloud: ComputeCloud, wrong: dict[str, Any]
) -> None:
    await refuse_image(cloud, json.dumps([blank(1, **wrong)]))


@pytest.mark.parametrize(
    "mapping", ["[" * 60_000, '[{"x":' * 10_000, '["\\ud800"]', "[" + "9" * 5000]
)
async def test_disks_of_an_image_that_cannot_be_read_are_refused(
    cloud: ComputeCloud, mapping: str
) -> None:
    await refuse_image(cloud, mapping)


async def test_an_image_may_say_of_its_disks_what_nova_writes(cloud: ComputeCloud) -> None:
    absent = ("tag", "guest_format", "no_device", "volume_type", "image_id", "snapshot_id")
    nova = blank(1, **dict.fromkeys((*absent, "volume_id", "encrypted", "disk_bus")))
    nova |= {"volume_size": "2", "boot_index": None, "device_name": "/dev/vdb"}
    cloud.shelf.put(OWN, b"data" * 16384, **naming([nova]))
    server_id = await cloud.make_server(imageRef=OWN)
    (volume_id,) = await cloud.disks(server_id)
    assert (await cloud.volume_api("GET", f"/volumes/{volume_id}"))["volume"]["size"] == 2


async def test_quota_is_403_and_counts_servers_in_error(cloud: ComputeCloud) -> None:
    cloud.hypervisor().knobs.fail("define", Conflict("No."), times=10)
    for _ in range(10):
        await cloud.make_server()
    answer = await post(cloud)
    assert answer.status == 403
    assert "Quota exceeded for instances" in answer.text
    listed = (await cloud.ask("GET", "/servers/detail")).body["servers"]
    assert {server["status"] for server in listed} == {"ERROR"}
    await cloud.ask("DELETE", f"/servers/{listed[0]['id']}")
    await cloud.settle()
    assert (await post(cloud)).status == 202
    await cloud.settle()


async def test_as_many_servers_as_the_quota_allows(cloud: ComputeCloud) -> None:
    answer = await post(cloud, min_count=2, max_count=12)
    assert answer.status == 202
    await cloud.settle()
    names = [one["name"] for one in (await cloud.ask("GET", "/servers")).body["servers"]]
    assert len(names) == 10
    assert {"s-1", "s-10"} <= set(names)


async def test_no_host_with_room_is_error_with_a_fault_that_says_so(cloud: ComputeCloud) -> None:
    body = {"flavor": {"name": "vast", "ram": 10**8, "vcpus": 1, "disk": 1, "id": "vast"}}
    assert (await cloud.ask("POST", "/flavors", body, user="admin")).status == 200
    body = {"quota_set": {"ram": -1}}
    project = cloud.project_id
    await cloud.ask("PUT", f"/os-quota-sets/{project}", body, user="admin")
    server_id = await cloud.make_server(flavorRef="vast")
    server = await cloud.server(server_id)
    assert server["status"] == "ERROR"
    assert server["fault"]["message"].startswith("No valid host was found.")
    assert server["OS-EXT-SRV-ATTR:host"] in (None, "")
    assert await used(cloud) == (0, 1)
    assert await cloud.actions(server_id) == [("create", "Error")]


async def test_failed_start_is_error_and_frees_all_that_was_taken(cloud: ComputeCloud) -> None:
    named = await cloud.make_volume()
    items = [existing(named, boot_index=-1), blank(1)]
    cloud.hypervisor().knobs.fail("power_on", Conflict("The hypervisor says no."))
    server_id = await cloud.make_server(block_device_mapping_v2=items)
    server = await cloud.server(server_id)
    assert server["status"] == "ERROR"
    assert server["fault"]["message"] == (
        "On host1 it failed: The hypervisor says no. "
        "No valid host was found. 1 host: 1 tried already."
    )
    assert await cloud.volume_status(named) == "available"
    volumes = (await cloud.volume_api("GET", "/volumes"))["volumes"]
    assert [volume["id"] for volume in volumes] == [named]
    assert await cloud.known_agents["host1"].list_servers() == []
    assert await cloud.connections() == []
    assert await used(cloud) == (0, 1)


async def test_disabled_host_gets_no_server(cloud: ComputeCloud) -> None:
    service = (await cloud.ask("GET", "/os-services", user="admin")).body["services"]
    compute = next(one for one in service if one["binary"] == "nova-compute")
    body = {"status": "disabled"}
    await cloud.ask("PUT", f"/os-services/{compute['id']}", body, user="admin")
    server_id = await cloud.make_server()
    assert (await cloud.server(server_id))["fault"]["message"].startswith("No valid host")
