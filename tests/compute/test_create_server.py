"""Creating a server: from an image, from volumes; refused, and failed after the answer."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import Conflict
from tests.compute.yard import IMAGE, Yard

pytestmark = pytest.mark.anyio


def existing(volume_id: str, **more: Any) -> dict[str, Any]:
    item = {"source_type": "volume", "destination_type": "volume", "uuid": volume_id}
    return {**item, "boot_index": 0, **more}


def blank(size_gib: int, **more: Any) -> dict[str, Any]:
    item = {"source_type": "blank", "destination_type": "volume", "volume_size": size_gib}
    return {**item, "boot_index": -1, **more}


async def post(yard: Yard, **server: Any) -> Any:
    wanted = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none", **server}
    return await yard.ask("POST", "/servers", {"server": wanted})


async def used(yard: Yard) -> tuple[int, int]:
    """Return what placement has given away of the host, and the project's instances."""
    claims = 0
    for provider in await yard.compute.placement.providers():
        claims += len(await yard.compute.placement.provider_allocations(provider.uuid))
    limits = (await yard.ask("GET", "/limits")).json()["limits"]["absolute"]
    return claims, limits["totalInstancesUsed"]


async def test_server_from_an_image_runs_on_a_host(yard: Yard) -> None:
    server_id = await yard.make_server()
    server = await yard.server(server_id)
    assert server["status"] == "ACTIVE"
    assert server["OS-EXT-SRV-ATTR:host"] == "host1"
    assert server["OS-SRV-USG:launched_at"]
    guest = await yard.agents["host1"].show_server(server_id)
    assert guest is not None
    assert (guest.state, guest.image_id, guest.memory_mib) == ("running", IMAGE, 512)
    assert await used(yard) == (1, 1)
    assert await yard.actions(server_id) == [("create", None)]


async def test_what_the_openstack_command_sends_is_the_plain_server(yard: Yard) -> None:
    root = {
        "source_type": "image",
        "destination_type": "local",
        "uuid": IMAGE,
        "boot_index": 0,
        "delete_on_termination": True,
    }
    server_id = await yard.make_server(block_device_mapping_v2=[root])
    assert (await yard.server(server_id))["image"]["id"] == IMAGE


async def test_server_from_a_volume_holds_it_reserved_when_the_answer_comes(yard: Yard) -> None:
    volume_id = await yard.make_volume(bootable=True)
    yard.hypervisor().knobs.hold("define")
    answer = await post(yard, imageRef="", block_device_mapping_v2=[existing(volume_id)])
    assert answer.status_code == 202
    assert await yard.volume_status(volume_id) != "available"
    yard.hypervisor().knobs.release("define")
    await yard.settle()
    server_id = answer.json()["server"]["id"]
    server = await yard.server(server_id)
    assert (server["status"], server["image"]) == ("ACTIVE", "")
    assert await yard.volume_status(volume_id) == "in-use"
    assert await yard.disks(server_id) == [volume_id]
    assert (await yard.attachments(server_id))[0]["device"] == "/dev/vda"


async def test_volumes_are_made_for_the_server_and_go_with_it(yard: Yard) -> None:
    keep, drop = blank(1), blank(2, delete_on_termination=True)
    server_id = await yard.make_server(block_device_mapping_v2=[keep, drop])
    shown = await yard.attachments(server_id)
    assert [one["device"] for one in shown] == ["/dev/vdb", "/dev/vdc"]
    kept_id, dropped_id = (one["volumeId"] for one in shown)
    assert await yard.volume_status(kept_id) == "in-use"
    await yard.ask("DELETE", f"/servers/{server_id}")
    await yard.settle()
    assert await yard.volume_status(kept_id) == "available"
    assert await yard.volume_status(dropped_id) == "gone"


async def test_refused_volume_leaves_nothing_of_the_server(yard: Yard) -> None:
    good, bad = await yard.make_volume(bootable=True), await yard.make_volume()
    await yard.volume_api("POST", f"/volumes/{bad}/action", {"os-reserve": None})
    items = [existing(good), existing(bad, boot_index=-1)]
    answer = await post(yard, imageRef="", block_device_mapping_v2=items)
    assert answer.status_code == 400
    await yard.settle()
    assert (await yard.ask("GET", "/servers")).json()["servers"] == []
    assert await yard.volume_status(good) == "available"
    assert await used(yard) == (0, 0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"imageRef": "", "block_device_mapping_v2": [blank(1)]}, "Boot sequence"),
        ({"block_device_mapping_v2": [blank(1, boot_index=2)]}, "Boot sequence"),
        ({"imageRef": "22222222-2222-2222-2222-222222222222"}, "Can not find requested image"),
        ({"flavorRef": "nothing"}, "Flavor nothing could not be found"),
        ({"availability_zone": "mars"}, "availability zone is not available"),
        ({"key_name": "nobodys"}, "nobodys"),
        ({"config_drive": True}, "Config drives are not built"),
    ],
)
async def test_request_that_makes_no_sense_is_400(
    yard: Yard, wrong: dict[str, Any], words: str
) -> None:
    answer = await post(yard, **wrong)
    assert answer.status_code == 400
    assert words in answer.text
    assert (await yard.ask("GET", "/servers")).json()["servers"] == []


async def test_quota_is_403_and_counts_servers_in_error(yard: Yard) -> None:
    yard.hypervisor().knobs.fail("define", Conflict("No."), times=10)
    for _ in range(10):
        await yard.make_server()
    answer = await post(yard)
    assert answer.status_code == 403
    assert "Quota exceeded for instances" in answer.text
    listed = (await yard.ask("GET", "/servers/detail")).json()["servers"]
    assert {server["status"] for server in listed} == {"ERROR"}
    await yard.ask("DELETE", f"/servers/{listed[0]['id']}")
    await yard.settle()
    assert (await post(yard)).status_code == 202
    await yard.settle()


async def test_as_many_servers_as_the_quota_allows(yard: Yard) -> None:
    answer = await post(yard, min_count=2, max_count=12)
    assert answer.status_code == 202
    await yard.settle()
    names = [one["name"] for one in (await yard.ask("GET", "/servers")).json()["servers"]]
    assert len(names) == 10
    assert {"s-1", "s-10"} <= set(names)


async def test_no_host_with_room_is_error_with_a_fault_that_says_so(yard: Yard) -> None:
    body = {"flavor": {"name": "vast", "ram": 10**8, "vcpus": 1, "disk": 1, "id": "vast"}}
    assert (await yard.ask("POST", "/flavors", body, who="admin")).status_code == 200
    body = {"quota_set": {"ram": -1}}
    project = yard.compute_project
    await yard.ask("PUT", f"/os-quota-sets/{project}", body, who="admin")
    server_id = await yard.make_server(flavorRef="vast")
    server = await yard.server(server_id)
    assert server["status"] == "ERROR"
    assert server["fault"]["message"].startswith("No valid host was found.")
    assert server["OS-EXT-SRV-ATTR:host"] in (None, "")
    assert await used(yard) == (0, 1)
    assert await yard.actions(server_id) == [("create", "Error")]


async def test_failed_start_is_error_and_frees_all_that_was_taken(yard: Yard) -> None:
    named = await yard.make_volume()
    items = [existing(named, boot_index=-1), blank(1)]
    yard.hypervisor().knobs.fail("power_on", Conflict("The hypervisor says no."))
    server_id = await yard.make_server(block_device_mapping_v2=items)
    server = await yard.server(server_id)
    assert server["status"] == "ERROR"
    assert server["fault"]["message"] == "The hypervisor says no."
    assert await yard.volume_status(named) == "available"
    volumes = (await yard.volume_api("GET", "/volumes"))["volumes"]
    assert [volume["id"] for volume in volumes] == [named]
    assert await yard.agents["host1"].list_servers() == []
    assert await yard.connections() == []
    assert await used(yard) == (0, 1)


async def test_disabled_host_gets_no_server(yard: Yard) -> None:
    service = (await yard.ask("GET", "/os-services", who="admin")).json()["services"]
    compute = next(one for one in service if one["binary"] == "nova-compute")
    body = {"status": "disabled"}
    await yard.ask("PUT", f"/os-services/{compute['id']}", body, who="admin")
    server_id = await yard.make_server()
    assert (await yard.server(server_id))["fault"]["message"].startswith("No valid host")
