"""Shares of servers: attached, shown, detached; what is refused, and that it leaves no trace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.compute.shares import server_shares
from mooring.errors import Invalid, Unavailable
from tests.compute.sharing import UNKNOWN, SharingCloud

pytestmark = pytest.mark.anyio
ADDRESS = "192.0.2.1"


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[SharingCloud]:
    """Compute with the share service and one simulated host, which the doctor finds well."""
    async with SharingCloud(tmp_path, notifications=("keep",)) as opened:
        yield opened
        assert await opened.complaints() == []


async def test_an_attached_share_has_a_locked_rule_for_the_host_and_no_mount(
    cloud: SharingCloud,
) -> None:
    server_id, share_id = await cloud.make_stopped(), await cloud.make_share()
    answer = await cloud.add_share(server_id, share_id)
    assert answer.status == 201
    assert answer.body == {"share": {"share_id": share_id, "status": "attaching", "tag": share_id}}
    await cloud.settle()
    assert await cloud.shares(server_id) == {share_id: "inactive"}
    assert await cloud.rules(share_id) == {ADDRESS: "active"}
    assert await cloud.mounts() == []
    # Its owner sees that somebody is let in, not who; and cannot delete it from under the server.
    listed = await cloud.share_api("GET", f"/share-access-rules?share_id={share_id}")
    [rule] = listed.body["access_list"]
    assert rule["access_to"] == "******"
    assert (await cloud.share_api("DELETE", f"/shares/{share_id}")).status == 403
    assert ("attach_share", None) in await cloud.actions(server_id)


async def test_a_detached_share_leaves_no_rule_and_no_lock(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_shared()
    answer = await cloud.remove_share(server_id, share_id)
    assert (answer.status, answer.content) == (200, b"")
    await cloud.settle()
    assert await cloud.shares(server_id) == {}
    assert await cloud.rules(share_id) == {}
    assert await cloud.places() == []
    assert ("detach_share", None) in await cloud.actions(server_id)
    assert (await cloud.share_api("DELETE", f"/shares/{share_id}")).status == 202
    await cloud.settle()


async def test_a_share_is_detached_only_once_its_rule_is_gone(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_shared()
    cloud.storage().knobs.fail("revoke", Unavailable("later"), times=20)
    await cloud.remove_share(server_id, share_id)
    await cloud.pass_time(5)
    await cloud.until_rules(share_id, {ADDRESS: "denying"})
    assert await cloud.shares(server_id) == {share_id: "detaching"}
    await cloud.settle()
    assert await cloud.shares(server_id) == {}


async def test_administrators_see_uuid_and_export_of_one_share_but_not_in_a_list(
    cloud: SharingCloud,
) -> None:
    server_id, share_id = await cloud.make_shared()
    path = f"/servers/{server_id}/shares"
    shown = (await cloud.ask("GET", f"{path}/{share_id}", user="admin")).body["share"]
    assert set(shown) == {"share_id", "status", "tag", "uuid", "export_location"}
    [listed] = (await cloud.ask("GET", path, user="admin")).body["shares"]
    assert set(listed) == {"share_id", "status", "tag"}
    assert (await cloud.ask("GET", f"{path}/{share_id}")).body["share"] == listed
    assert (await cloud.ask("GET", f"{path}?limit=1")).status == 400
    assert (await cloud.ask("GET", path, version="2.96")).status == 404
    assert (await cloud.ask("GET", f"{path}/{UNKNOWN}")).status == 404
    assert (await cloud.ask("DELETE", f"{path}/{UNKNOWN}")).status == 404


async def test_an_export_for_administrators_is_given_to_no_guest(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_stopped(), await cloud.make_share()
    cloud.list_for_administrators("192.0.2.99:/own")
    assert (await cloud.add_share(server_id, share_id, user="admin")).status == 201
    await cloud.settle()
    path = f"/servers/{server_id}/shares/{share_id}"
    shown = (await cloud.ask("GET", path, user="admin")).body["share"]
    assert shown["export_location"] != "192.0.2.99:/own"
    assert (await cloud.power(server_id, "os-start"))["status"] == "ACTIVE"
    assert await cloud.shares(server_id) == {share_id: "active"}


@pytest.mark.parametrize(
    ("path", "told", "said"),
    [
        ("", {"share_proto": "CIFS"}, "NFS and CEPHFS only"),
        ("/export_locations", {"export_locations": []}, "no export location"),
    ],
)
async def test_a_share_that_no_host_can_mount_is_refused(
    cloud: SharingCloud, path: str, told: dict[str, Any], said: str
) -> None:
    server_id, share_id = await cloud.make_stopped(), await cloud.make_share()

    def change(answer: dict[str, Any]) -> dict[str, Any]:
        return told if path else {"share": {**answer["share"], **told}}

    cloud.tell(f"/shares/{share_id}{path}", change)
    answer = await cloud.add_share(server_id, share_id)
    assert (answer.status, await cloud.shares(server_id)) == (409, {})
    assert said in answer.text
    assert await cloud.rules(share_id) == {}


async def test_readers_see_shares_and_change_none(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_shared()
    assert (await cloud.ask("GET", f"/servers/{server_id}/shares", user="reader")).status == 200
    assert (await cloud.remove_share(server_id, share_id, user="reader")).status == 403
    assert (await cloud.add_share(server_id, UNKNOWN, user="reader")).status == 403


async def test_a_share_is_attached_under_a_tag(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_stopped(), await cloud.make_share()
    answer = await cloud.add_share(server_id, share_id, more={"tag": "papers"})
    assert answer.body["share"]["tag"] == "papers"
    await cloud.settle()
    await cloud.power(server_id, "os-start")
    assert await cloud.guest_tags(server_id) == ["papers"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"share_id": "no-uuid"}, 400),
        ({"tag": "papers"}, 400),
        ({"share_id": UNKNOWN, "tag": ""}, 400),
        ({"share_id": UNKNOWN, "tag": "a_b"}, 400),
        ({"share_id": UNKNOWN, "tag": "a" * 37}, 400),
        ({"share_id": UNKNOWN, "tag": "a" * 256}, 400),
        ({"share_id": UNKNOWN, "more": 1}, 400),
        ({"share_id": UNKNOWN}, 404),
    ],
)
async def test_bad_requests_leave_no_trace(
    cloud: SharingCloud, body: dict[str, Any], status: int
) -> None:
    server_id = await cloud.make_stopped()
    before = await cloud.actions(server_id)
    answer = await cloud.ask("POST", f"/servers/{server_id}/shares", {"share": body})
    assert answer.status == status, answer.text
    assert await cloud.shares(server_id) == {}
    assert await cloud.actions(server_id) == before


async def test_a_server_that_runs_gets_no_share(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_server(), await cloud.make_share()
    answer = await cloud.add_share(server_id, share_id)
    assert answer.status == 409
    assert "vm_state active" in answer.text
    assert await cloud.rules(share_id) == {}


async def test_a_share_of_a_server_that_runs_is_not_detached(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_shared()
    await cloud.power(server_id, "os-start")
    assert (await cloud.remove_share(server_id, share_id)).status == 409
    assert await cloud.shares(server_id) == {share_id: "active"}


async def test_the_same_share_or_tag_twice_is_refused(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_shared()
    again = await cloud.add_share(server_id, share_id, more={"tag": "other"})
    assert again.status == 409
    assert "attached" in again.text
    other = await cloud.make_share()
    same_tag = await cloud.add_share(server_id, other, more={"tag": share_id})
    assert same_tag.status == 409
    assert "another tag" in same_tag.text
    assert await cloud.rules(other) == {}


async def test_a_share_that_is_not_available_is_refused(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_stopped(), await cloud.make_share()
    reset = {"reset_status": {"status": "error"}}
    await cloud.share_api("POST", f"/shares/{share_id}/action", reset, user="admin")
    await cloud.settle()
    answer = await cloud.add_share(server_id, share_id)
    assert answer.status == 409
    assert "error" in answer.text


async def test_shares_of_others_are_not_found(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_stopped(), await cloud.make_share(user="stranger")
    assert (await cloud.add_share(server_id, share_id)).status == 404


@pytest.mark.parametrize("user", ["member", "admin"])
async def test_a_public_share_of_another_project_is_not_attached(
    cloud: SharingCloud, user: str
) -> None:
    server_id, share_id = await cloud.make_stopped(), await cloud.make_share(user="stranger")
    public = {"share": {"is_public": True}}
    await cloud.share_api("PUT", f"/shares/{share_id}", public, user="admin")
    assert (await cloud.share_api("GET", f"/shares/{share_id}")).status == 200
    answer = await cloud.add_share(server_id, share_id, user=user)
    assert (answer.status, await cloud.shares(server_id)) == (404, {})
    assert "of the same project" in answer.text
    assert await cloud.rules(share_id) == {}


async def test_a_server_gets_no_more_shares_than_a_guest_can_have(
    cloud: SharingCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_shares, "GUEST_SHARES", 1)
    server_id, share_id = await cloud.make_shared()
    answer = await cloud.add_share(server_id, await cloud.make_share())
    assert answer.status == 409
    assert "1 at most" in answer.text
    assert await cloud.shares(server_id) == {share_id: "inactive"}


@pytest.mark.parametrize(
    ("hidden", "said"),
    [
        ({"COMPUTE_STORAGE_VIRTIO_FS"}, "COMPUTE_STORAGE_VIRTIO_FS"),
        ({"COMPUTE_MEM_BACKING_FILE"}, "COMPUTE_MEM_BACKING_FILE"),
    ],
)
async def test_a_host_without_the_traits_is_refused(
    cloud: SharingCloud, hidden: set[str], said: str
) -> None:
    await cloud.change_host("host1", hidden_traits=frozenset(hidden))
    server_id, share_id = await cloud.make_stopped(), await cloud.make_share()
    answer = await cloud.add_share(server_id, share_id)
    assert answer.status == 409
    assert said in answer.text


async def test_large_pages_stand_for_shared_memory(cloud: SharingCloud) -> None:
    await cloud.change_host("host1", hidden_traits=frozenset({"COMPUTE_MEM_BACKING_FILE"}))
    flavor = {"flavor": {"name": "big", "id": "77", "ram": 512, "vcpus": 1, "disk": 1}}
    await cloud.ask("POST", "/flavors", flavor, user="admin")
    specs = {"extra_specs": {"hw:mem_page_size": "large"}}
    await cloud.ask("POST", "/flavors/77/os-extra_specs", specs, user="admin")
    server_id, share_id = await cloud.make_stopped(flavorRef="77"), await cloud.make_share()
    assert (await cloud.add_share(server_id, share_id)).status == 201
    await cloud.settle()


async def test_an_old_host_forbids_shares_everywhere(cloud: SharingCloud) -> None:
    await cloud.change_host("host1", version=66)
    server_id, share_id = await cloud.make_stopped(), await cloud.make_share()
    assert (await cloud.add_share(server_id, share_id)).status == 403


async def test_an_error_of_the_rule_leaves_the_share_in_error_and_nobody_let_in(
    cloud: SharingCloud,
) -> None:
    server_id, share_id = await cloud.make_stopped(), await cloud.make_share()
    cloud.storage().knobs.fail("grant", Invalid("not here"), times=2)
    assert (await cloud.add_share(server_id, share_id)).status == 201
    await cloud.settle()
    assert await cloud.shares(server_id) == {share_id: "error"}
    assert await cloud.rules(share_id) == {}
    assert await cloud.places() == []
    assert ("attach_share", "Error") in await cloud.actions(server_id)
    # It is taken off like any other, and comes back.
    assert (await cloud.remove_share(server_id, share_id)).status == 200
    await cloud.settle()
    assert (await cloud.add_share(server_id, share_id)).status == 201
    await cloud.settle()
    assert await cloud.shares(server_id) == {share_id: "inactive"}


async def test_a_server_whose_share_could_not_be_attached_starts_without_it(
    cloud: SharingCloud,
) -> None:
    server_id, share_id = await cloud.make_stopped(), await cloud.make_share()
    cloud.storage().knobs.fail("grant", Invalid("not here"), times=2)
    await cloud.add_share(server_id, share_id)
    await cloud.settle()
    assert (await cloud.power(server_id, "os-start"))["status"] == "ACTIVE"
    assert await cloud.guest_tags(server_id) == []


async def test_two_servers_of_one_host_share_a_rule_until_both_let_go(cloud: SharingCloud) -> None:
    first, share_id = await cloud.make_shared()
    second = await cloud.make_stopped()
    assert (await cloud.add_share(second, share_id)).status == 201
    await cloud.settle()
    assert await cloud.rules(share_id) == {ADDRESS: "active"}
    await cloud.remove_share(first, share_id)
    await cloud.settle()
    assert await cloud.rules(share_id) == {ADDRESS: "active"}
    await cloud.remove_share(second, share_id)
    await cloud.settle()
    assert await cloud.rules(share_id) == {}


async def test_who_comes_while_the_rule_goes_gets_a_new_one(cloud: SharingCloud) -> None:
    first, share_id = await cloud.make_shared()
    second = await cloud.make_stopped()
    await cloud.remove_share(first, share_id)
    await cloud.add_share(second, share_id)
    await cloud.settle()
    assert await cloud.shares(first) == {}
    assert await cloud.shares(second) == {share_id: "inactive"}
    assert await cloud.rules(share_id) == {ADDRESS: "active"}


async def test_two_servers_that_get_a_share_at_once_both_have_it(cloud: SharingCloud) -> None:
    first, second = await cloud.make_stopped(), await cloud.make_stopped()
    share_id = await cloud.make_share()
    await cloud.add_share(first, share_id)
    await cloud.add_share(second, share_id)
    await cloud.settle()
    assert await cloud.shares(first) == await cloud.shares(second) == {share_id: "inactive"}


async def test_a_rule_of_the_user_is_used_and_left(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_stopped(), await cloud.make_share()
    await cloud.allow(share_id, f"{ADDRESS}/32")
    await cloud.add_share(server_id, share_id)
    await cloud.settle()
    assert await cloud.shares(server_id) == {share_id: "inactive"}
    await cloud.remove_share(server_id, share_id)
    await cloud.settle()
    assert await cloud.rules(share_id) == {f"{ADDRESS}/32": "active"}


async def test_a_rule_that_only_reads_is_refused_and_left(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_stopped(), await cloud.make_share()
    await cloud.allow(share_id, ADDRESS, access_level="ro")
    await cloud.add_share(server_id, share_id)
    await cloud.settle()
    assert await cloud.shares(server_id) == {share_id: "error"}
    assert await cloud.rules(share_id) == {ADDRESS: "active"}


async def test_cephfs_has_one_rule_for_the_project_on_all_hosts(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_shared("CEPHFS")
    [client] = await cloud.rules(share_id)
    assert client == f"mooring-{cloud.project_id}"
    await cloud.power(server_id, "os-start")
    assert await cloud.mounts() == [(server_id, share_id)]


async def test_a_rule_that_somebody_removed_is_fine_when_the_share_is_detached(
    cloud: SharingCloud,
) -> None:
    server_id, share_id = await cloud.make_shared()
    await cloud.deny_all(share_id)
    assert await cloud.rules(share_id) == {}
    await cloud.remove_share(server_id, share_id)
    await cloud.settle()
    assert await cloud.shares(server_id) == {}


async def test_a_silent_share_service_makes_attach_and_detach_wait(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_stopped(), await cloud.make_share()
    await cloud.add_share(server_id, share_id)
    cloud.lose_share_service()
    await cloud.pass_time(60)
    assert await cloud.shares(server_id) == {share_id: "attaching"}
    assert (await cloud.act(server_id, "os-start")) == 409
    cloud.find_share_service()
    await cloud.settle()
    assert await cloud.shares(server_id) == {share_id: "inactive"}
    await cloud.remove_share(server_id, share_id)
    cloud.lose_share_service()
    await cloud.pass_time(600)
    assert await cloud.shares(server_id) == {share_id: "detaching"}
    cloud.find_share_service()
    await cloud.settle()
    assert await cloud.shares(server_id) == {}
    assert await cloud.rules(share_id) == {}


async def test_notifications_name_the_share(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_shared()
    await cloud.remove_share(server_id, share_id)
    await cloud.settle()
    told = [one for one in await cloud.told("compute") if ".share_" in one.event_type]
    assert [one.event_type for one in told] == [
        "instance.share_attach.start",
        "instance.share_attach.end",
        "instance.share_detach.start",
        "instance.share_detach.end",
    ]
    data = told[1].payload["nova_object.data"]
    assert data["share_id"] == share_id
    [shown] = data["shares"]
    assert shown["nova_object.data"]["status"] == "inactive"
