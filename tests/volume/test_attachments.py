from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from mooring.errors import Conflict, Invalid, MooringError, Unavailable
from tests.volume.dock import (
    SERVER,
    SERVER_2,
    UNKNOWN,
    Dock,
    connector,
)

pytestmark = pytest.mark.anyio


async def test_the_new_flow_attaches_and_detaches(dock: Dock) -> None:
    volume_id = await dock.make()
    created = await dock.reserve(volume_id)
    assert created.status == 200
    attachment = created.json["attachment"]
    assert attachment["status"] == "reserved"
    assert attachment["instance"] == SERVER
    assert attachment["attached_at"] == attachment["detached_at"] == ""
    assert attachment["connection_info"] == {}
    assert await dock.status(volume_id) == "reserved"

    connected = await dock.connect(attachment["id"])
    assert connected.status == 200
    connection = connected.json["attachment"]["connection_info"]
    assert connection["driver_volume_type"] == "simulated"
    assert connection["attachment_id"] == attachment["id"]
    assert connection["volume_id"] == volume_id
    assert connection["access_mode"] == "rw"
    assert "data" not in connection
    assert await dock.status(volume_id) == "attaching"
    assert await dock.exports() == {(volume_id, attachment["id"])}

    completed = await dock.complete(attachment["id"])
    assert (completed.status, completed.content) == (204, b"")
    shown = await dock.show(volume_id)
    assert shown["status"] == "in-use"
    assert shown["metadata"]["attached_mode"] == "rw"
    (listed,) = shown["attachments"]
    assert (listed["id"], listed["attachment_id"]) == (volume_id, attachment["id"])
    assert (listed["server_id"], listed["host_name"]) == (SERVER, "host1")
    assert (await dock.show(volume_id, who="member"))["attachments"][0]["host_name"] is None

    assert (await dock.act(volume_id, "os-begin_detaching")).status == 202
    assert await dock.status(volume_id) == "detaching"
    gone = await dock.detach(attachment["id"])
    assert (gone.status, gone.json) == (200, {"attachments": []})
    assert await dock.status(volume_id) == "available"
    assert await dock.exports() == set()
    assert (await dock.detach(attachment["id"])).status == 404
    assert await dock.complaints() == []


SAME, OTHER = SERVER, SERVER_2


class Asking(NamedTuple):
    """What a second POST /attachments gets, and the status that the volume has then."""

    status: str
    multiattach: bool
    server: str
    code: int
    after: str


MATRIX = [
    Asking("available", False, OTHER, 200, "reserved"),
    Asking("available", True, OTHER, 200, "reserved"),
    Asking("downloading", False, OTHER, 200, "reserved"),
    Asking("creating", False, SAME, 400, "creating"),
    Asking("creating", True, SAME, 400, "creating"),
    Asking("reserved", False, SAME, 200, "reserved"),
    Asking("reserved", False, OTHER, 400, "reserved"),
    Asking("reserved", True, SAME, 200, "reserved"),
    Asking("reserved", True, OTHER, 400, "reserved"),
    Asking("attaching", False, SAME, 400, "attaching"),
    Asking("attaching", True, SAME, 400, "attaching"),
    Asking("attaching", False, OTHER, 400, "attaching"),
    Asking("in-use", False, SAME, 200, "in-use"),
    Asking("in-use", False, OTHER, 400, "in-use"),
    Asking("in-use", True, SAME, 200, "reserved"),
    Asking("in-use", True, OTHER, 200, "reserved"),
    Asking("detaching", False, SAME, 400, "detaching"),
    Asking("detaching", True, OTHER, 400, "detaching"),
    Asking("error", False, SAME, 400, "error"),
    Asking("error_deleting", True, SAME, 400, "error_deleting"),
    Asking("maintenance", False, SAME, 400, "maintenance"),
]


@pytest.mark.parametrize("asking", MATRIX, ids=str)
async def test_who_may_reserve_follows_from_status_and_server(dock: Dock, asking: Asking) -> None:
    volume_id = await dock.make()
    await dock.attach(volume_id, SAME)
    await dock.set(volume_id, status=asking.status, multiattach=asking.multiattach)
    answer = await dock.reserve(volume_id, asking.server)
    assert answer.status == asking.code, answer.content
    assert await dock.status(volume_id) == asking.after
    assert len(await dock.attachments(volume_id)) == (2 if asking.code == 200 else 1)
    if asking.code == 400:
        assert asking.status in answer.fault


async def test_a_reservation_without_a_server_is_another_servers(dock: Dock) -> None:
    volume_id = await dock.make()
    body = {"attachment": {"volume_uuid": volume_id}}
    assert (await dock.ask("POST", "/attachments", body)).status == 200
    assert (await dock.ask("POST", "/attachments", body)).status == 400


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"volume_uuid": "no uuid"},
        {"volume_uuid": UNKNOWN, "instance_uuid": None},
        {"volume_uuid": UNKNOWN, "instance_uuid": "no uuid"},
        {"volume_uuid": UNKNOWN, "connector": "host1"},
        {"volume_uuid": UNKNOWN, "mode": "rx"},
        {"volume_uuid": UNKNOWN, "surprise": 1},
        {"volume_uuid": UNKNOWN, "connector": {"ip": "10.0.0.1"}},
    ],
)
async def test_a_malformed_attachment_is_refused(dock: Dock, body: dict[str, Any]) -> None:
    assert (await dock.ask("POST", "/attachments", {"attachment": body})).status == 400


async def test_an_attachment_of_an_unknown_volume_is_not_found(dock: Dock) -> None:
    assert (await dock.reserve(UNKNOWN)).status == 404
    assert (await dock.connect(UNKNOWN)).status == 404
    assert (await dock.complete(UNKNOWN)).status == 404
    assert (await dock.ask("GET", f"/attachments/{UNKNOWN}")).status == 404


@pytest.mark.parametrize("version", ["3.26", "3.0"])
async def test_attachments_exist_from_3_27(dock: Dock, version: str) -> None:
    for method, path, body in (
        ("GET", "/attachments", None),
        ("POST", "/attachments", {"attachment": {"volume_uuid": UNKNOWN}}),
        ("DELETE", f"/attachments/{UNKNOWN}", None),
    ):
        assert (await dock.ask(method, path, body, version=version)).status == 404


async def test_complete_exists_from_3_44_and_mode_from_3_54(dock: Dock) -> None:
    volume_id = await dock.make()
    body = {"attachment": {"volume_uuid": volume_id, "mode": "ro"}}
    assert (await dock.ask("POST", "/attachments", body, version="3.53")).status == 400
    made = await dock.ask("POST", "/attachments", body, version="3.54")
    assert made.json["attachment"]["attach_mode"] == "ro"
    path = f"/attachments/{made.json['attachment']['id']}/action"
    answer = await dock.ask("POST", path, {"os-complete": {}}, version="3.43")
    assert answer.status == 404
    assert (await dock.ask("POST", path, {"os-complete": {}}, version="3.44")).status == 204
    assert await dock.status(volume_id) == "in-use"


async def test_a_read_only_volume_is_attached_read_only(dock: Dock) -> None:
    volume_id = await dock.make()
    answer = await dock.act(volume_id, "os-update_readonly_flag", {"readonly": True})
    assert answer.status == 202
    assert (await dock.show(volume_id))["metadata"]["readonly"] == "True"
    made = await dock.reserve(volume_id, mode="rw")
    assert made.json["attachment"]["attach_mode"] == "ro"
    connected = await dock.connect(made.json["attachment"]["id"])
    assert connected.json["attachment"]["connection_info"]["access_mode"] == "ro"


async def test_a_read_only_flag_that_says_false_is_not_read_only(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.act(volume_id, "os-update_readonly_flag", {"readonly": "False"})
    made = await dock.reserve(volume_id)
    assert made.json["attachment"]["attach_mode"] == "rw"


async def test_creating_with_a_connector_connects_at_once(dock: Dock) -> None:
    volume_id = await dock.make()
    made = await dock.reserve(volume_id, connector=connector())
    assert made.status == 200
    attachment = made.json["attachment"]
    assert attachment["status"] == "attaching"
    assert attachment["connection_info"]["driver_volume_type"] == "simulated"
    assert await dock.status(volume_id) == "attaching"


@pytest.mark.parametrize("error", [Invalid("No such host."), Conflict("The pool is closed.")])
async def test_creating_with_a_connector_leaves_nothing_when_it_fails(
    dock: Dock, error: MooringError
) -> None:
    volume_id = await dock.make()
    dock.storage.knobs.fail("export", error)
    answer = await dock.reserve(volume_id, connector=connector())
    assert answer.status in (400, 409)
    assert await dock.status(volume_id) == "available"
    assert await dock.attachments(volume_id) == {}
    assert await dock.exports() == set()
    assert await dock.complaints() == []


async def test_a_failed_second_attachment_leaves_the_first_in_use(dock: Dock) -> None:
    volume_id = await dock.make()
    first = await dock.attach(volume_id)
    dock.storage.knobs.fail("export", Invalid("No such host."))
    assert (await dock.reserve(volume_id, connector=connector("host2"))).status == 400
    assert await dock.attachments(volume_id) == {first: "attached"}
    assert await dock.status(volume_id) == "in-use"


async def test_several_servers_share_a_multiattach_volume(dock: Dock) -> None:
    name = await dock.type_with(multiattach="<is> True")
    volume_id = await dock.make(volume_type=name)
    assert (await dock.show(volume_id))["multiattach"]
    first = await dock.attach(volume_id, SERVER)
    second = await dock.attach(volume_id, SERVER_2)
    assert await dock.attachments(volume_id) == {first: "attached", second: "attached"}
    await dock.detach(first)
    assert await dock.status(volume_id) == "in-use"
    await dock.detach(second)
    assert await dock.status(volume_id) == "available"


async def test_complete_works_without_a_connector_and_twice(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = (await dock.reserve(volume_id)).json["attachment"]["id"]
    assert (await dock.complete(attachment_id)).status == 204
    assert (await dock.complete(attachment_id)).status == 204
    shown = await dock.ask("GET", f"/attachments/{attachment_id}")
    assert shown.json["attachment"]["status"] == "attached"
    assert shown.json["attachment"]["attached_at"] == ""
    assert await dock.status(volume_id) == "in-use"
    # An offloaded server that comes back connects what was completed without a host.
    assert (await dock.connect(attachment_id)).status == 200
    assert await dock.status(volume_id) == "attaching"


async def test_deleting_a_reservation_gives_the_volume_back(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = (await dock.reserve(volume_id)).json["attachment"]["id"]
    assert (await dock.detach(attachment_id, who="member")).status == 200
    assert await dock.status(volume_id) == "available"
    assert dock.storage.knobs.passed.get("unexport", 0) == 0


async def test_an_export_that_will_not_end_keeps_the_attachment(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = await dock.attach(volume_id)
    dock.storage.knobs.fail("unexport", Conflict("The target is busy."))
    assert (await dock.detach(attachment_id)).status == 409
    assert await dock.attachments(volume_id) == {attachment_id: "attached"}
    assert await dock.complaints() == []
    assert (await dock.detach(attachment_id)).status == 200


async def test_deleting_waits_for_a_storage_that_does_not_answer(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = await dock.attach(volume_id)
    dock.storage.knobs.fail("unexport", Unavailable("The host is busy."), times=3)
    answer = await dock.drive(dock.detach(attachment_id))
    assert answer.status == 200
    assert await dock.status(volume_id) == "available"


async def test_others_attachments_look_absent(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = await dock.attach(volume_id)
    asked = dock.compute.asked
    for method, body in (
        ("GET", None),
        ("PUT", {"attachment": {"connector": connector()}}),
        ("DELETE", None),
    ):
        path = f"/attachments/{attachment_id}"
        assert (await dock.ask(method, path, body, who="stranger")).status == 404
    assert dock.compute.asked == asked


async def test_lists_are_filtered_and_paged_by_marker(dock: Dock) -> None:
    name = await dock.type_with(multiattach="<is> True")
    volume_id = await dock.make(volume_type=name)
    for server in (SERVER, SERVER_2):
        await dock.attach(volume_id, server)
    other_id = await dock.make()
    reserved = (await dock.reserve(other_id)).json["attachment"]["id"]

    async def ids(query: str, **more: Any) -> list[str]:
        answer = await dock.ask("GET", f"/attachments?{query}", **more)
        assert set(answer.json) == {"attachments"}
        return [row["id"] for row in answer.json["attachments"]]

    everything = await ids("")
    assert len(everything) == 3
    first = await ids("limit=2")
    assert first == everything[:2]
    assert await ids(f"limit=2&marker={first[-1]}") == everything[2:]
    assert await ids(f"marker={everything[-1]}") == []
    assert await ids("status=reserved") == [reserved]
    assert await ids("attach_status=reserved") == [reserved]
    assert await ids(f"instance_id={SERVER_2}&volume_id={volume_id}") != []
    assert await ids("", who="stranger") == []
    assert await ids("all_tenants=1", who="stranger") == []
    assert (await dock.ask("GET", f"/attachments?marker={UNKNOWN}")).status == 404
    detail = await dock.ask("GET", "/attachments/detail")
    assert "connection_info" in detail.json["attachments"][0]
