from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from mooring.errors import Conflict, Invalid, MooringError, Unavailable
from mooring.volume.attachments import reserving
from tests.volume.cloud import SERVER, SERVER_2, UNKNOWN, VolumeCloud, connector

pytestmark = pytest.mark.anyio


async def test_the_new_flow_attaches_and_detaches(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    created = await cloud.reserve(volume_id)
    assert created.status == 200
    attachment = created.body["attachment"]
    assert attachment["status"] == "reserved"
    assert attachment["instance"] == SERVER
    assert attachment["attached_at"] == attachment["detached_at"] == ""
    assert attachment["connection_info"] == {}
    assert await cloud.status(volume_id) == "reserved"

    connected = await cloud.connect(attachment["id"])
    assert connected.status == 200
    connection = connected.body["attachment"]["connection_info"]
    assert connection["driver_volume_type"] == "simulated"
    assert connection["attachment_id"] == attachment["id"]
    assert connection["volume_id"] == volume_id
    assert connection["access_mode"] == "rw"
    assert "data" not in connection
    assert await cloud.status(volume_id) == "attaching"
    assert await cloud.exports() == {(volume_id, attachment["id"])}

    completed = await cloud.complete(attachment["id"])
    assert (completed.status, completed.content) == (204, b"")
    shown = await cloud.show(volume_id)
    assert shown["status"] == "in-use"
    assert shown["metadata"]["attached_mode"] == "rw"
    (listed,) = shown["attachments"]
    assert (listed["id"], listed["attachment_id"]) == (volume_id, attachment["id"])
    assert (listed["server_id"], listed["host_name"]) == (SERVER, "host1")
    assert (await cloud.show(volume_id, user="member"))["attachments"][0]["host_name"] is None

    assert (await cloud.act(volume_id, "os-begin_detaching")).status == 202
    assert await cloud.status(volume_id) == "detaching"
    gone = await cloud.detach(attachment["id"])
    assert (gone.status, gone.body) == (200, {"attachments": []})
    assert await cloud.status(volume_id) == "available"
    assert await cloud.exports() == set()
    assert (await cloud.detach(attachment["id"])).status == 404
    assert await cloud.complaints() == []


async def test_one_that_is_attached_is_completed_again_while_its_volume_grows(
    cloud: VolumeCloud,
) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    assert (await cloud.connect(attachment_id)).status == 200
    await cloud.set(volume_id, status="extending")
    assert (await cloud.complete(attachment_id)).status == 409
    await cloud.set(volume_id, status="attaching")
    assert (await cloud.complete(attachment_id)).status == 204
    await cloud.set(volume_id, status="extending")
    assert (await cloud.complete(attachment_id)).status == 204
    assert await cloud.status(volume_id) == "extending"


async def test_one_that_is_said_to_migrate_while_it_is_detached_is_available(
    cloud: VolumeCloud,
) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    assert (await cloud.connect(attachment_id)).status == 200
    assert (await cloud.complete(attachment_id)).status == 204
    assert (await cloud.act(volume_id, "os-begin_detaching")).status == 202
    said = {"migration_status": "migrating"}
    assert (await cloud.act(volume_id, "os-reset_status", said, user="admin")).status == 202
    assert (await cloud.detach(attachment_id)).status == 200
    assert await cloud.status(volume_id) == "available"


SAME, OTHER_PROJECT = SERVER, SERVER_2


class Asking(NamedTuple):
    """What a second POST /attachments gets, and the status that the volume has then."""

    status: str
    multiattach: bool
    server: str
    code: int
    after: str


MATRIX = [
    Asking("available", False, OTHER_PROJECT, 200, "reserved"),
    Asking("available", True, OTHER_PROJECT, 200, "reserved"),
    Asking("downloading", False, OTHER_PROJECT, 200, "reserved"),
    Asking("creating", False, SAME, 400, "creating"),
    Asking("creating", True, SAME, 400, "creating"),
    Asking("reserved", False, SAME, 200, "reserved"),
    Asking("reserved", False, OTHER_PROJECT, 400, "reserved"),
    Asking("reserved", True, SAME, 200, "reserved"),
    Asking("reserved", True, OTHER_PROJECT, 400, "reserved"),
    Asking("attaching", False, SAME, 400, "attaching"),
    Asking("attaching", True, SAME, 400, "attaching"),
    Asking("attaching", False, OTHER_PROJECT, 400, "attaching"),
    Asking("in-use", False, SAME, 200, "in-use"),
    Asking("in-use", False, OTHER_PROJECT, 400, "in-use"),
    Asking("in-use", True, SAME, 200, "reserved"),
    Asking("in-use", True, OTHER_PROJECT, 200, "reserved"),
    Asking("detaching", False, SAME, 400, "detaching"),
    Asking("detaching", True, OTHER_PROJECT, 400, "detaching"),
    Asking("error", False, SAME, 400, "error"),
    Asking("error_deleting", True, SAME, 400, "error_deleting"),
    Asking("maintenance", False, SAME, 400, "maintenance"),
]


@pytest.mark.parametrize("asking", MATRIX, ids=str)
async def test_who_may_reserve_follows_from_status_and_server(
    cloud: VolumeCloud, asking: Asking
) -> None:
    volume_id = await cloud.make()
    await cloud.attach(volume_id, SAME)
    await cloud.set(volume_id, status=asking.status, multiattach=asking.multiattach)
    answer = await cloud.reserve(volume_id, asking.server)
    assert answer.status == asking.code, answer.content
    assert await cloud.status(volume_id) == asking.after
    assert len(await cloud.attachments(volume_id)) == (2 if asking.code == 200 else 1)
    if asking.code == 400:
        assert asking.status in answer.fault


async def test_a_reservation_without_a_server_is_another_servers(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    body = {"attachment": {"volume_uuid": volume_id}}
    assert (await cloud.ask("POST", "/attachments", body)).status == 200
    assert (await cloud.ask("POST", "/attachments", body)).status == 400


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
async def test_a_malformed_attachment_is_refused(cloud: VolumeCloud, body: dict[str, Any]) -> None:
    assert (await cloud.ask("POST", "/attachments", {"attachment": body})).status == 400


async def test_a_volume_has_no_attachments_without_end(
    cloud: VolumeCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserving, "_MOST", 3)
    volume_id = await cloud.make()
    statuses = [(await cloud.reserve(volume_id)).status for _ in range(4)]
    assert statuses == [200, 200, 200, 400]


async def test_a_connector_and_a_mountpoint_have_a_length(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    body = {"attachment": {"connector": {**connector(), "more": "x" * 20_000}}}
    assert (await cloud.ask("PUT", f"/attachments/{attachment_id}", body)).status == 400
    assert (await cloud.connect(attachment_id)).status == 200
    await cloud.detach(attachment_id)
    attach = {"instance_uuid": SERVER, "mountpoint": "/dev/" + "x" * 251}
    assert (await cloud.act(volume_id, "os-attach", attach)).status == 400
    assert await cloud.status(volume_id) == "available"


async def test_an_attachment_of_an_unknown_volume_is_not_found(cloud: VolumeCloud) -> None:
    assert (await cloud.reserve(UNKNOWN)).status == 404
    assert (await cloud.connect(UNKNOWN)).status == 404
    assert (await cloud.complete(UNKNOWN)).status == 404
    assert (await cloud.ask("GET", f"/attachments/{UNKNOWN}")).status == 404


@pytest.mark.parametrize("version", ["3.26", "3.0"])
async def test_attachments_exist_from_3_27(cloud: VolumeCloud, version: str) -> None:
    for method, path, body in (
        ("GET", "/attachments", None),
        ("POST", "/attachments", {"attachment": {"volume_uuid": UNKNOWN}}),
        ("DELETE", f"/attachments/{UNKNOWN}", None),
    ):
        assert (await cloud.ask(method, path, body, version=version)).status == 404


async def test_complete_exists_from_3_44_and_mode_from_3_54(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    body = {"attachment": {"volume_uuid": volume_id, "mode": "ro"}}
    assert (await cloud.ask("POST", "/attachments", body, version="3.53")).status == 400
    made = await cloud.ask("POST", "/attachments", body, version="3.54")
    assert made.body["attachment"]["attach_mode"] == "ro"
    path = f"/attachments/{made.body['attachment']['id']}/action"
    answer = await cloud.ask("POST", path, {"os-complete": {}}, version="3.43")
    assert answer.status == 404
    assert (await cloud.ask("POST", path, {"os-complete": {}}, version="3.44")).status == 204
    assert await cloud.status(volume_id) == "in-use"


async def test_a_read_only_volume_is_attached_read_only(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    answer = await cloud.act(volume_id, "os-update_readonly_flag", {"readonly": True})
    assert answer.status == 202
    assert (await cloud.show(volume_id))["metadata"]["readonly"] == "True"
    made = await cloud.reserve(volume_id, mode="rw")
    assert made.body["attachment"]["attach_mode"] == "ro"
    connected = await cloud.connect(made.body["attachment"]["id"])
    assert connected.body["attachment"]["connection_info"]["access_mode"] == "ro"


async def test_a_read_only_flag_that_says_false_is_not_read_only(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.act(volume_id, "os-update_readonly_flag", {"readonly": "False"})
    made = await cloud.reserve(volume_id)
    assert made.body["attachment"]["attach_mode"] == "rw"


async def test_creating_with_a_connector_connects_at_once(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    made = await cloud.reserve(volume_id, connector=connector())
    assert made.status == 200
    attachment = made.body["attachment"]
    assert attachment["status"] == "attaching"
    assert attachment["connection_info"]["driver_volume_type"] == "simulated"
    assert await cloud.status(volume_id) == "attaching"


@pytest.mark.parametrize("error", [Invalid("No such host."), Conflict("The pool is closed.")])
async def test_creating_with_a_connector_leaves_nothing_when_it_fails(
    cloud: VolumeCloud, error: MooringError
) -> None:
    volume_id = await cloud.make()
    cloud.storage.knobs.fail("export", error)
    answer = await cloud.reserve(volume_id, connector=connector())
    assert answer.status in (400, 409)
    assert await cloud.status(volume_id) == "available"
    assert await cloud.attachments(volume_id) == {}
    assert await cloud.exports() == set()
    assert await cloud.complaints() == []


async def test_a_failed_second_attachment_leaves_the_first_in_use(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    first = await cloud.attach(volume_id)
    cloud.storage.knobs.fail("export", Invalid("No such host."))
    assert (await cloud.reserve(volume_id, connector=connector("host2"))).status == 400
    assert await cloud.attachments(volume_id) == {first: "attached"}
    assert await cloud.status(volume_id) == "in-use"


async def test_several_servers_share_a_multiattach_volume(cloud: VolumeCloud) -> None:
    name = await cloud.type_with(multiattach="<is> True")
    volume_id = await cloud.make(volume_type=name)
    assert (await cloud.show(volume_id))["multiattach"]
    first = await cloud.attach(volume_id, SERVER)
    second = await cloud.attach(volume_id, SERVER_2)
    assert await cloud.attachments(volume_id) == {first: "attached", second: "attached"}
    await cloud.detach(first)
    assert await cloud.status(volume_id) == "in-use"
    await cloud.detach(second)
    assert await cloud.status(volume_id) == "available"


async def test_complete_works_without_a_connector_and_twice(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    assert (await cloud.complete(attachment_id)).status == 204
    assert (await cloud.complete(attachment_id)).status == 204
    shown = await cloud.ask("GET", f"/attachments/{attachment_id}")
    assert shown.body["attachment"]["status"] == "attached"
    assert shown.body["attachment"]["attached_at"] == ""
    assert await cloud.status(volume_id) == "in-use"
    # An offloaded server that comes back connects what was completed without a host.
    assert (await cloud.connect(attachment_id)).status == 200
    assert await cloud.status(volume_id) == "attaching"


async def test_deleting_a_reservation_gives_the_volume_back(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    assert (await cloud.detach(attachment_id, user="member")).status == 200
    assert await cloud.status(volume_id) == "available"
    assert cloud.storage.knobs.passed.get("unexport", 0) == 0


async def test_an_export_that_will_not_end_keeps_the_attachment(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = await cloud.attach(volume_id)
    cloud.storage.knobs.fail("unexport", Conflict("The target is busy."))
    assert (await cloud.detach(attachment_id)).status == 409
    assert await cloud.attachments(volume_id) == {attachment_id: "attached"}
    assert await cloud.complaints() == []
    assert (await cloud.detach(attachment_id)).status == 200


async def test_deleting_waits_for_a_storage_that_does_not_answer(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = await cloud.attach(volume_id)
    cloud.storage.knobs.fail("unexport", Unavailable("The host is busy."), times=3)
    answer = await cloud.drive(cloud.detach(attachment_id))
    assert answer.status == 200
    assert await cloud.status(volume_id) == "available"


async def test_others_attachments_look_absent(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = await cloud.attach(volume_id)
    asked = cloud.compute.asked
    for method, body in (
        ("GET", None),
        ("PUT", {"attachment": {"connector": connector()}}),
        ("DELETE", None),
    ):
        path = f"/attachments/{attachment_id}"
        assert (await cloud.ask(method, path, body, user="stranger")).status == 404
    assert cloud.compute.asked == asked


async def test_lists_are_filtered_and_paged_by_marker(cloud: VolumeCloud) -> None:
    name = await cloud.type_with(multiattach="<is> True")
    volume_id = await cloud.make(volume_type=name)
    for server in (SERVER, SERVER_2):
        await cloud.attach(volume_id, server)
    other_id = await cloud.make()
    reserved = (await cloud.reserve(other_id)).body["attachment"]["id"]

    async def ids(query: str, **more: Any) -> list[str]:
        answer = await cloud.ask("GET", f"/attachments?{query}", **more)
        assert set(answer.body) == {"attachments"}
        return [row["id"] for row in answer.body["attachments"]]

    everything = await ids("")
    assert len(everything) == 3
    first = await ids("limit=2")
    assert first == everything[:2]
    assert await ids(f"limit=2&marker={first[-1]}") == everything[2:]
    assert await ids(f"marker={everything[-1]}") == []
    assert await ids("status=reserved") == [reserved]
    assert await ids("attach_status=reserved") == [reserved]
    assert await ids(f"instance_id={SERVER_2}&volume_id={volume_id}") != []
    assert await ids("", user="stranger") == []
    assert await ids("all_tenants=1", user="stranger") == []
    assert (await cloud.ask("GET", f"/attachments?marker={UNKNOWN}")).status == 404
    detail = await cloud.ask("GET", "/attachments/detail")
    assert "connection_info" in detail.body["attachments"][0]


async def test_a_connection_is_shown_to_services_administrators_and_who_reserved_it(
    cloud: VolumeCloud,
) -> None:
    volume_id = await cloud.make()
    reserved = await cloud.reserve(volume_id, user="member")
    attachment_id = reserved.body["attachment"]["id"]
    assert (await cloud.connect(attachment_id, user="member")).status == 200
    seen: dict[str, list[bool]] = {}
    for user in ("member", "compute", "admin", "reader", "manager"):
        one = await cloud.ask("GET", f"/attachments/{attachment_id}", user=user, version="3.44")
        many = await cloud.ask("GET", "/attachments/detail", user=user, version="3.44")
        [listed] = many.body["attachments"]
        shown = (one.body["attachment"], listed)
        assert [each["volume_id"] for each in shown] == [volume_id] * 2
        seen[user] = [bool(each["connection_info"]) for each in shown]
    assert seen == {
        "member": [True, True],
        "compute": [True, True],
        "admin": [True, True],
        "reader": [False, False],
        "manager": [False, False],
    }
    stranger = await cloud.connect(attachment_id, user="manager")
    assert stranger.body["attachment"]["connection_info"] == {}
