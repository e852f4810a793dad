"""Attaching a volume: the checks, the order of the calls, and what a failure leaves."""

from __future__ import annotations

from string import ascii_lowercase
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from mooring.compute.tables import BlockDevice, Server
from mooring.errors import Conflict, Unavailable
from mooring.saga.tables import SagaRow
from tests.compute.cloud import ComputeCloud
from tests.compute.elsewhere import events
from tests.compute.rebuilding import Between

pytestmark = pytest.mark.anyio


async def test_attached_volume_is_in_use_and_in_the_guest(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    answer = await cloud.attach(server_id, volume_id)
    assert answer.status == 200
    assert answer.body["volumeAttachment"] == {
        "id": volume_id,
        "volumeId": volume_id,
        "serverId": server_id,
        "device": "/dev/vdb",
        "tag": None,
        "delete_on_termination": False,
    }
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "in-use"
    assert await cloud.disks(server_id) == [volume_id]
    assert await cloud.actions(server_id) == [("create", None), ("attach_volume", None)]


async def test_attach_takes_at_most_twelve_commits(any_cloud: ComputeCloud) -> None:
    cloud = any_cloud
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    before = sum(store.commits for store in cloud.stores.values())
    await cloud.attach(server_id, volume_id)
    await cloud.settle()
    assert sum(store.commits for store in cloud.stores.values()) - before <= 12


async def test_attach_from_2_101_answers_without_a_body(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    answer = await cloud.attach(server_id, volume_id, version="2.101")
    assert (answer.status, answer.content) == (202, b"")
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "in-use"


async def test_answered_attach_has_an_attachment_that_the_delete_guard_finds(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    cloud.hypervisor().knobs.hold("plug")
    await cloud.attach(server_id, volume_id)
    shown = await cloud.attachments(server_id)
    assert shown[0]["attachment_id"]
    found = await cloud.volume_api("GET", f"/attachments/{shown[0]['attachment_id']}")
    assert found["attachment"]["instance"] == server_id
    cloud.hypervisor().knobs.release("plug")
    await cloud.settle()


async def test_attach_twice_is_refused(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_attached()
    assert (await cloud.attach(server_id, volume_id)).status == 400
    other_id = await cloud.make_server(name="other")
    assert (await cloud.attach(other_id, volume_id)).status == 400
    assert await cloud.attachments(other_id) == []


async def test_attach_to_what_is_not_there_is_404(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    nobody = "11111111-1111-1111-1111-111111111111"
    assert (await cloud.attach(nobody, volume_id)).status == 404
    assert (await cloud.attach(server_id, nobody)).status == 404
    assert (await cloud.attach(server_id, volume_id, user="stranger")).status == 404


async def test_attach_of_a_borrowed_volume_is_refused_without_a_trace(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    await cloud.volume_api("POST", f"/volumes/{volume_id}/action", {"os-reserve": None})
    answer = await cloud.attach(server_id, volume_id)
    assert answer.status == 400
    assert await cloud.attachments(server_id, "2.1") == []
    assert await cloud.actions(server_id) == [("create", None)]
    assert await cloud.volume_status(volume_id) == "attaching"


async def test_attach_of_a_borrowed_volume_from_2_101_ends_in_a_failed_action(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    await cloud.volume_api("POST", f"/volumes/{volume_id}/action", {"os-reserve": None})
    assert (await cloud.attach(server_id, volume_id, version="2.101")).status == 202
    await cloud.settle()
    assert await cloud.actions(server_id) == [("create", None), ("attach_volume", "Error")]
    assert await cloud.attachments(server_id, "2.1") == []


async def test_locked_server_takes_no_volume(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    await cloud.act(server_id, "lock")
    assert (await cloud.attach(server_id, volume_id)).status == 409
    assert (await cloud.attach(server_id, volume_id, user="admin")).status == 200
    await cloud.settle()


async def test_device_name_in_use_is_409_and_a_strange_one_400(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    taken = await cloud.attach(server_id, volume_id, more={"device": "/dev/vda"})
    assert taken.status == 409
    strange = await cloud.attach(server_id, volume_id, more={"device": "vdb;rm"})
    assert strange.status == 400
    named = await cloud.attach(server_id, volume_id, more={"device": "/dev/vdf"})
    assert named.body["volumeAttachment"]["device"] == "/dev/vdf"
    await cloud.settle()


@pytest.mark.parametrize("state", [{}, {"vm_state": "shelved_offloaded", "host": None}])
async def test_a_server_gets_no_more_disks_than_a_guest_may_have(
    any_cloud: ComputeCloud, state: dict[str, Any]
) -> None:
    """Wherever it is: one that was put away would not start with them."""
    server_id, volume_id = await any_cloud.make_server(), await any_cloud.make_volume()
    now = any_cloud.clock.now()
    disk = {"server_id": server_id, "state": "attached", "created_at": now, "updated_at": now}
    kind = {"source_type": "volume", "destination_type": "volume"}
    rows = [
        {
            **disk,
            **kind,
            "id": str(uuid4()),
            "volume_id": str(uuid4()),
            "device_name": f"/dev/vd{at}",
        }
        for at in ascii_lowercase[1:]
    ]

    def fill(tx: Session) -> None:
        tx.execute(insert(BlockDevice), rows)
        if state:
            tx.execute(update(Server).where(Server.id == server_id).values(**state))

    await any_cloud.compute.store.write(fill)
    refused = await any_cloud.attach(server_id, volume_id)
    assert (refused.status, "(26)" in refused.text) == (403, True)
    assert await any_cloud.volume_status(volume_id) == "available"


async def test_volumes_attach_to_one_server_in_parallel(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    volumes = [await cloud.make_volume() for _ in range(3)]
    cloud.hypervisor().knobs.hold("plug")
    for volume_id in volumes:
        assert (await cloud.attach(server_id, volume_id)).status == 200
    cloud.hypervisor().knobs.release("plug")
    await cloud.settle()
    assert sorted(await cloud.disks(server_id)) == sorted(volumes)
    names = [shown["device"] for shown in await cloud.attachments(server_id)]
    assert names == ["/dev/vdb", "/dev/vdc", "/dev/vdd"]


async def test_other_operations_wait_or_are_refused_while_a_volume_comes(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    cloud.hypervisor().knobs.hold("plug")
    await cloud.attach(server_id, volume_id)
    path = f"/servers/{server_id}/action"
    refused = await cloud.ask("POST", path, {"os-stop": None})
    assert refused.status == 409
    assert "Cannot 'stop' instance" in refused.text
    assert "compute.attach_volume" in refused.text
    cloud.hypervisor().knobs.release("plug")
    await cloud.settle()
    assert await cloud.act(server_id, "os-stop") == 202
    await cloud.settle()


async def test_guest_that_refuses_the_disk_leaves_volume_and_server_as_before(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    cloud.hypervisor().knobs.fail("plug", Conflict("The guest has no slot left."))
    assert (await cloud.attach(server_id, volume_id)).status == 200
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "available"
    assert await cloud.attachments(server_id, "2.1") == []
    assert await cloud.connections() == []
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert await cloud.actions(server_id) == [("create", None), ("attach_volume", "Error")]
    [*_, (_, _, details)] = await events(cloud, server_id)
    assert str(details).startswith(f"Volume {volume_id} was not attached; the server is as it was.")


async def test_host_that_is_silent_for_a_moment_is_asked_again(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    cloud.hypervisor().knobs.fail("plug", Unavailable("The host is busy."), times=3)
    await cloud.attach(server_id, volume_id)
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "in-use"


async def test_failed_unwinding_is_error_until_the_clean_up_is_done(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    knobs = cloud.hypervisor().knobs
    knobs.fail("plug", Conflict("The guest has no slot left."))
    knobs.fail("unplug", Conflict("The guest does not let go."))
    knobs.hold("unplug")
    await cloud.attach(server_id, volume_id)
    knobs.release("unplug")
    knobs.fail("unplug", Unavailable("The host is busy."), times=4)
    await cloud.compute.sagas.settle(1.0)
    sick = await cloud.server(server_id)
    assert sick["status"] == "ERROR"
    assert sick["fault"]["message"] == (
        f"The volume was not attached. The server is in ERROR until volume {volume_id} is taken "
        "from it, which goes on by itself; a hard reboot tries at once. On host1 it failed: The "
        "guest has no slot left."
    )
    assert await cloud.volume_status(volume_id) == "in-use"
    assert len(await cloud.attachments(server_id)) == 1
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert await cloud.volume_status(volume_id) == "available"
    assert await cloud.attachments(server_id, "2.1") == []
    assert await cloud.connections() == []


async def test_unwinding_that_the_volume_services_fence_refuses_is_tried_again(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    between, knobs = Between(cloud), cloud.hypervisor().knobs
    knobs.fail("plug", Conflict("The guest has no slot left."))
    knobs.hold("plug")
    await cloud.attach(server_id, volume_id)
    (shown,) = await cloud.attachments(server_id)
    between.answer("DELETE", f"/attachments/{shown['attachment_id']}", 412)
    knobs.release("plug")
    await cloud.settle()
    query = select(SagaRow.outcome).where(SagaRow.name == "compute.attach_volume")
    assert await cloud.stores["compute"].read(lambda tx: tx.execute(query).scalar_one()) == "undone"
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert await cloud.volume_status(volume_id) == "available"
    assert await cloud.attachments(server_id, "2.1") == []
