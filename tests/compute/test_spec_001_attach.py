"""What specs 001 says of new servers, and of what is remembered: each test names its sentence."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mooring.errors import Conflict, Unavailable
from tests.compute.cloud import ComputeCloud
from tests.compute.listening import GUESTS, Listener

pytestmark = pytest.mark.anyio
_IN_ROW = ["PUT attachment with connector", "POST attachment complete"]


def existing(volume_id: str) -> dict[str, Any]:
    """Return the block device of a server that boots from a volume."""
    root = {"source_type": "volume", "destination_type": "volume", "boot_index": 0}
    return {**root, "uuid": volume_id}


def blank() -> dict[str, Any]:
    """Return the block device of a volume that is made with the server."""
    return {"source_type": "blank", "destination_type": "volume", "volume_size": 1}


async def held(cloud: ComputeCloud, volume_id: str) -> list[tuple[str, str]]:
    """Return the id and the status of each attachment of a volume."""
    listed = await cloud.volume_api("GET", f"/attachments?volume_id={volume_id}")
    return [(one["id"], one["status"]) for one in listed["attachments"]]


async def test_volumes_are_attached_during_spawning_an_instance(cloud: ComputeCloud) -> None:
    """Attach a volume to an instance, including during spawning an instance.

    The one that is there is reserved before the API call returns; the guest starts once both are
    attached.
    """
    volume_id = await cloud.make_volume(bootable=True)
    cloud.driver().knobs.hold("create")
    listener = Listener(cloud, GUESTS)
    server = {"name": "s", "flavorRef": "1", "imageRef": "", "networks": "none"}
    server |= {"block_device_mapping_v2": [existing(volume_id), blank()]}
    answer = await cloud.ask("POST", "/servers", {"server": server})
    assert answer.status == 202, answer.text
    assert listener.heard == ["POST attachment"]
    assert [status for _, status in await held(cloud, volume_id)] == ["reserved"]
    cloud.driver().knobs.release("create")
    await cloud.settle()
    assert listener.heard[1:] == ["POST attachment", *_IN_ROW, *_IN_ROW, "host1: PUT servers"]
    shown = await cloud.attachments(answer.body["server"]["id"])
    assert sorted(one["attachment_id"] for one in shown) == sorted({*listener.ids} - {""})
    for one in shown:
        assert await held(cloud, one["volumeId"]) == [(one["attachment_id"], "attached")]


async def test_a_multi_attach_volume_is_attached_by_no_creation_below_2_60(
    cloud: ComputeCloud,
) -> None:
    """For safety we shouldn't allow any attachments if multi_attach=True, until we support it."""
    volume_id = await cloud.make_shared_volume()
    mark = {"os-set_bootable": {"bootable": True}}
    await cloud.volume_api("POST", f"/volumes/{volume_id}/action", mark)
    server = {"name": "s", "flavorRef": "1", "imageRef": "", "networks": "none"}
    body = {"server": server | {"block_device_mapping_v2": [existing(volume_id)]}}
    answer = await cloud.ask("POST", "/servers", body, version="2.59")
    assert answer.status == 400
    assert "multiattach" in answer.text
    await cloud.settle()
    assert (await cloud.ask("GET", "/servers")).body["servers"] == []
    assert await held(cloud, volume_id) == []
    assert (await cloud.ask("POST", "/servers", body, version="2.60")).status == 202
    await cloud.settle()
    assert [status for _, status in await held(cloud, volume_id)] == ["attached"]


async def test_a_volume_that_is_not_ready_in_time_puts_an_instance_that_first_boots_into_error(
    cloud: ComputeCloud,
) -> None:
    """If we timeout waiting for the volume to be ready, we fail here and delete the attachment.

    If this is the first boot of the instance, that will put the instance into the ERROR state.
    """
    cloud.compute.settings = replace(cloud.compute.settings, volume_ready_s=100.0)
    volume_id = await cloud.make_volume(bootable=True)
    cloud.driver().knobs.hold("create")
    server = {"name": "s", "flavorRef": "1", "imageRef": "", "networks": "none"}
    server |= {"block_device_mapping_v2": [existing(volume_id), blank()]}
    answer = await cloud.ask("POST", "/servers", {"server": server})
    assert [status for _, status in await held(cloud, volume_id)] == ["reserved"]
    await cloud.compute.sagas.settle(200.0)
    cloud.driver().knobs.release("create")
    await cloud.settle()
    shown = await cloud.server(answer.body["server"]["id"])
    assert shown["status"] == "ERROR"
    assert "fault" in shown
    assert await held(cloud, volume_id) == []
    assert await cloud.volume_status(volume_id) == "available"


@pytest.mark.parametrize("boots", [False, True], ids=["attach", "spawn"])
async def test_any_issue_in_the_rollback_puts_the_instance_into_the_error_state(
    cloud: ComputeCloud, boots: bool
) -> None:
    """If there are any issues in the rollback, put instance into the ERROR state."""
    volume_id = await cloud.make_volume(bootable=boots)
    if boots:
        for step, why in (("forward/after", "It does not boot."), ("back/before", "It stays.")):
            point = f"compute.create_server/spawn_guest/{step}"
            cloud.probe.arm(point, lambda why=why: Conflict(why))
        mapping = [existing(volume_id)]
        server_id = await cloud.make_server(imageRef="", block_device_mapping_v2=mapping)
    else:
        server_id = await cloud.make_server()
        knobs = cloud.hypervisor().knobs
        knobs.fail("plug", Conflict("It does not connect."))
        knobs.fail("unplug", Conflict("It does not disconnect."))
        knobs.fail("unplug", Unavailable("The host is busy."), times=4)
        await cloud.attach(server_id, volume_id)
        await cloud.compute.sagas.settle(1.0)
    assert (await cloud.server(server_id))["status"] == "ERROR"
    assert [status for _, status in await held(cloud, volume_id)] == ["attached"]
    await cloud.settle()


# -- what is remembered ------------------------------------------------------------------------


async def test_the_connection_info_is_stored_no_longer(cloud: ComputeCloud) -> None:
    """Instead we just store the attachment_id for each host the volume is attached to."""
    server_id, volume_id = await cloud.make_attached()
    (shown,) = await cloud.attachments(server_id)
    await cloud.stores["compute"].close()
    kept = b"".join(
        file.read_bytes()
        for file in cloud.settings.state_path.glob("compute.sqlite*")
        if file.is_file()
    )
    assert volume_id.encode() in kept
    assert shown["attachment_id"].encode() in kept
    assert b"driver_volume_type" not in kept
    assert b"simulated:" not in kept


async def test_attachments_that_no_block_device_knows_are_nobodys_to_delete(
    cloud: ComputeCloud,
) -> None:
    """One that names a server, and that somebody else made, outlives what is done to the server.

    Also what is taken back for the very volume. With the server go all that name it.
    """
    server_id, other_id = await cloud.make_attached()
    volume_id = await cloud.make_volume()
    made = {"attachment": {"volume_uuid": volume_id, "instance_uuid": server_id}}
    strange = (await cloud.volume_api("POST", "/attachments", made))["attachment"]["id"]
    cloud.hypervisor().knobs.fail("plug", Conflict("The guest has no slot left."))
    assert (await cloud.attach(server_id, volume_id)).status == 200
    await cloud.settle()
    assert await held(cloud, volume_id) == [(strange, "reserved")]
    for action, value in (("reboot", {"type": "HARD"}), ("os-stop", None), ("os-start", None)):
        assert await cloud.act(server_id, action, value) == 202
        await cloud.settle()
    assert (await cloud.detach(server_id, other_id)).status == 202
    await cloud.settle()
    assert await held(cloud, other_id) == []
    assert await held(cloud, volume_id) == [(strange, "reserved")]
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.settle()
    assert await held(cloud, volume_id) == []
