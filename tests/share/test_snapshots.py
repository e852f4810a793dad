from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import Conflict
from tests.share.cloud import UNKNOWN, ShareCloud

pytestmark = pytest.mark.anyio


async def test_a_snapshot_is_taken_shown_and_deleted(cloud: ShareCloud) -> None:
    share_id = await cloud.make(size=2)
    body = {"snapshot": {"share_id": share_id, "name": "before", "metadata": {"a": "b"}}}
    asked = await cloud.ask("POST", "/snapshots", body)
    made = asked.key("snapshot")
    assert (asked.status, made["status"], made["share_size"]) == (202, "creating", 2)
    await cloud.settle()
    path = f"/snapshots/{made['id']}"
    shown = (await cloud.ask("GET", path)).key("snapshot")
    assert (shown["status"], shown["share_proto"], shown["metadata"]) == (
        "available",
        "NFS",
        {"a": "b"},
    )
    found = await cloud.storage().find(share_id)
    assert found is not None
    assert found.snapshots == [made["id"]]
    exports = await cloud.ask("GET", f"{path}/export-locations")
    assert exports.key("share_snapshot_export_locations") == []
    refused = await cloud.ask("DELETE", f"/shares/{share_id}")
    assert refused.status == 403
    assert (await cloud.ask("DELETE", path)).status == 202
    assert (await cloud.ask("GET", path)).key("snapshot")["status"] == "deleting"
    await cloud.settle()
    assert (await cloud.ask("GET", path)).status == 404
    assert (await cloud.ask("DELETE", f"/shares/{share_id}")).status == 202
    await cloud.settle()


async def test_a_share_is_made_from_a_snapshot_where_that_lies(cloud: ShareCloud) -> None:
    share_id = await cloud.make(size=2)
    snapshot_id = await cloud.snapshot(share_id)
    copied = await cloud.make(size=3, snapshot_id=snapshot_id)
    shown = await cloud.show(copied)
    assert (shown["status"], shown["snapshot_id"], shown["size"]) == ("available", snapshot_id, 3)
    body: dict[str, Any] = {"share_proto": "NFS", "snapshot_id": snapshot_id}
    made = await cloud.ask("POST", "/shares", {"share": body})
    assert made.key("share")["size"] == 2
    for wrong in ({"size": 1}, {"share_proto": "CEPHFS"}):
        answer = await cloud.ask("POST", "/shares", {"share": {**body, **wrong}})
        assert answer.status == 400
    await cloud.settle()


@pytest.mark.parametrize(
    ("wrong", "status"), [({"share_id": UNKNOWN}, 404), ({"name": "n" * 256}, 400)]
)
async def test_bad_snapshots_leave_no_trace(
    cloud: ShareCloud, wrong: dict[str, Any], status: int
) -> None:
    share_id = await cloud.make()
    body = {"snapshot": {"share_id": share_id, **wrong}}
    assert (await cloud.ask("POST", "/snapshots", body)).status == status
    assert (await cloud.ask("GET", "/snapshots")).key("snapshots") == []


async def test_a_share_that_changes_or_whose_type_forbids_it_has_no_snapshot(
    cloud: ShareCloud,
) -> None:
    share_id = await cloud.make()
    await cloud.act(share_id, "extend", {"new_size": 2})
    body = {"snapshot": {"share_id": share_id, "force": True}}
    assert (await cloud.ask("POST", "/snapshots", body)).status == 400
    await cloud.settle()
    specs = {"driver_handles_share_servers": "False", "snapshot_support": "False"}
    type_body = {"share_type": {"name": "plain", "extra_specs": specs}}
    assert (await cloud.ask("POST", "/types", type_body, user="admin")).status == 200
    plain = await cloud.make(share_type="plain")
    answer = await cloud.ask("POST", "/snapshots", {"snapshot": {"share_id": plain}})
    assert answer.status == 422


async def test_snapshots_are_listed_and_changed(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    first = await cloud.snapshot(share_id, name="first")
    cloud.clock.advance(1.0)
    second = await cloud.snapshot(share_id, name="second")
    for query, found in {
        f"?share_id={share_id}": [second, first],
        "?name=first": [first],
        "?name~=SEC": [second],
        "?limit=1": [second],
        f"?marker={second}": [first],
        "?status=error": [],
    }.items():
        listed = await cloud.ask("GET", f"/snapshots{query}")
        assert [each["id"] for each in listed.key("snapshots")] == found, query
    counted = await cloud.ask("GET", "/snapshots/detail?with_count=True")
    assert counted.key("count") == 2
    path = f"/snapshots/{first}"
    named = await cloud.ask("PUT", path, {"snapshot": {"display_name": "new"}})
    assert named.key("snapshot")["name"] == "new"
    merged = await cloud.ask("POST", f"{path}/metadata", {"metadata": {"a": "b"}})
    assert merged.key("metadata") == {"a": "b"}
    assert (await cloud.ask("PUT", f"{path}/metadata", {"metadata": {"c": "d"}})).status == 200
    assert (await cloud.ask("GET", f"{path}/metadata")).key("metadata") == {"c": "d"}
    assert (await cloud.ask("GET", f"{path}/metadata/c")).key("meta") == {"c": "d"}
    assert (await cloud.ask("DELETE", f"{path}/metadata/c")).status == 200
    assert (await cloud.ask("GET", path, user="stranger")).status == 404


async def test_a_snapshot_in_error_is_reset_or_deleted(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    snapshot_id = await cloud.snapshot(share_id)
    act, reset = f"/snapshots/{snapshot_id}/action", {"reset_status": {"status": "error"}}
    assert (await cloud.ask("POST", act, reset)).status == 403
    assert (await cloud.ask("POST", act, reset, user="admin")).status == 202
    body = {"share": {"share_proto": "NFS", "snapshot_id": snapshot_id}}
    assert (await cloud.ask("POST", "/shares", body)).status == 400
    wrong = {"reset_status": {"status": "creating"}}
    assert (await cloud.ask("POST", act, wrong, user="admin")).status == 400
    forced = await cloud.ask("POST", act, {"force_delete": None}, user="admin")
    assert forced.status == 202
    await cloud.settle()
    assert (await cloud.ask("GET", f"/snapshots/{snapshot_id}")).status == 404


async def test_a_snapshot_that_the_storage_refuses_is_in_error(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    snapshot_id = await cloud.snapshot(share_id)
    cloud.storage().knobs.fail("delete_snapshot", Conflict("The storage will not."))
    await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")
    await cloud.settle()
    shown = (await cloud.ask("GET", f"/snapshots/{snapshot_id}")).key("snapshot")
    assert shown["status"] == "error_deleting"
    assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await cloud.settle()
    assert (await cloud.ask("GET", f"/snapshots/{snapshot_id}")).status == 404
