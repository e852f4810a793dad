"""Attaching a volume: the checks, the order of the calls, and what a failure leaves."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from mooring.errors import Conflict, Unavailable
from mooring.saga.tables import SagaRow
from tests.compute.rebuilding import Between
from tests.compute.yard import Yard

pytestmark = pytest.mark.anyio


async def test_attached_volume_is_in_use_and_in_the_guest(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    answer = await yard.attach(server_id, volume_id)
    assert answer.status_code == 200
    assert answer.json()["volumeAttachment"] == {
        "id": volume_id,
        "volumeId": volume_id,
        "serverId": server_id,
        "device": "/dev/vdb",
        "tag": None,
        "delete_on_termination": False,
    }
    await yard.settle()
    assert await yard.volume_status(volume_id) == "in-use"
    assert await yard.disks(server_id) == [volume_id]
    assert await yard.actions(server_id) == [("create", None), ("attach_volume", None)]


async def test_attach_takes_at_most_sixteen_commits(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    before = sum(store.commits for store in yard.stores.values())
    await yard.attach(server_id, volume_id)
    await yard.settle()
    assert sum(store.commits for store in yard.stores.values()) - before <= 16


async def test_attach_from_2_101_answers_without_a_body(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    answer = await yard.attach(server_id, volume_id, version="2.101")
    assert (answer.status_code, answer.content) == (202, b"")
    await yard.settle()
    assert await yard.volume_status(volume_id) == "in-use"


async def test_answered_attach_has_an_attachment_that_the_delete_guard_finds(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    yard.hypervisor().knobs.hold("plug")
    await yard.attach(server_id, volume_id)
    shown = await yard.attachments(server_id)
    assert shown[0]["attachment_id"]
    found = await yard.volume_api("GET", f"/attachments/{shown[0]['attachment_id']}")
    assert found["attachment"]["instance"] == server_id
    yard.hypervisor().knobs.release("plug")
    await yard.settle()


async def test_attach_twice_is_refused(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    await yard.attach(server_id, volume_id)
    await yard.settle()
    assert (await yard.attach(server_id, volume_id)).status_code == 400
    other_id = await yard.make_server(name="other")
    assert (await yard.attach(other_id, volume_id)).status_code == 400
    assert await yard.attachments(other_id) == []


async def test_attach_to_what_is_not_there_is_404(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    nobody = "11111111-1111-1111-1111-111111111111"
    assert (await yard.attach(nobody, volume_id)).status_code == 404
    assert (await yard.attach(server_id, nobody)).status_code == 404
    assert (await yard.attach(server_id, volume_id, who="stranger")).status_code == 404


async def test_attach_of_a_borrowed_volume_is_refused_without_a_trace(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    await yard.volume_api("POST", f"/volumes/{volume_id}/action", {"os-reserve": None})
    answer = await yard.attach(server_id, volume_id)
    assert answer.status_code == 400
    assert await yard.attachments(server_id, "2.1") == []
    assert await yard.actions(server_id) == [("create", None)]
    assert await yard.volume_status(volume_id) == "attaching"


async def test_attach_of_a_borrowed_volume_from_2_101_ends_in_a_failed_action(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    await yard.volume_api("POST", f"/volumes/{volume_id}/action", {"os-reserve": None})
    assert (await yard.attach(server_id, volume_id, version="2.101")).status_code == 202
    await yard.settle()
    assert await yard.actions(server_id) == [("create", None), ("attach_volume", "Error")]
    assert await yard.attachments(server_id, "2.1") == []


async def test_locked_server_takes_no_volume(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    await yard.act(server_id, "lock")
    assert (await yard.attach(server_id, volume_id)).status_code == 409
    assert (await yard.attach(server_id, volume_id, who="admin")).status_code == 200
    await yard.settle()


async def test_device_name_in_use_is_409_and_a_strange_one_400(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    taken = await yard.attach(server_id, volume_id, more={"device": "/dev/vda"})
    assert taken.status_code == 409
    strange = await yard.attach(server_id, volume_id, more={"device": "vdb;rm"})
    assert strange.status_code == 400
    named = await yard.attach(server_id, volume_id, more={"device": "/dev/vdf"})
    assert named.json()["volumeAttachment"]["device"] == "/dev/vdf"
    await yard.settle()


async def test_volumes_attach_to_one_server_in_parallel(yard: Yard) -> None:
    server_id = await yard.make_server()
    volumes = [await yard.make_volume() for _ in range(3)]
    yard.hypervisor().knobs.hold("plug")
    for volume_id in volumes:
        assert (await yard.attach(server_id, volume_id)).status_code == 200
    yard.hypervisor().knobs.release("plug")
    await yard.settle()
    assert sorted(await yard.disks(server_id)) == sorted(volumes)
    names = [shown["device"] for shown in await yard.attachments(server_id)]
    assert names == ["/dev/vdb", "/dev/vdc", "/dev/vdd"]


async def test_other_operations_wait_or_are_refused_while_a_volume_comes(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    yard.hypervisor().knobs.hold("plug")
    await yard.attach(server_id, volume_id)
    path = f"/servers/{server_id}/action"
    refused = await yard.ask("POST", path, {"os-stop": None})
    assert refused.status_code == 409
    assert "Cannot 'stop' instance" in refused.text
    assert "compute.attach_volume" in refused.text
    yard.hypervisor().knobs.release("plug")
    await yard.settle()
    assert await yard.act(server_id, "os-stop") == 202
    await yard.settle()


async def test_guest_that_refuses_the_disk_leaves_volume_and_server_as_before(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    yard.hypervisor().knobs.fail("plug", Conflict("The guest has no slot left."))
    assert (await yard.attach(server_id, volume_id)).status_code == 200
    await yard.settle()
    assert await yard.volume_status(volume_id) == "available"
    assert await yard.attachments(server_id, "2.1") == []
    assert await yard.connections() == []
    assert (await yard.server(server_id))["status"] == "ACTIVE"
    assert await yard.actions(server_id) == [("create", None), ("attach_volume", "Error")]


async def test_host_that_is_silent_for_a_moment_is_asked_again(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    yard.hypervisor().knobs.fail("plug", Unavailable("The host is busy."), times=3)
    await yard.attach(server_id, volume_id)
    await yard.settle()
    assert await yard.volume_status(volume_id) == "in-use"


async def test_failed_unwinding_is_error_until_the_clean_up_is_done(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    knobs = yard.hypervisor().knobs
    knobs.fail("plug", Conflict("The guest has no slot left."))
    knobs.fail("unplug", Conflict("The guest does not let go."))
    knobs.hold("unplug")
    await yard.attach(server_id, volume_id)
    knobs.release("unplug")
    knobs.fail("unplug", Unavailable("The host is busy."), times=4)
    await yard.compute.sagas.settle(1.0)
    sick = await yard.server(server_id)
    assert (sick["status"], sick["fault"]["message"]) == ("ERROR", "The guest has no slot left.")
    assert await yard.volume_status(volume_id) == "in-use"
    assert len(await yard.attachments(server_id)) == 1
    await yard.settle()
    assert (await yard.server(server_id))["status"] == "ACTIVE"
    assert await yard.volume_status(volume_id) == "available"
    assert await yard.attachments(server_id, "2.1") == []
    assert await yard.connections() == []


async def test_unwinding_that_the_volume_services_fence_refuses_is_tried_again(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    between, knobs = Between(yard), yard.hypervisor().knobs
    knobs.fail("plug", Conflict("The guest has no slot left."))
    knobs.hold("plug")
    await yard.attach(server_id, volume_id)
    (shown,) = await yard.attachments(server_id)
    between.answer("DELETE", f"/attachments/{shown['attachment_id']}", 412)
    knobs.release("plug")
    await yard.settle()
    query = select(SagaRow.outcome).where(SagaRow.name == "compute.attach_volume")
    assert await yard.stores["compute"].read(lambda tx: tx.execute(query).scalar_one()) == "undone"
    assert (await yard.server(server_id))["status"] == "ACTIVE"
    assert await yard.volume_status(volume_id) == "available"
    assert await yard.attachments(server_id, "2.1") == []


async def test_hosts_older_than_the_attachments_flow_close_the_gate(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    await yard.close()
    yard.versions["host1"] = 23
    await yard.open()
    answer = await yard.attach(server_id, volume_id)
    assert answer.status_code == 409
    assert "version 24" in answer.text
    disk = {"source_type": "blank", "destination_type": "volume", "volume_size": 1}
    wanted: dict[str, Any] = {
        "name": "s",
        "flavorRef": "1",
        "imageRef": yard.image,
        "networks": "none",
    }
    wanted["block_device_mapping_v2"] = [{**disk, "boot_index": -1}]
    answer = await yard.ask("POST", "/servers", {"server": wanted})
    assert answer.status_code == 409
    assert await yard.volume_status(volume_id) == "available"


async def test_no_connection_data_is_kept_by_compute(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    await yard.attach(server_id, volume_id)
    await yard.settle()
    await yard.stores["compute"].close()
    kept = b"".join(
        file.read_bytes() for file in yard.directory.glob("compute.sqlite*") if file.is_file()
    )
    assert volume_id.encode() in kept
    assert b"driver_volume_type" not in kept
    assert b"simulated:" not in kept
