"""Volumes while the gate of attachments is closed: they are given by the old calls (specs 001)."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import Conflict
from tests.compute.closed_gate import OldService
from tests.compute.cloud import IMAGE, ComputeCloud
from tests.compute.rebuilding import boot

pytestmark = pytest.mark.anyio
OLD = ["os-reserve", "os-initialize_connection", "os-attach"]


async def require_free(cloud: ComputeCloud, volume_id: str) -> None:
    """See that nothing of a volume is left anywhere."""
    assert await cloud.volume_status(volume_id) == "available"
    assert volume_id not in await cloud.connections()
    shown = (await cloud.volume_api("GET", f"/volumes/{volume_id}"))["volume"]
    assert shown["attachments"] == []
    assert await cloud.complaints() == []


async def test_a_volume_service_before_3_44_is_asked_by_the_old_calls(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    old = OldService(cloud)
    answer = await cloud.attach(server_id, volume_id)
    assert answer.status == 200, answer.text
    await cloud.settle()
    assert old.actions == OLD
    assert await cloud.volume_status(volume_id) == "in-use"
    assert await cloud.disks(server_id) == [volume_id]
    (listed,) = await cloud.attachments(server_id, "2.88")
    assert listed["volumeId"] == volume_id
    assert await cloud.complaints() == []
    assert (await cloud.detach(server_id, volume_id)).status == 202
    await cloud.settle()
    assert await cloud.disks(server_id) == []
    await require_free(cloud, volume_id)


async def test_a_host_that_is_too_old_closes_the_gate(cloud: ComputeCloud) -> None:
    await cloud.change_host("host1", version=23)
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    old = OldService(cloud)
    old.is_old = False
    assert (await cloud.attach(server_id, volume_id)).status == 200
    await cloud.settle()
    assert old.actions == OLD
    assert await cloud.disks(server_id) == [volume_id]
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.settle()
    await require_free(cloud, volume_id)


async def test_an_open_gate_is_noticed_and_what_came_before_stays_as_it_is(
    cloud: ComputeCloud,
) -> None:
    server_id, old = await cloud.make_server(), OldService(cloud)
    first, second = await cloud.make_volume(), await cloud.make_volume()
    assert (await cloud.attach(server_id, first)).status == 200
    await cloud.settle()
    old.is_old = False
    assert (await cloud.attach(server_id, second)).status == 200
    await cloud.settle()
    assert old.actions == [*OLD, "os-complete"]
    assert sorted(await cloud.disks(server_id)) == sorted([first, second])
    (shown,) = await cloud.attachments(server_id)
    assert shown["volumeId"] == second
    for volume_id in (first, second):
        assert (await cloud.detach(server_id, volume_id)).status == 202
        await cloud.settle()
        await require_free(cloud, volume_id)


@pytest.mark.parametrize("verb", ["plug", "plug_late"])
async def test_a_guest_that_refuses_the_disk_leaves_the_volume_free(
    cloud: ComputeCloud, verb: str
) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    OldService(cloud)
    if verb == "plug":
        cloud.hypervisor().knobs.fail("plug", Conflict("No."))
    else:
        await cloud.volume_api(
            "POST", f"/volumes/{volume_id}/action", {"os-reserve": None}, user="admin"
        )
    answer = await cloud.attach(server_id, volume_id)
    await cloud.settle()
    assert await cloud.attachments(server_id, "2.88") == []
    if verb == "plug":
        await require_free(cloud, volume_id)
    else:
        assert answer.status == 400
        assert await cloud.volume_status(volume_id) == "attaching", "another one's reservation"


async def test_a_server_boots_from_a_volume_by_the_old_calls(cloud: ComputeCloud) -> None:
    body = {"volume": {"size": 1, "imageRef": IMAGE}}
    volume_id = (await cloud.volume_api("POST", "/volumes", body))["volume"]["id"]
    await cloud.settle()
    old = OldService(cloud)
    server_id = await boot(cloud, volume_id)
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert [one for one in old.actions if one != OLD[1]] == [OLD[0], OLD[2]]
    assert await cloud.disks(server_id) == [volume_id]
    assert await cloud.volume_status(volume_id) == "in-use"
    assert await cloud.complaints() == []
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.settle()
    await require_free(cloud, volume_id)


async def test_a_volume_is_free_again_of_whose_server_no_host_was_found(
    cloud: ComputeCloud,
) -> None:
    volume_id = await cloud.make_volume(bootable=True)
    old = OldService(cloud)
    body = {"host": "host1", "binary": "nova-compute"}
    disabled = await cloud.ask("PUT", "/os-services/disable", body, user="admin", version="2.1")
    assert disabled.status == 200
    server = await cloud.server(await boot(cloud, volume_id))
    assert server["status"] == "ERROR"
    assert server["fault"]["message"].startswith("No valid host was found.")
    assert old.actions == ["os-reserve", "os-unreserve"]
    await require_free(cloud, volume_id)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_server_is_made_with_new_volumes_by_the_old_calls(
    cloud: ComputeCloud, *, fails: bool
) -> None:
    OldService(cloud)
    if fails:
        cloud.hypervisor().knobs.fail("define", Conflict("No."))
    root: dict[str, Any] = {"source_type": "image", "destination_type": "volume", "uuid": IMAGE}
    root |= {"boot_index": 0, "volume_size": 1, "delete_on_termination": True}
    server = {"name": "s", "flavorRef": "1", "networks": "none", "block_device_mapping_v2": [root]}
    answer = await cloud.ask("POST", "/servers", {"server": server})
    assert answer.status == 202, answer.text
    await cloud.settle()
    server_id = answer.body["server"]["id"]
    assert (await cloud.server(server_id))["status"] == ("ERROR" if fails else "ACTIVE")
    volumes = (await cloud.volume_api("GET", "/volumes"))["volumes"]
    assert len(volumes) == (0 if fails else 1)
    assert await cloud.complaints() == []


async def test_what_only_attachments_can_do_is_refused_while_there_are_none(
    cloud: ComputeCloud,
) -> None:
    server_id = await cloud.make_server()
    types = (await cloud.volume_api("GET", "/types", user="admin"))["volume_types"]
    specs = {"extra_specs": {"multiattach": "<is> True"}}
    await cloud.volume_api("POST", f"/types/{types[0]['id']}/extra_specs", specs, user="admin")
    volume_id = await cloud.make_volume()
    old = OldService(cloud)
    answer = await cloud.attach(server_id, volume_id, version="2.60")
    assert (answer.status, "3.44" in answer.fault) == (409, True)
    assert old.actions == []


@pytest.mark.parametrize("source", ["blank", "snapshot"])
async def test_no_server_is_made_with_a_new_volume_for_several_while_there_are_none(
    cloud: ComputeCloud, source: str
) -> None:
    """Whether one is made for a server is known once it is there."""
    shared = await cloud.make_shared_volume()
    taken = await cloud.volume_api("POST", "/snapshots", {"snapshot": {"volume_id": shared}})
    await cloud.settle()
    old = OldService(cloud)
    item: dict[str, Any] = {"source_type": source, "destination_type": "volume", "volume_size": 1}
    item |= {"volume_type": "shared"} if source == "blank" else {"uuid": taken["snapshot"]["id"]}
    disk = {"source_type": "image", "destination_type": "local", "uuid": IMAGE, "boot_index": 0}
    server = await cloud.server(await cloud.make_server(block_device_mapping_v2=[disk, item]))
    assert server["status"] == "ERROR"
    assert "is multiattach, and the volume service is older than 3.44" in server["fault"]["message"]
    assert old.actions == []
    listed = (await cloud.volume_api("GET", "/volumes"))["volumes"]
    assert [one["id"] for one in listed] == [shared]
    assert await cloud.complaints() == []
