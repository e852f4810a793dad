from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.errors import Conflict, Invalid
from mooring.volume.attachments import legacy, reserving
from tests.volume.cloud import SERVER, SERVER_2, UNKNOWN, VolumeCloud, connector

pytestmark = pytest.mark.anyio


async def legacy_attach(cloud: VolumeCloud, volume_id: str, server_id: str = SERVER) -> None:
    body = {"instance_uuid": server_id, "mountpoint": "/dev/vdb"}
    answer = await cloud.act(volume_id, "os-attach", body, user="compute")
    assert answer.status == 202, answer.content


async def test_the_legacy_flow_attaches_and_detaches(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    assert (await cloud.act(volume_id, "os-reserve")).status == 202
    assert await cloud.status(volume_id) == "attaching"
    body = {"connector": connector()}
    answer = await cloud.act(volume_id, "os-initialize_connection", body)
    assert answer.status == 200
    connection = answer.body["connection_info"]
    assert connection["driver_volume_type"] == "simulated"
    assert connection["data"]["access_mode"] == "rw"
    again = await cloud.act(volume_id, "os-initialize_connection", body)
    assert again.body == answer.body
    assert len(await cloud.exports()) == 1
    await legacy_attach(cloud, volume_id)
    shown = await cloud.show(volume_id)
    assert shown["status"] == "in-use"
    assert shown["metadata"] == {"readonly": "False", "attached_mode": "rw"}
    assert shown["attachments"][0]["device"] == "/dev/vdb"
    assert (await cloud.act(volume_id, "os-begin_detaching")).status == 202
    assert (
        await cloud.act(volume_id, "os-terminate_connection", body, user="compute")
    ).status == 202
    assert await cloud.exports() == set()
    assert (await cloud.act(volume_id, "os-detach", None, user="compute")).status == 202
    assert await cloud.status(volume_id) == "available"
    assert await cloud.complaints() == []


async def test_a_read_only_flag_of_false_planted_by_os_attach_is_not_read_only(
    cloud: VolumeCloud,
) -> None:
    volume_id = await cloud.make()
    await legacy_attach(cloud, volume_id)
    await cloud.act(volume_id, "os-detach", None, user="compute")
    made = await cloud.reserve(volume_id)
    assert made.body["attachment"]["attach_mode"] == "rw"


@pytest.mark.parametrize(
    ("action", "status", "code", "after"),
    [
        ("os-reserve", "available", 202, "attaching"),
        ("os-reserve", "attaching", 400, "attaching"),
        ("os-reserve", "in-use", 400, "in-use"),
        ("os-unreserve", "attaching", 202, "available"),
        ("os-unreserve", "maintenance", 202, "maintenance"),
        ("os-begin_detaching", "available", 400, "available"),
        ("os-begin_detaching", "detaching", 400, "detaching"),
        ("os-roll_detaching", "detaching", 202, "in-use"),
        ("os-roll_detaching", "available", 202, "available"),
    ],
)
async def test_each_legacy_step_has_its_states(
    cloud: VolumeCloud, action: str, status: str, code: int, after: str
) -> None:
    volume_id = await cloud.make()
    await cloud.set(volume_id, status=status, borrowed_by="test")
    assert (await cloud.act(volume_id, action)).status == code
    assert await cloud.status(volume_id) == after


async def test_detaching_begins_only_from_in_use_and_attached(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.set(volume_id, status="in-use")
    assert (await cloud.act(volume_id, "os-begin_detaching")).status == 400
    await cloud.set(volume_id, attach_status="attached", migration_status="migrating")
    assert (await cloud.act(volume_id, "os-begin_detaching")).status == 202
    assert await cloud.status(volume_id) == "in-use"
    await cloud.set(volume_id, migration_status=None)
    assert (await cloud.act(volume_id, "os-begin_detaching")).status == 202
    assert await cloud.status(volume_id) == "detaching"


@pytest.mark.parametrize(
    "body",
    [
        {"mountpoint": "/dev/vdb"},
        {"instance_uuid": SERVER},
        {"instance_uuid": SERVER, "host_name": "h", "mountpoint": "/dev/vdb"},
        {"instance_uuid": "no uuid", "mountpoint": "/dev/vdb"},
        {"instance_uuid": SERVER, "mountpoint": "/dev/vdb", "mode": "rx"},
    ],
)
async def test_a_malformed_os_attach_is_refused(cloud: VolumeCloud, body: dict[str, Any]) -> None:
    volume_id = await cloud.make()
    assert (await cloud.act(volume_id, "os-attach", body)).status == 400
    assert await cloud.status(volume_id) == "available"


async def test_os_attach_knows_who_has_it(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await legacy_attach(cloud, volume_id)
    await legacy_attach(cloud, volume_id)
    assert len(await cloud.attachments(volume_id)) == 1
    body = {"instance_uuid": SERVER_2, "mountpoint": "/dev/vdb"}
    assert (await cloud.act(volume_id, "os-attach", body)).status == 400


async def test_a_read_only_volume_is_not_attached_for_writing(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.act(volume_id, "os-update_readonly_flag", {"readonly": True})
    body = {"host_name": "host9", "mountpoint": "/dev/vdb", "mode": "rw"}
    assert (await cloud.act(volume_id, "os-attach", body)).status == 400
    assert (await cloud.act(volume_id, "os-attach", body | {"mode": "ro"})).status == 202


async def test_a_user_does_not_detach_what_a_server_uses(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = await cloud.attach(volume_id)
    other_volume = await cloud.make()
    other = await cloud.attach(other_volume, SERVER_2)
    for user in ("member", "admin"):
        for value in ({"attachment_id": attachment_id}, {"attachment_id": None}, None):
            assert (await cloud.act(volume_id, "os-detach", value, user=user)).status == 409
        body: dict[str, Any] = {"connector": {}}
        assert (
            await cloud.act(volume_id, "os-terminate_connection", body, user=user)
        ).status == 409
        mismatch = {"attachment_id": other}
        assert (await cloud.act(volume_id, "os-detach", mismatch, user=user)).status == 400
        unknown = {"attachment_id": UNKNOWN}
        assert (await cloud.act(volume_id, "os-detach", unknown, user=user)).status == 409
    force = {"attachment_id": attachment_id, "connector": connector()}
    assert (await cloud.act(volume_id, "os-force_detach", force, user="member")).status == 403
    assert (await cloud.act(volume_id, "os-force_detach", force, user="admin")).status == 409
    assert await cloud.attachments(volume_id) == {attachment_id: "attached"}
    assert (await cloud.act(volume_id, "os-force_detach", force, user="compute")).status == 202
    assert await cloud.attachments(volume_id) == {}
    assert await cloud.exports() == {(other_volume, other)}


async def test_which_of_several_must_be_said(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make(volume_type=await cloud.type_with(multiattach="<is> True"))
    first = await cloud.attach(volume_id, SERVER)
    await cloud.attach(volume_id, SERVER_2)
    cloud.compute.listed.clear()
    assert (await cloud.act(volume_id, "os-detach", None)).status == 409
    assert (await cloud.act(volume_id, "os-detach", None, user="compute")).status == 400
    gone = {"attachment_id": UNKNOWN}
    assert (await cloud.act(volume_id, "os-detach", gone, user="compute")).status == 404
    assert (await cloud.act(volume_id, "os-detach", {"attachment_id": first})).status == 202
    assert await cloud.status(volume_id) == "in-use"


@pytest.mark.parametrize("action", ["os-initialize_connection", "os-detach"])
async def test_a_volume_in_maintenance_is_left_alone(cloud: VolumeCloud, action: str) -> None:
    volume_id = await cloud.make()
    await cloud.set(volume_id, status="maintenance")
    value = {"connector": connector()} if "connection" in action else None
    assert (await cloud.act(volume_id, action, value)).status == 400


async def test_an_initialize_that_fails_leaves_no_export(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    cloud.storage.knobs.fail("export", Invalid("No such host."))
    body = {"connector": connector()}
    assert (await cloud.act(volume_id, "os-initialize_connection", body)).status == 400
    assert (await cloud.act(volume_id, "os-initialize_connection", {"connector": {}})).status == 400
    assert await cloud.exports() == set()
    assert (await cloud.act(volume_id, "os-initialize_connection", body)).status == 200
    cloud.storage.knobs.fail("unexport", Conflict("Busy."))
    assert (await cloud.act(volume_id, "os-terminate_connection", body)).status == 409
    assert (await cloud.act(volume_id, "os-terminate_connection", body)).status == 202
    assert await cloud.exports() == set()


async def test_deleting_ends_a_forgotten_legacy_export(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.act(volume_id, "os-initialize_connection", {"connector": connector()})
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await cloud.settle()
    assert await cloud.count_volumes() == 0
    assert await cloud.storage.volumes() == []


async def test_a_volume_has_no_more_exports_and_attachments_by_the_old_calls_than_by_the_new(
    cloud: VolumeCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (legacy, reserving):
        monkeypatch.setattr(module, "_MOST", 2)
    volume_id = await cloud.make(volume_type=await cloud.type_with(multiattach="<is> True"))
    hosts = [{"connector": connector(host)} for host in ("host1", "host2", "host3")]
    asked = [await cloud.act(volume_id, "os-initialize_connection", one) for one in hosts]
    assert [answer.status for answer in asked] == [200, 200, 400]
    assert "is exported to 2 hosts" in asked[2].text
    assert len(await cloud.exports()) == 2
    # One that is there may be asked for again.
    assert (await cloud.act(volume_id, "os-initialize_connection", hosts[0])).status == 200
    for server_id in (SERVER, SERVER_2):
        await legacy_attach(cloud, volume_id, server_id)
    body = {"instance_uuid": UNKNOWN, "mountpoint": "/dev/vdb"}
    refused = await cloud.act(volume_id, "os-attach", body, user="compute")
    assert refused.status == 400
    assert "has 2 attachments" in refused.text
    assert await cloud.status(volume_id) == "in-use"


async def test_a_connection_that_is_terminated_while_it_is_answered_is_409(
    cloud: VolumeCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume_id, body = await cloud.make(), {"connector": connector()}
    answered = cloud.engine.answered

    async def terminate(saga_id: str) -> None:
        await answered(saga_id)
        monkeypatch.undo()
        await cloud.act(volume_id, "os-terminate_connection", body)

    monkeypatch.setattr(cloud.engine, "answered", terminate)
    refused = await cloud.act(volume_id, "os-initialize_connection", body)
    assert refused.status == 409
    assert "was terminated while" in refused.text
    assert await cloud.exports() == set()


@pytest.mark.parametrize("names_host", [True, False])
async def test_a_termination_ends_the_export_that_still_waits_for_its_volume(
    cloud: VolumeCloud, names_host: bool
) -> None:
    volume_id, body = await cloud.make(), {"connector": connector()}
    initialize, terminate = "os-initialize_connection", "os-terminate_connection"
    assert (await cloud.act(volume_id, initialize, body)).status == 200
    async with asyncio.TaskGroup() as group:
        cloud.storage.knobs.hold("unexport")
        cloud.storage.knobs.hold("extend")
        assert (await cloud.act(volume_id, "os-extend", {"new_size": 2})).status == 202
        await cloud.storage.knobs.held("extend")
        former = group.create_task(cloud.act(volume_id, terminate, body))
        await cloud.storage.knobs.held("unexport")
        # It finds the row of the export that is just being ended.
        late = group.create_task(cloud.act(volume_id, initialize, body))
        await cloud.until_waiting("volume.connect_legacy")
        cloud.storage.knobs.release("unexport")
        assert (await former).status == 202
        asked: dict[str, Any] = body if names_host else {"connector": {}}
        ended = group.create_task(cloud.act(volume_id, terminate, asked))
        await cloud.until_waiting("volume.end_legacy")
        cloud.storage.knobs.release("extend")
        assert (await ended).status == 202
        assert (await late).status in (200, 409)
    await cloud.settle()
    assert await cloud.exports() == set()
    assert await cloud.complaints() == []
