from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import Conflict, Invalid
from tests.volume.dock import SERVER, SERVER_2, UNKNOWN, Dock, connector

pytestmark = pytest.mark.anyio


async def legacy_attach(dock: Dock, volume_id: str, server_id: str = SERVER) -> None:
    body = {"instance_uuid": server_id, "mountpoint": "/dev/vdb"}
    answer = await dock.act(volume_id, "os-attach", body, who="compute")
    assert answer.status == 202, answer.content


async def test_the_legacy_flow_attaches_and_detaches(dock: Dock) -> None:
    volume_id = await dock.make()
    assert (await dock.act(volume_id, "os-reserve")).status == 202
    assert await dock.status(volume_id) == "attaching"
    body = {"connector": connector()}
    answer = await dock.act(volume_id, "os-initialize_connection", body)
    assert answer.status == 200
    connection = answer.json["connection_info"]
    assert connection["driver_volume_type"] == "simulated"
    assert connection["data"]["access_mode"] == "rw"
    again = await dock.act(volume_id, "os-initialize_connection", body)
    assert again.json == answer.json
    assert len(await dock.exports()) == 1
    await legacy_attach(dock, volume_id)
    shown = await dock.show(volume_id)
    assert shown["status"] == "in-use"
    assert shown["metadata"] == {"readonly": "False", "attached_mode": "rw"}
    assert shown["attachments"][0]["device"] == "/dev/vdb"
    assert (await dock.act(volume_id, "os-begin_detaching")).status == 202
    assert (await dock.act(volume_id, "os-terminate_connection", body, who="compute")).status == 202
    assert await dock.exports() == set()
    assert (await dock.act(volume_id, "os-detach", None, who="compute")).status == 202
    assert await dock.status(volume_id) == "available"
    assert await dock.complaints() == []


async def test_a_read_only_flag_of_false_planted_by_os_attach_is_not_read_only(dock: Dock) -> None:
    volume_id = await dock.make()
    await legacy_attach(dock, volume_id)
    await dock.act(volume_id, "os-detach", None, who="compute")
    made = await dock.reserve(volume_id)
    assert made.json["attachment"]["attach_mode"] == "rw"


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
    dock: Dock, action: str, status: str, code: int, after: str
) -> None:
    volume_id = await dock.make()
    await dock.set(volume_id, status=status, borrowed_by="test")
    assert (await dock.act(volume_id, action)).status == code
    assert await dock.status(volume_id) == after


async def test_detaching_begins_only_from_in_use_and_attached(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.set(volume_id, status="in-use")
    assert (await dock.act(volume_id, "os-begin_detaching")).status == 400
    await dock.set(volume_id, attach_status="attached", migration_status="migrating")
    assert (await dock.act(volume_id, "os-begin_detaching")).status == 202
    assert await dock.status(volume_id) == "in-use"
    await dock.set(volume_id, migration_status=None)
    assert (await dock.act(volume_id, "os-begin_detaching")).status == 202
    assert await dock.status(volume_id) == "detaching"


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
async def test_a_malformed_os_attach_is_refused(dock: Dock, body: dict[str, Any]) -> None:
    volume_id = await dock.make()
    assert (await dock.act(volume_id, "os-attach", body)).status == 400
    assert await dock.status(volume_id) == "available"


async def test_os_attach_knows_who_has_it(dock: Dock) -> None:
    volume_id = await dock.make()
    await legacy_attach(dock, volume_id)
    await legacy_attach(dock, volume_id)
    assert len(await dock.attachments(volume_id)) == 1
    body = {"instance_uuid": SERVER_2, "mountpoint": "/dev/vdb"}
    assert (await dock.act(volume_id, "os-attach", body)).status == 400


async def test_a_read_only_volume_is_not_attached_for_writing(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.act(volume_id, "os-update_readonly_flag", {"readonly": True})
    body = {"host_name": "host9", "mountpoint": "/dev/vdb", "mode": "rw"}
    assert (await dock.act(volume_id, "os-attach", body)).status == 400
    assert (await dock.act(volume_id, "os-attach", body | {"mode": "ro"})).status == 202


async def test_a_user_does_not_detach_what_a_server_uses(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = await dock.attach(volume_id)
    other_volume = await dock.make()
    other = await dock.attach(other_volume, SERVER_2)
    for who in ("member", "admin"):
        for value in ({"attachment_id": attachment_id}, {"attachment_id": None}, None):
            assert (await dock.act(volume_id, "os-detach", value, who=who)).status == 409
        body: dict[str, Any] = {"connector": {}}
        assert (await dock.act(volume_id, "os-terminate_connection", body, who=who)).status == 409
        mismatch = {"attachment_id": other}
        assert (await dock.act(volume_id, "os-detach", mismatch, who=who)).status == 400
        unknown = {"attachment_id": UNKNOWN}
        assert (await dock.act(volume_id, "os-detach", unknown, who=who)).status == 409
    force = {"attachment_id": attachment_id, "connector": connector()}
    assert (await dock.act(volume_id, "os-force_detach", force, who="member")).status == 403
    assert (await dock.act(volume_id, "os-force_detach", force, who="admin")).status == 409
    assert await dock.attachments(volume_id) == {attachment_id: "attached"}
    assert (await dock.act(volume_id, "os-force_detach", force, who="compute")).status == 202
    assert await dock.attachments(volume_id) == {}
    assert await dock.exports() == {(other_volume, other)}


async def test_which_of_several_must_be_said(dock: Dock) -> None:
    volume_id = await dock.make(volume_type=await dock.type_with(multiattach="<is> True"))
    first = await dock.attach(volume_id, SERVER)
    await dock.attach(volume_id, SERVER_2)
    dock.compute.listed.clear()
    assert (await dock.act(volume_id, "os-detach", None)).status == 409
    assert (await dock.act(volume_id, "os-detach", None, who="compute")).status == 400
    gone = {"attachment_id": UNKNOWN}
    assert (await dock.act(volume_id, "os-detach", gone, who="compute")).status == 404
    assert (await dock.act(volume_id, "os-detach", {"attachment_id": first})).status == 202
    assert await dock.status(volume_id) == "in-use"


@pytest.mark.parametrize("action", ["os-initialize_connection", "os-detach"])
async def test_a_volume_in_maintenance_is_left_alone(dock: Dock, action: str) -> None:
    volume_id = await dock.make()
    await dock.set(volume_id, status="maintenance")
    value = {"connector": connector()} if "connection" in action else None
    assert (await dock.act(volume_id, action, value)).status == 400


async def test_an_initialize_that_fails_leaves_no_export(dock: Dock) -> None:
    volume_id = await dock.make()
    dock.storage.knobs.fail("export", Invalid("No such host."))
    body = {"connector": connector()}
    assert (await dock.act(volume_id, "os-initialize_connection", body)).status == 400
    assert (await dock.act(volume_id, "os-initialize_connection", {"connector": {}})).status == 400
    assert await dock.exports() == set()
    assert (await dock.act(volume_id, "os-initialize_connection", body)).status == 200
    dock.storage.knobs.fail("unexport", Conflict("Busy."))
    assert (await dock.act(volume_id, "os-terminate_connection", body)).status == 409
    assert (await dock.act(volume_id, "os-terminate_connection", body)).status == 202
    assert await dock.exports() == set()


async def test_deleting_ends_a_forgotten_legacy_export(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.act(volume_id, "os-initialize_connection", {"connector": connector()})
    assert (await dock.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await dock.engine.settle()
    assert await dock.count_volumes() == 0
    assert await dock.storage.volumes() == []
