from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import update

from mooring.share.tables import PoolRow, ShareRow
from tests.callers import PROJECT
from tests.share.cloud import UNKNOWN, ShareCloud

pytestmark = pytest.mark.anyio


async def test_a_share_is_made_and_shows_where_it_is_mounted_from(cloud: ShareCloud) -> None:
    body = {"share": {"size": "2", "share_proto": "nfs", "name": "docs", "metadata": {"a": "b"}}}
    asked = await cloud.ask("POST", "/shares", body)
    made = asked.key("share")
    assert (asked.status, made["status"], made["availability_zone"]) == (200, "creating", None)
    assert made["progress"] == "0%"
    path = f"/shares/{made['id']}/export_locations"
    assert (await cloud.ask("GET", path)).key("export_locations") == []
    await cloud.settle()
    shown = await cloud.show(made["id"], user="member")
    assert (shown["status"], shown["size"], shown["share_proto"]) == ("available", 2, "NFS")
    assert (shown["progress"], shown["access_rules_status"]) == ("100%", "active")
    assert (shown["metadata"], shown["name"], shown["project_id"]) == ({"a": "b"}, "docs", PROJECT)
    assert "host" not in shown
    assert (await cloud.show(made["id"]))["host"] == "host1@simulated#files"
    [location] = (await cloud.ask("GET", path)).key("export_locations")
    assert location["path"].endswith(made["id"])
    assert location["preferred"] is True
    one = await cloud.ask("GET", f"{path}/{location['id']}")
    assert one.key("export_location")["path"] == location["path"]
    assert (await cloud.ask("GET", f"{path}/{UNKNOWN}")).status == 404


async def test_what_is_shown_follows_the_microversion(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    oldest = await cloud.show(share_id, version="2.0")
    assert oldest["share_type"] == oldest["volume_type"] == "__DEFAULT__"
    assert oldest["export_locations"] == [oldest["export_location"]]
    for name, since in {
        "snapshot_support": "2.2",
        "share_type_name": "2.6",
        "access_rules_status": "2.10",
        "user_id": "2.16",
        "progress": "2.54",
        "is_soft_deleted": "2.69",
    }.items():
        before = f"2.{int(since[2:]) - 1}"
        assert name not in await cloud.show(share_id, version=before)
        assert name in await cloud.show(share_id, version=since)
    assert "export_locations" not in await cloud.show(share_id, version="2.9")
    path = f"/shares/{share_id}/export_locations"
    assert (await cloud.ask("GET", path, version="2.8")).status == 404


async def test_a_share_that_is_deleted_is_gone_from_the_storage_too(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    await cloud.allow(share_id)
    assert (await cloud.ask("DELETE", f"/shares/{share_id}")).status == 202
    await cloud.settle()
    assert (await cloud.ask("GET", f"/shares/{share_id}")).status == 404
    assert await cloud.storage().shares() == []
    assert (await cloud.usage())["in_use"] == 0


async def test_a_deletion_that_the_storage_refuses_can_be_asked_for_again(
    cloud: ShareCloud,
) -> None:
    share_id = await cloud.make()
    await cloud.storage().take_snapshot(share_id, "unknown")
    await cloud.ask("DELETE", f"/shares/{share_id}")
    await cloud.settle()
    assert await cloud.status(share_id) == "error_deleting"
    [told] = await cloud.messages(share_id)
    assert told["action_id"] == "007"
    await cloud.storage().delete_snapshot(share_id, "unknown")
    assert (await cloud.ask("DELETE", f"/shares/{share_id}")).status == 202
    await cloud.settle()
    assert (await cloud.ask("GET", f"/shares/{share_id}")).status == 404


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"share_proto": "CIFS"}, 400),
        ({"size": 0}, 400),
        ({"size": "many"}, 400),
        ({"size": None}, 400),
        ({"share_type": "none"}, 404),
        ({"share_type": "__DEFAULT__", "volume_type": "__DEFAULT__"}, 400),
        ({"availability_zone": "nowhere"}, 404),
        ({"share_network_id": UNKNOWN}, 400),
        ({"share_group_id": UNKNOWN}, 404),
        ({"scheduler_hints": {"same_host": UNKNOWN}}, 400),
        ({"snapshot_id": UNKNOWN}, 404),
        ({"metadata": {"": "value"}}, 400),
        ({"is_public": True}, 403),
    ],
)
async def test_bad_input_leaves_no_trace(
    cloud: ShareCloud, wrong: dict[str, Any], status: int
) -> None:
    body = {"share": {"size": 1, "share_proto": "NFS", **wrong}}
    answer = await cloud.ask("POST", "/shares", body)
    assert answer.status == status, answer.content
    assert (await cloud.ask("GET", "/shares")).key("shares") == []
    assert (await cloud.usage())["in_use"] == 0


async def test_a_share_without_a_pool_is_in_error_and_its_owner_is_told_why(
    cloud: ShareCloud,
) -> None:
    share_id = await cloud.make(size=500)
    assert await cloud.status(share_id) == "error"
    [told] = await cloud.messages(share_id)
    assert (told["action_id"], told["detail_id"], told["resource_type"]) == ("001", "002", "SHARE")
    assert "1 with another protocol; 1 without the room" in told["user_message"]
    assert (await cloud.ask("DELETE", f"/messages/{told['id']}")).status == 204
    assert (await cloud.ask("GET", f"/messages/{told['id']}")).status == 404
    await cloud.ask("DELETE", f"/shares/{share_id}")
    await cloud.settle()


async def test_a_share_grows_and_shrinks_but_not_below_what_is_in_it(cloud: ShareCloud) -> None:
    share_id = await cloud.make(size=2)
    assert (await cloud.act(share_id, "extend", {"new_size": 5})).status == 202
    assert await cloud.status(share_id) == "extending"
    assert (await cloud.usage())["reserved"] == 3
    await cloud.settle()
    assert (await cloud.show(share_id))["size"] == 5
    assert await cloud.usage() == {"limit": 1000, "in_use": 5, "reserved": 0}
    cloud.storage().write(share_id, 3 << 30)
    assert (await cloud.act(share_id, "shrink", {"new_size": 2})).status == 202
    await cloud.settle()
    shown = await cloud.show(share_id)
    assert (shown["size"], shown["status"]) == (5, "available")
    [told] = await cloud.messages(share_id)
    assert (told["action_id"], told["detail_id"]) == ("009", "018")
    assert (await cloud.act(share_id, "shrink", {"new_size": 3})).status == 202
    await cloud.settle()
    assert (await cloud.show(share_id))["size"] == 3


async def test_what_cannot_grow_or_shrink_is_refused_and_stays(cloud: ShareCloud) -> None:
    share_id = await cloud.make(size=2)
    for action, size in (("extend", 2), ("extend", 1), ("shrink", 2), ("shrink", 0)):
        assert (await cloud.act(share_id, action, {"new_size": size})).status == 400
    assert (await cloud.act(share_id, "extend", {"new_size": 2000})).status == 403
    assert (await cloud.act(share_id, "extend", {"new_size": 500})).status == 202
    await cloud.settle()
    shown = await cloud.show(share_id)
    assert (shown["size"], shown["status"]) == (2, "available")
    [told] = await cloud.messages(share_id)
    assert (told["action_id"], told["detail_id"]) == ("008", "002")


async def test_who_asks_for_another_size_is_not_told_which_host_s_pool_has_the_share(
    cloud: ShareCloud,
) -> None:
    share_id = await cloud.make(size=2)
    pool = (await cloud.show(share_id))["host"]
    assert (await cloud.act(share_id, "extend", {"new_size": 500})).status == 202
    await cloud.settle()
    [message] = await cloud.messages(share_id)
    told = [message["user_message"]]
    fixed = update(PoolRow).values(extends=False, shrinks=False)
    await cloud.store.write(lambda tx: tx.execute(fixed))
    for action, size in (("extend", 3), ("shrink", 1)):
        answer = await cloud.act(share_id, action, {"new_size": size})
        told.append(answer.body["badRequest"]["message"])
    assert f"The pool of share {share_id} cannot give 498 GiB more" in told[0]
    assert f"The pool of share {share_id} cannot extend shares" in told[1]
    assert f"The pool of share {share_id} cannot shrink shares" in told[2]
    for one in told:
        assert pool.partition("@")[0] not in one
        assert pool not in one


async def test_name_description_and_metadata_change(cloud: ShareCloud) -> None:
    share_id = await cloud.make(metadata={"a": "1"})
    changes = {"share": {"display_name": "new", "display_description": "text"}}
    shown = (await cloud.ask("PUT", f"/shares/{share_id}", changes)).key("share")
    assert (shown["name"], shown["description"]) == ("new", "text")
    path = f"/shares/{share_id}/metadata"
    merged = await cloud.ask("POST", path, {"metadata": {"b": "2"}})
    assert merged.key("metadata") == {"a": "1", "b": "2"}
    whole = await cloud.ask("PUT", path, {"metadata": {"c": "3"}})
    assert whole.key("metadata") == (await cloud.ask("GET", path)).key("metadata") == {"c": "3"}
    assert (await cloud.ask("GET", f"{path}/c")).key("meta") == {"c": "3"}
    assert (await cloud.ask("DELETE", f"{path}/c")).status == 200
    assert (await cloud.ask("DELETE", f"{path}/c")).status == 404
    public = {"share": {"is_public": True}}
    assert (await cloud.ask("PUT", f"/shares/{share_id}", public)).status == 403


async def test_others_see_a_share_only_when_it_is_public(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    path = f"/shares/{share_id}"
    assert (await cloud.ask("GET", path, user="stranger")).status == 404
    assert (await cloud.ask("GET", "/shares?all_tenants=1", user="stranger")).key("shares") == []
    public = await cloud.ask("PUT", path, {"share": {"is_public": True}}, user="admin")
    assert public.status == 200
    assert (await cloud.ask("GET", path, user="stranger")).status == 200
    listed = await cloud.ask("GET", "/shares?is_public=True", user="stranger")
    assert [each["id"] for each in listed.key("shares")] == [share_id]
    assert (await cloud.ask("DELETE", path, user="stranger")).status == 403
    changed = await cloud.ask("PUT", path, {"share": {"name": "mine"}}, user="stranger")
    assert changed.status == 403
    assert (await cloud.ask("DELETE", path, user="reader")).status == 403


async def test_lists_are_filtered_sorted_and_paged(cloud: ShareCloud) -> None:
    first = await cloud.make(name="first", size=3, metadata={"k": "v"})
    cloud.clock.advance(1.0)
    second = await cloud.make(name="second", size=1, proto="CEPHFS")
    for query, found in {
        "?name=first": [first],
        "?name~=SEC": [second],
        "?metadata={'k':'v'}": [first],
        "?share_proto=CEPHFS": [second],
        "?status=error": [],
        "?share_network_id=x": [],
        "?is_soft_deleted=True": [],
        "?sort_key=size&sort_dir=asc": [second, first],
        "?sort_dir=asc": [first, second],
        "?limit=1": [second],
        f"?limit=1&marker={second}": [first],
        "?unknown=1": [second, first],
    }.items():
        listed = await cloud.ask("GET", f"/shares{query}")
        assert [each["id"] for each in listed.key("shares")] == found, query
    page = await cloud.ask("GET", "/shares/detail?limit=1&with_count=True")
    assert page.key("count") == 2
    assert page.key("shares_links")[0]["rel"] == "next"
    [location] = (await cloud.ask("GET", f"/shares/{first}/export_locations")).key(
        "export_locations"
    )
    by_path = await cloud.ask("GET", f"/shares?export_location_path={location['path']}")
    assert [each["id"] for each in by_path.key("shares")] == [first]
    others = await cloud.ask("GET", "/shares?host=host1@simulated%23files", user="admin")
    assert [each["id"] for each in others.key("shares")] == [first]
    assert (await cloud.ask("GET", "/shares?sort_key=no")).status == 400
    assert (await cloud.ask("GET", f"/shares?marker={UNKNOWN}")).status == 404


async def test_an_administrator_resets_a_status_and_deletes_by_force(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    assert (await cloud.act(share_id, "reset_status", {"status": "error"})).status == 403
    reset = {"status": "error"}
    assert (await cloud.act(share_id, "reset_status", reset, user="admin")).status == 202
    assert await cloud.status(share_id) == "error"
    wrong = {"status": "creating"}
    assert (await cloud.act(share_id, "reset_status", wrong, user="admin")).status == 400
    task = await cloud.act(share_id, "reset_task_state", {"task_state": None}, user="admin")
    assert task.status == 202
    wrong = {"task_state": "migration_error"}
    assert (await cloud.act(share_id, "reset_task_state", wrong, user="admin")).status == 400
    assert (await cloud.act(UNKNOWN, "reset_task_state", wrong, user="admin")).status == 404
    assert (await cloud.act(share_id, "force_delete", user="admin")).status == 202
    await cloud.settle()
    assert (await cloud.ask("GET", f"/shares/{share_id}")).status == 404


async def test_a_share_is_deleting_until_it_is_gone_also_by_force(cloud: ShareCloud) -> None:
    """The deletion that waits for a rule gives way to the forced one."""
    share_id, knobs = await cloud.make(), cloud.storage().knobs
    for point in ("grant", "delete"):
        knobs.hold(point)
    client = {"access_type": "ip", "access_to": "10.0.0.1"}
    assert (await cloud.act(share_id, "allow_access", client)).status == 200
    settling = asyncio.create_task(cloud.settle())
    await knobs.held("grant")
    assert (await cloud.ask("DELETE", f"/shares/{share_id}")).status == 202
    assert (await cloud.act(share_id, "force_delete", user="admin")).status == 202
    knobs.release("grant")
    await knobs.held("delete")
    assert await cloud.status(share_id) == "deleting"
    knobs.release("delete")
    await settling
    await cloud.settle()
    assert (await cloud.ask("GET", f"/shares/{share_id}")).status == 404


async def test_a_share_that_a_reset_left_in_error_is_deleting_until_it_is_gone(
    cloud: ShareCloud,
) -> None:
    """A reset had its turn between the word that a share is to be deleted and the first step."""
    share_id, knobs = await cloud.make(), cloud.storage().knobs
    for point in ("resize", "delete"):
        knobs.hold(point)
    assert (await cloud.act(share_id, "extend", {"new_size": 2})).status == 202
    await knobs.held("resize")
    assert (await cloud.act(share_id, "force_delete", user="admin")).status == 202
    left = update(ShareRow).where(ShareRow.id == share_id).values(status="error")
    await cloud.store.write(lambda tx: tx.execute(left))
    knobs.release("resize")
    await knobs.held("delete")
    assert await cloud.status(share_id) == "deleting"
    knobs.release("delete")
    await cloud.settle()
    assert (await cloud.ask("GET", f"/shares/{share_id}")).status == 404


async def test_a_reset_of_a_share_that_the_storage_has_no_more_shows_that(
    cloud: ShareCloud,
) -> None:
    share_id = await cloud.make()
    await cloud.act(share_id, "reset_status", {"status": "error_deleting"}, user="admin")
    await cloud.settle()
    await cloud.storage().delete(share_id)
    await cloud.act(share_id, "reset_status", {"status": "available"}, user="admin")
    await cloud.settle()
    assert await cloud.status(share_id) == "error_deleting"


async def test_eight_extends_at_once_are_one(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    asked = [cloud.act(share_id, "extend", {"new_size": 2}) for _ in range(8)]
    codes = sorted(answer.status for answer in await asyncio.gather(*asked))
    assert codes == [202] + [400] * 7
    await cloud.settle()
    assert (await cloud.show(share_id))["size"] == 2


async def test_the_version_documents_are_open(cloud: ShareCloud) -> None:
    for path, status, asked in (("/share/", 300, "2.98"), ("/share/v2/", 200, "2.82")):
        headers = {"X-OpenStack-Manila-API-Version": asked}
        answer = await cloud.ask("GET", path, user="", version="", headers=headers)
        assert answer.status == status
        [version] = answer.body["versions"]
        assert (version["id"], version["min_version"]) == ("v2.0", "2.0")


async def test_the_document_of_version_2_says_in_which_microversion_it_is(
    cloud: ShareCloud,
) -> None:
    for asked, status, ruled in (
        ("", 200, "2.0"),
        ("2.82", 200, "2.82"),
        ("2.98", 406, "2.98"),
        ("1.2.1", 400, None),
    ):
        headers = {"X-OpenStack-Manila-API-Version": asked} if asked else {}
        answer = await cloud.ask("GET", "/share/v2/", user="", version="", headers=headers)
        assert answer.status == status
        assert answer.headers.get("x-openstack-manila-api-version") == ruled


async def test_who_sees_another_project_s_public_share_may_not_change_it(cloud: ShareCloud) -> None:
    share_id = await cloud.make(user="admin", is_public=True)
    path = f"/shares/{share_id}"
    assert (await cloud.ask("GET", path, user="stranger")).status == 200
    for method, where, body in (
        ("PUT", path, {"share": {"display_name": "mine"}}),
        ("DELETE", path, None),
        ("POST", f"{path}/metadata", {"metadata": {"key": "value"}}),
        ("DELETE", f"{path}/metadata/key", None),
    ):
        answer = await cloud.ask(method, where, body, user="stranger")
        assert answer.status == 403, answer.content
    larger = await cloud.act(share_id, "extend", {"new_size": 2}, user="stranger")
    assert larger.status == 403
    assert (await cloud.show(share_id))["name"] is None


async def test_only_manila_s_own_header_chooses_the_version(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    common = {"OpenStack-API-Version": "shared-file-system 2.50"}
    answer = await cloud.ask("GET", f"/shares/{share_id}", version="", headers=common)
    assert answer.headers["x-openstack-manila-api-version"] == "2.0"
    assert answer.headers["vary"] == "X-OpenStack-Manila-API-Version"
    assert "openstack-api-version" not in answer.headers
    assert (await cloud.ask("GET", "/shares", version="2.999")).status == 406
    assert (await cloud.ask("GET", "/shares", version="two")).status == 400
    old = await cloud.act(share_id, "os-extend", {"new_size": 2}, version="2.6")
    assert old.status == 202
    await cloud.settle()
    assert (await cloud.act(share_id, "os-extend", {"new_size": 3}, version="2.7")).status == 404


async def test_neither_marker_nor_order_tell_of_others_shares(cloud: ShareCloud) -> None:
    share_id = await cloud.make(name="m")
    await cloud.make(name="a", user="stranger")
    for order in ("", "sort_key=name&sort_dir=desc&"):
        refused = await cloud.ask("GET", f"/shares?{order}marker={share_id}", user="stranger")
        assert refused.status == 404
    assert (await cloud.ask("GET", "/shares?sort_key=host", user="stranger")).status == 400
    assert (await cloud.ask("GET", "/shares?sort_key=host", user="admin")).status == 200
    public = {"share": {"is_public": True}}
    assert (await cloud.ask("PUT", f"/shares/{share_id}", public, user="admin")).status == 200
    path = f"/shares?is_public=True&sort_key=name&sort_dir=desc&marker={share_id}"
    listed = await cloud.ask("GET", path, user="stranger")
    assert [one["name"] for one in listed.key("shares")] == ["a"]
