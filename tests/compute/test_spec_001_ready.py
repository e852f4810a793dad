"""What specs 001 says of volumes that are not ready when they are attached, by its sentences."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.compute.cloud import IMAGE, ComputeCloud
from tests.compute.listening import GUESTS, Listener

pytestmark = pytest.mark.anyio


async def downloading(cloud: ComputeCloud) -> str:
    """Begin to make a volume of an image, which the storage does not fill; return its id."""
    cloud.driver().knobs.hold("create")
    body = {"volume": {"size": 1, "imageRef": IMAGE}}
    made = (await cloud.volume_api("POST", "/volumes", body))["volume"]["id"]
    await cloud.driver().knobs.held("create")
    assert await cloud.volume_status(made) == "downloading"
    return made


async def test_a_volume_is_given_to_the_guest_once_it_is_ready_and_fully_provisioned(
    cloud: ComputeCloud,
) -> None:
    """Before we can actually connect to the volume we need to wait for the volume to be ready.

    Ours connects none before; another volume service might, so it is not asked to.
    """
    server_id = await cloud.make_server()
    volume_id = await downloading(cloud)
    listener = Listener(cloud, GUESTS)
    assert (await cloud.attach(server_id, volume_id)).status == 200
    assert await cloud.volume_status(volume_id) == "reserved"
    await cloud.compute.sagas.settle(60.0)
    assert listener.heard == ["POST attachment"]
    cloud.driver().knobs.release("create")
    await cloud.settle()
    given = ["PUT attachment with connector", "host1: PUT disks", "POST attachment complete"]
    assert listener.heard[1:] == given
    assert await cloud.disks(server_id) == [volume_id]
    assert await cloud.volume_status(volume_id) == "in-use"
    assert (await cloud.actions(server_id))[-1] == ("attach_volume", None)


async def test_a_volume_that_is_not_ready_in_time_is_not_attached_and_has_no_attachment(
    cloud: ComputeCloud,
) -> None:
    """If we timeout waiting for the volume to be ready, we fail here and delete the attachment."""
    cloud.compute.settings = replace(cloud.compute.settings, volume_ready_s=100.0)
    server_id = await cloud.make_server()
    volume_id = await downloading(cloud)
    assert (await cloud.attach(server_id, volume_id)).status == 200
    await cloud.compute.sagas.settle(200.0)
    assert (await cloud.actions(server_id))[-1] == ("attach_volume", "Error")
    assert await cloud.volume_status(volume_id) == "downloading"
    assert await cloud.attachments(server_id) == []
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    cloud.driver().knobs.release("create")
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "available"
    assert (await cloud.disks(server_id), await cloud.connections()) == ([], [])


@pytest.mark.parametrize("in_time", [True, False])
async def test_an_instance_that_first_boots_waits_for_a_volume_and_is_in_error_without_it(
    cloud: ComputeCloud, in_time: bool
) -> None:
    """If this is the first boot of the instance, that will put the instance into ERROR."""
    cloud.compute.settings = replace(cloud.compute.settings, volume_ready_s=100.0)
    volume_id = await downloading(cloud)
    listener = Listener(cloud, GUESTS)
    local = {"source_type": "image", "destination_type": "local", "uuid": IMAGE, "boot_index": 0}
    data = {"source_type": "volume", "destination_type": "volume", "uuid": volume_id}
    server = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}
    body = {"server": server | {"block_device_mapping_v2": [local, data]}}
    answer = await cloud.ask("POST", "/servers", body)
    assert answer.status == 202, answer.text
    await cloud.compute.sagas.settle(60.0 if in_time else 200.0)
    given = "PUT attachment with connector"
    assert given not in listener.heard
    cloud.driver().knobs.release("create")
    await cloud.settle()
    server_id = answer.body["server"]["id"]
    status = (await cloud.server(server_id))["status"]
    assert (status, listener.heard.count(given)) == (("ACTIVE", 1) if in_time else ("ERROR", 0))
    assert await cloud.volume_status(volume_id) == ("in-use" if in_time else "available")
    assert await cloud.connections() == ([volume_id] if in_time else [])
