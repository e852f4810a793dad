from __future__ import annotations

from typing import Any

import pytest

from mooring import limits
from mooring.errors import Conflict, NoCapacity
from mooring.volume.attachments.loops.settle_borrowed import settle_once
from tests.answers import Answer
from tests.callers import PROJECT
from tests.volume.cloud import IMAGE, SERVER, UNKNOWN, VolumeCloud

pytestmark = pytest.mark.anyio


async def take(cloud: VolumeCloud, volume_id: str, **how: Any) -> Answer:
    version, user = how.pop("version", "3.65"), how.pop("user", "member")
    body = {"snapshot": {"volume_id": volume_id, **how}}
    return await cloud.ask("POST", "/snapshots", body, version=version, user=user)


async def taken(cloud: VolumeCloud, volume_id: str, **how: Any) -> str:
    """Take a snapshot and return its id once its fate is known."""
    answer = await take(cloud, volume_id, **how)
    assert answer.status == 202, answer.content
    await cloud.settle()
    return answer.body["snapshot"]["id"]


async def show(cloud: VolumeCloud, snapshot_id: str) -> Any:
    return (await cloud.ask("GET", f"/snapshots/{snapshot_id}", user="admin")).body["snapshot"]


async def act(
    cloud: VolumeCloud, snapshot_id: str, action: str, value: Any = None, **how: Any
) -> Answer:
    return await cloud.ask("POST", f"/snapshots/{snapshot_id}/action", {action: value}, **how)


async def usage(cloud: VolumeCloud) -> dict[str, int]:
    answer = await cloud.ask("GET", f"/os-quota-sets/{PROJECT}?usage=True", user="admin")
    found = answer.body["quota_set"]
    return {name: found[name]["in_use"] for name in ("volumes", "snapshots", "gigabytes")}


async def test_a_snapshot_is_taken_shown_and_deleted(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make(size=2)
    answer = await take(cloud, volume_id, name="first", metadata={"a": "b"})
    assert answer.status == 202
    begun = answer.body["snapshot"]
    assert (begun["status"], begun["size"], begun["name"]) == ("creating", 2, "first")
    assert "os-extended-snapshot-attributes:progress" not in begun
    await cloud.settle()
    shown = await show(cloud, begun["id"])
    assert shown["status"] == "available"
    assert shown["os-extended-snapshot-attributes:progress"] == "100%"
    assert shown["os-extended-snapshot-attributes:project_id"] == PROJECT
    assert await usage(cloud) == {"volumes": 1, "snapshots": 1, "gigabytes": 4}
    assert [file.snapshots for file in await cloud.storage.volumes()] == [[begun["id"]]]
    assert (await cloud.ask("DELETE", f"/snapshots/{begun['id']}")).status == 202
    await cloud.settle()
    assert (await cloud.ask("GET", f"/snapshots/{begun['id']}")).status == 404
    assert await usage(cloud) == {"volumes": 1, "snapshots": 0, "gigabytes": 2}
    assert [file.snapshots for file in await cloud.storage.volumes()] == [[]]
    assert await cloud.complaints() == []


async def test_the_body_of_a_snapshot_follows_its_version(cloud: VolumeCloud) -> None:
    snapshot_id = await taken(cloud, await cloud.make())
    usual = {
        *("id", "name", "description", "volume_id", "status", "size", "created_at", "updated_at"),
        *("metadata", "os-extended-snapshot-attributes:progress"),
        "os-extended-snapshot-attributes:project_id",
    }
    for version, more in (
        ("3.13", set[str]()),
        ("3.14", {"group_snapshot_id"}),
        ("3.41", {"group_snapshot_id", "user_id"}),
        ("3.65", {"group_snapshot_id", "user_id", "consumes_quota"}),
    ):
        answer = await cloud.ask("GET", f"/snapshots/{snapshot_id}", version=version)
        assert set(answer.body["snapshot"]) == usual | more


async def test_a_volume_with_snapshots_is_deleted_only_along_with_them(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await taken(cloud, volume_id)
    await taken(cloud, volume_id)
    answer = await cloud.ask("DELETE", f"/volumes/{volume_id}")
    assert answer.status == 400
    assert "snapshots" in answer.fault
    assert (await cloud.act(volume_id, "os-force_delete", {}, user="admin")).status == 400
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}?cascade=True")).status == 202
    await cloud.settle()
    assert (await cloud.ask("GET", "/snapshots")).body["snapshots"] == []
    assert await cloud.storage.volumes() == []
    assert await cloud.complaints() == []


async def test_snapshots_are_deleted_in_any_order(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    first, second, third = [await taken(cloud, volume_id) for _ in range(3)]
    for snapshot_id, left in ((second, [first, third]), (third, [first]), (first, [])):
        assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
        await cloud.settle()
        assert [file.snapshots for file in await cloud.storage.volumes()] == [left]


async def test_several_are_deleted_at_once(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    ids = [await taken(cloud, volume_id) for _ in range(3)]
    for snapshot_id in ids:
        assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
        assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await cloud.settle()
    assert (await cloud.ask("GET", "/snapshots")).body["snapshots"] == []
    assert await cloud.complaints() == []


async def test_a_snapshot_that_the_storage_refuses_ends_in_error_with_a_message(
    cloud: VolumeCloud,
) -> None:
    volume_id = await cloud.make()
    cloud.storage.knobs.fail("snapshot", NoCapacity("The pool is full."))
    snapshot_id = await taken(cloud, volume_id)
    assert (await show(cloud, snapshot_id))["status"] == "error"
    (message,) = (await cloud.ask("GET", "/messages")).body["messages"]
    assert message["event_id"] == "VOLUME_VOLUME_SNAPSHOT_009_013"
    assert (message["resource_type"], message["resource_uuid"]) == ("VOLUME_SNAPSHOT", snapshot_id)
    assert [file.snapshots for file in await cloud.storage.volumes()] == [[]]
    assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await cloud.settle()
    assert (await cloud.ask("GET", f"/snapshots/{snapshot_id}")).status == 404


async def test_a_deletion_that_the_storage_refuses_may_be_tried_again(cloud: VolumeCloud) -> None:
    snapshot_id = await taken(cloud, await cloud.make())
    cloud.storage.knobs.fail("merge", Conflict("Somebody holds it."))
    assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await cloud.settle()
    assert (await show(cloud, snapshot_id))["status"] == "error_deleting"
    assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await cloud.settle()
    assert (await cloud.ask("GET", f"/snapshots/{snapshot_id}")).status == 404


@pytest.mark.parametrize(
    "status", ["creating", "error", "maintenance", "attaching", "extending", "reserved"]
)
async def test_a_volume_that_is_busy_gets_no_snapshot(cloud: VolumeCloud, status: str) -> None:
    volume_id = await cloud.make()
    await cloud.set(volume_id, status=status)
    for version in ("3.65", "3.66"):
        answer = await take(cloud, volume_id, version=version)
        assert answer.status == 400
        assert status in answer.fault
    assert (await cloud.ask("GET", "/snapshots")).body["snapshots"] == []


async def test_a_volume_in_use_needs_force_below_3_66(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.attach(volume_id, SERVER)
    refused = await take(cloud, volume_id)
    assert (refused.status, "--os-volume-api-version 3.66" in refused.text) == (400, True)
    assert (await take(cloud, volume_id, force=False)).status == 400
    assert (await take(cloud, volume_id, force=False, version="3.66")).status == 400
    assert (await take(cloud, volume_id, force="surely")).status == 400
    assert (await cloud.ask("GET", "/snapshots")).body["snapshots"] == []


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"volume_id": UNKNOWN}, 404),
        ({"volume_id": "no id"}, 400),
        ({"volume_id": None}, 404),
        ({"name": "n" * 256}, 400),
        ({"metadata": {"": "x"}}, 400),
        ({"metadata": {"k": 1}}, 400),
    ],
)
async def test_what_cannot_be_taken_is_refused(
    cloud: VolumeCloud, fields: dict[str, Any], status: int
) -> None:
    body = {"snapshot": {"volume_id": await cloud.make(), **fields}}
    assert (await cloud.ask("POST", "/snapshots", body)).status == status


async def test_snapshots_count_in_the_quota(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make(size=3)
    path = f"/os-quota-sets/{PROJECT}"
    assert (
        await cloud.ask("PUT", path, {"quota_set": {"gigabytes": 5}}, user="admin")
    ).status == 200
    answer = await take(cloud, volume_id)
    assert answer.status == 413
    assert "VolumeSizeExceedsAvailableQuota" in answer.fault
    quotas = {"quota_set": {"gigabytes": 6, "snapshots": 0}}
    assert (await cloud.ask("PUT", path, quotas, user="admin")).status == 200
    answer = await take(cloud, volume_id)
    assert answer.status == 413
    assert "SnapshotLimitExceeded" in answer.fault
    quotas = {"quota_set": {"snapshots": -1, "snapshots___DEFAULT__": 1}}
    assert (await cloud.ask("PUT", path, quotas, user="admin")).status == 200
    await taken(cloud, volume_id)
    assert (await take(cloud, volume_id)).status == 413


async def test_a_volume_is_made_from_a_snapshot(cloud: VolumeCloud) -> None:
    source = await cloud.make(size=2, imageRef=IMAGE)
    snapshot_id = await taken(cloud, source)
    volume_id = await cloud.make(size=3, snapshot_id=snapshot_id)
    shown = await cloud.show(volume_id)
    assert (shown["status"], shown["size"], shown["bootable"]) == ("available", 3, "true")
    assert shown["snapshot_id"] == snapshot_id
    assert shown["volume_image_metadata"]["image_name"] == "cirros"
    assert await cloud.complaints() == []
    answer = await cloud.ask("POST", "/volumes", {"volume": {"snapshot_id": snapshot_id}})
    assert answer.body["volume"]["size"] == 2
    await cloud.settle()


async def test_a_volume_smaller_than_its_snapshot_is_refused(cloud: VolumeCloud) -> None:
    snapshot_id = await taken(cloud, await cloud.make(size=2))
    for fields, status in (
        ({"size": 1, "snapshot_id": snapshot_id}, 400),
        ({"size": 2, "snapshot_id": snapshot_id, "imageRef": IMAGE}, 400),
        ({"size": 2, "snapshot_id": UNKNOWN}, 404),
    ):
        assert (await cloud.ask("POST", "/volumes", {"volume": fields})).status == status
    await act(cloud, snapshot_id, "os-reset_status", {"status": "error"}, user="admin")
    body = {"volume": {"size": 2, "snapshot_id": snapshot_id}}
    assert (await cloud.ask("POST", "/volumes", body)).status == 400


async def test_others_snapshots_look_absent_but_to_an_administrator(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    snapshot_id = await taken(cloud, volume_id)
    for method, path, body in (
        ("GET", f"/snapshots/{snapshot_id}", None),
        ("PUT", f"/snapshots/{snapshot_id}", {"snapshot": {"name": "mine"}}),
        ("DELETE", f"/snapshots/{snapshot_id}", None),
        ("GET", f"/snapshots/{snapshot_id}/metadata", None),
        ("POST", "/snapshots", {"snapshot": {"volume_id": volume_id}}),
        ("POST", "/volumes", {"volume": {"snapshot_id": snapshot_id, "size": 1}}),
    ):
        assert (await cloud.ask(method, path, body, user="stranger")).status == 404
    told = {"status": "error"}
    answer = await act(cloud, snapshot_id, "os-update_snapshot_status", told, user="stranger")
    assert answer.status == 404
    assert (await cloud.ask("GET", "/snapshots/detail", user="stranger")).body["snapshots"] == []
    every = await cloud.ask("GET", "/snapshots?all_tenants=1", user="admin")
    assert [one["id"] for one in every.body["snapshots"]] == [snapshot_id]


async def test_a_reader_may_look_and_no_more(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    snapshot_id = await taken(cloud, volume_id)
    assert (await cloud.ask("GET", f"/snapshots/{snapshot_id}", user="reader")).status == 200
    assert (await take(cloud, volume_id, user="reader")).status == 403
    assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}", user="reader")).status == 403
    for action, value in (("os-reset_status", {"status": "error"}), ("os-force_delete", {})):
        assert (await act(cloud, snapshot_id, action, value)).status == 403


async def test_name_description_and_metadata_are_changed(cloud: VolumeCloud) -> None:
    path = f"/snapshots/{await taken(cloud, await cloud.make(), metadata={'a': '1'})}"
    body = {"snapshot": {"name": "new", "description": "text"}}
    changed = (await cloud.ask("PUT", path, body)).body["snapshot"]
    assert (changed["name"], changed["description"]) == ("new", "text")
    assert (await cloud.ask("PUT", path, {"snapshot": {}})).status == 400
    merged = await cloud.ask("POST", f"{path}/metadata", {"metadata": {"b": "2"}})
    assert merged.body == {"metadata": {"a": "1", "b": "2"}}
    assert (await cloud.ask("PUT", f"{path}/metadata/c", {"meta": {"c": "3"}})).status == 200
    assert (await cloud.ask("PUT", f"{path}/metadata/c", {"meta": {"d": "3"}})).status == 400
    assert (await cloud.ask("GET", f"{path}/metadata/c")).body == {"meta": {"c": "3"}}
    assert (await cloud.ask("DELETE", f"{path}/metadata/c")).status == 200
    assert (await cloud.ask("DELETE", f"{path}/metadata/c")).status == 404
    whole = await cloud.ask("PUT", f"{path}/metadata", {"metadata": {"z": "9"}})
    assert whole.body == {"metadata": {"z": "9"}}


async def test_lists_have_pages_filters_and_an_order(cloud: VolumeCloud) -> None:
    volume_id, other = await cloud.make(), await cloud.make()
    ids = [await taken(cloud, volume_id, name=name) for name in ("a", "b", "c")]
    await taken(cloud, other, name="d", metadata={"k": "v"})

    async def names(query: str) -> list[str]:
        answer = await cloud.ask("GET", f"/snapshots/detail?{query}")
        assert answer.status == 200, answer.content
        return [one["name"] for one in answer.body["snapshots"]]

    assert await names("sort=name:asc") == ["a", "b", "c", "d"]
    assert await names(f"volume_id={volume_id}&sort_key=name&sort_dir=desc") == ["c", "b", "a"]
    assert await names(f"sort=name:asc&limit=2&marker={ids[0]}") == ["b", "c"]
    assert await names("status=error") == []
    assert await names("name~=b") == ["b"]
    assert await names("metadata={'k': 'v'}") == ["d"]
    assert await names("availability_zone=nova&name=a") == ["a"]
    assert await names("consumes_quota=false") == []
    paged = (await cloud.ask("GET", "/snapshots?limit=1&with_count=1")).body
    assert paged["count"] == 4
    assert paged["snapshots_links"][0]["rel"] == "next"
    assert (await cloud.ask("GET", "/snapshots?nonsense=1")).status == 400
    for query, found in (
        ("volume_size=1", 4),
        ("volume_size=2", 0),
        ("progress=100%25", 4),
        ("progress=0%25", 0),
        ("created_at=gt:2020-01-01", 4),
        ("created_at=lt:2020-01-01", 0),
    ):
        listed = await cloud.ask("GET", f"/snapshots?{query}", user="admin")
        assert len(listed.body["snapshots"]) == found, query
    assert (await cloud.ask("GET", f"/snapshots?marker={UNKNOWN}")).status == 404
    most = ",".join(["gt:2020-01-01"] * limits.WEB_CONDITIONS)
    for query, status in ((most, 200), (f"{most},lt:2030-01-01", 400)):
        asked = await cloud.ask("GET", f"/snapshots?created_at={query}", user="admin")
        assert asked.status == status


async def test_a_status_set_by_hand_is_told_on_as_upstream_has_it(cloud: VolumeCloud) -> None:
    snapshot_id = await taken(cloud, await cloud.make())
    told = {"status": "error", "progress": "80%"}
    assert (await act(cloud, snapshot_id, "os-update_snapshot_status", told)).status == 400
    reset = {"status": "creating"}
    assert (await act(cloud, snapshot_id, "os-reset_status", reset, user="admin")).status == 202
    wrong = {"status": "deleting", "progress": "80%"}
    assert (await act(cloud, snapshot_id, "os-update_snapshot_status", wrong)).status == 400
    for bad in ("101%", "many", ""):
        value = {"status": "error", "progress": bad}
        assert (await act(cloud, snapshot_id, "os-update_snapshot_status", value)).status == 400
    assert (await act(cloud, snapshot_id, "os-update_snapshot_status", told)).status == 202
    shown = await show(cloud, snapshot_id)
    assert shown["status"] == "error"
    assert shown["os-extended-snapshot-attributes:progress"] == "80%"
    bogus = {"status": "bogus"}
    assert (await act(cloud, snapshot_id, "os-reset_status", bogus, user="admin")).status == 400


async def test_force_deletes_from_any_status(cloud: VolumeCloud) -> None:
    snapshot_id = await taken(cloud, await cloud.make())
    reset = {"status": "creating"}
    await act(cloud, snapshot_id, "os-reset_status", reset, user="admin")
    assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 400
    assert (await act(cloud, snapshot_id, "os-force_delete", {}, user="admin")).status == 202
    await cloud.settle()
    assert (await cloud.ask("GET", f"/snapshots/{snapshot_id}")).status == 404


async def test_a_restart_ends_what_was_begun(any_cloud: VolumeCloud) -> None:
    cloud = any_cloud
    volume_id = await cloud.make()
    cloud.storage.knobs.hold("snapshot")
    snapshot_id = (await take(cloud, volume_id)).body["snapshot"]["id"]
    await cloud.restart(hosts=True)
    await cloud.settle()
    assert (await show(cloud, snapshot_id))["status"] == "available"
    assert await cloud.complaints() == []


@pytest.mark.parametrize(
    ("status", "missing", "settled"),
    [
        ("creating", False, "available"),
        ("deleting", False, "available"),
        ("creating", True, "error"),
        ("deleting", True, "error_deleting"),
    ],
)
async def test_a_status_that_was_set_and_left_behind_is_settled(
    cloud: VolumeCloud, status: str, missing: bool, settled: str
) -> None:
    snapshot_id = await taken(cloud, volume_id := await cloud.make())
    if missing:
        await cloud.storage.delete_snapshot(volume_id, snapshot_id, "by hand")
    await act(cloud, snapshot_id, "os-reset_status", {"status": status}, user="admin")
    cloud.clock.advance(599)
    await settle_once(cloud.volume)
    assert (await show(cloud, snapshot_id))["status"] == status
    cloud.clock.advance(2)
    await settle_once(cloud.volume)
    assert (await show(cloud, snapshot_id))["status"] == settled


async def test_a_snapshot_of_no_volume_is_of_one_that_is_not_there(cloud: VolumeCloud) -> None:
    answer = await cloud.ask("POST", "/snapshots", {"snapshot": {"volume_id": None}})
    assert (answer.status, "Volume None" in answer.fault) == (404, True)
    assert (await cloud.ask("POST", "/snapshots", {"snapshot": {}})).status == 400
