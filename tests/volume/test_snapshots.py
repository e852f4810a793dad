from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import Conflict, NoCapacity
from mooring.volume.attachments.loops.settle_borrowed import settle_once
from tests.volume.dock import IMAGE, PROJECT, SERVER, UNKNOWN, Answer, Dock

pytestmark = pytest.mark.anyio


async def take(dock: Dock, volume_id: str, **how: Any) -> Answer:
    version, who = how.pop("version", "3.65"), how.pop("who", "member")
    body = {"snapshot": {"volume_id": volume_id, **how}}
    return await dock.ask("POST", "/snapshots", body, version=version, who=who)


async def taken(dock: Dock, volume_id: str, **how: Any) -> str:
    """Take a snapshot and return its id once its fate is known."""
    answer = await take(dock, volume_id, **how)
    assert answer.status == 202, answer.content
    await dock.engine.settle()
    return answer.json["snapshot"]["id"]


async def show(dock: Dock, snapshot_id: str) -> Any:
    return (await dock.ask("GET", f"/snapshots/{snapshot_id}", who="admin")).json["snapshot"]


async def act(dock: Dock, snapshot_id: str, action: str, value: Any = None, **how: Any) -> Answer:
    return await dock.ask("POST", f"/snapshots/{snapshot_id}/action", {action: value}, **how)


async def usage(dock: Dock) -> dict[str, int]:
    answer = await dock.ask("GET", f"/os-quota-sets/{PROJECT}?usage=True", who="admin")
    found = answer.json["quota_set"]
    return {name: found[name]["in_use"] for name in ("volumes", "snapshots", "gigabytes")}


async def test_a_snapshot_is_taken_shown_and_deleted(dock: Dock) -> None:
    volume_id = await dock.make(size=2)
    answer = await take(dock, volume_id, name="first", metadata={"a": "b"})
    assert answer.status == 202
    begun = answer.json["snapshot"]
    assert (begun["status"], begun["size"], begun["name"]) == ("creating", 2, "first")
    assert "os-extended-snapshot-attributes:progress" not in begun
    await dock.engine.settle()
    shown = await show(dock, begun["id"])
    assert shown["status"] == "available"
    assert shown["os-extended-snapshot-attributes:progress"] == "100%"
    assert shown["os-extended-snapshot-attributes:project_id"] == PROJECT
    assert await usage(dock) == {"volumes": 1, "snapshots": 1, "gigabytes": 4}
    assert [file.snapshots for file in await dock.storage.volumes()] == [[begun["id"]]]
    assert (await dock.ask("DELETE", f"/snapshots/{begun['id']}")).status == 202
    await dock.engine.settle()
    assert (await dock.ask("GET", f"/snapshots/{begun['id']}")).status == 404
    assert await usage(dock) == {"volumes": 1, "snapshots": 0, "gigabytes": 2}
    assert [file.snapshots for file in await dock.storage.volumes()] == [[]]
    assert await dock.complaints() == []


async def test_the_body_of_a_snapshot_follows_its_version(dock: Dock) -> None:
    snapshot_id = await taken(dock, await dock.make())
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
        answer = await dock.ask("GET", f"/snapshots/{snapshot_id}", version=version)
        assert set(answer.json["snapshot"]) == usual | more


async def test_a_volume_with_snapshots_is_deleted_only_along_with_them(dock: Dock) -> None:
    volume_id = await dock.make()
    await taken(dock, volume_id)
    await taken(dock, volume_id)
    answer = await dock.ask("DELETE", f"/volumes/{volume_id}")
    assert answer.status == 400
    assert "snapshots" in answer.fault
    assert (await dock.act(volume_id, "os-force_delete", {}, who="admin")).status == 400
    assert (await dock.ask("DELETE", f"/volumes/{volume_id}?cascade=True")).status == 202
    await dock.engine.settle()
    assert (await dock.ask("GET", "/snapshots")).json["snapshots"] == []
    assert await dock.storage.volumes() == []
    assert await dock.complaints() == []


async def test_snapshots_are_deleted_in_any_order(dock: Dock) -> None:
    volume_id = await dock.make()
    first, second, third = [await taken(dock, volume_id) for _ in range(3)]
    for snapshot_id, left in ((second, [first, third]), (third, [first]), (first, [])):
        assert (await dock.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
        await dock.engine.settle()
        assert [file.snapshots for file in await dock.storage.volumes()] == [left]


async def test_several_are_deleted_at_once(dock: Dock) -> None:
    volume_id = await dock.make()
    ids = [await taken(dock, volume_id) for _ in range(3)]
    for snapshot_id in ids:
        assert (await dock.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
        assert (await dock.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await dock.engine.settle()
    assert (await dock.ask("GET", "/snapshots")).json["snapshots"] == []
    assert await dock.complaints() == []


async def test_a_snapshot_that_the_storage_refuses_ends_in_error_with_a_message(
    dock: Dock,
) -> None:
    volume_id = await dock.make()
    dock.storage.knobs.fail("snapshot", NoCapacity("The pool is full."))
    snapshot_id = await taken(dock, volume_id)
    assert (await show(dock, snapshot_id))["status"] == "error"
    (message,) = (await dock.ask("GET", "/messages")).json["messages"]
    assert message["event_id"] == "VOLUME_VOLUME_SNAPSHOT_009_013"
    assert (message["resource_type"], message["resource_uuid"]) == ("VOLUME_SNAPSHOT", snapshot_id)
    assert [file.snapshots for file in await dock.storage.volumes()] == [[]]
    assert (await dock.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await dock.engine.settle()
    assert (await dock.ask("GET", f"/snapshots/{snapshot_id}")).status == 404


async def test_a_deletion_that_the_storage_refuses_may_be_tried_again(dock: Dock) -> None:
    snapshot_id = await taken(dock, await dock.make())
    dock.storage.knobs.fail("merge", Conflict("Somebody holds it."))
    assert (await dock.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await dock.engine.settle()
    assert (await show(dock, snapshot_id))["status"] == "error_deleting"
    assert (await dock.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await dock.engine.settle()
    assert (await dock.ask("GET", f"/snapshots/{snapshot_id}")).status == 404


@pytest.mark.parametrize(
    "status", ["creating", "error", "maintenance", "attaching", "extending", "reserved"]
)
async def test_a_volume_that_is_busy_gets_no_snapshot(dock: Dock, status: str) -> None:
    volume_id = await dock.make()
    await dock.set(volume_id, status=status)
    for version in ("3.65", "3.66"):
        answer = await take(dock, volume_id, version=version)
        assert answer.status == 400
        assert status in answer.fault
    assert (await dock.ask("GET", "/snapshots")).json["snapshots"] == []


async def test_a_volume_in_use_needs_force_below_3_66(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.attach(volume_id, SERVER)
    assert (await take(dock, volume_id)).status == 400
    assert (await take(dock, volume_id, force=False)).status == 400
    assert (await take(dock, volume_id, force=False, version="3.66")).status == 400
    assert (await take(dock, volume_id, force="surely")).status == 400
    assert (await dock.ask("GET", "/snapshots")).json["snapshots"] == []


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"volume_id": UNKNOWN}, 404),
        ({"volume_id": "no id"}, 400),
        ({"volume_id": None}, 400),
        ({"name": "n" * 256}, 400),
        ({"metadata": {"": "x"}}, 400),
        ({"metadata": {"k": 1}}, 400),
    ],
)
async def test_what_cannot_be_taken_is_refused(
    dock: Dock, fields: dict[str, Any], status: int
) -> None:
    body = {"snapshot": {"volume_id": await dock.make(), **fields}}
    assert (await dock.ask("POST", "/snapshots", body)).status == status


async def test_snapshots_count_in_the_quota(dock: Dock) -> None:
    volume_id = await dock.make(size=3)
    path = f"/os-quota-sets/{PROJECT}"
    assert (await dock.ask("PUT", path, {"quota_set": {"gigabytes": 5}}, who="admin")).status == 200
    answer = await take(dock, volume_id)
    assert answer.status == 413
    assert "VolumeSizeExceedsAvailableQuota" in answer.fault
    quotas = {"quota_set": {"gigabytes": 6, "snapshots": 0}}
    assert (await dock.ask("PUT", path, quotas, who="admin")).status == 200
    answer = await take(dock, volume_id)
    assert answer.status == 413
    assert "SnapshotLimitExceeded" in answer.fault
    quotas = {"quota_set": {"snapshots": -1, "snapshots___DEFAULT__": 1}}
    assert (await dock.ask("PUT", path, quotas, who="admin")).status == 200
    await taken(dock, volume_id)
    assert (await take(dock, volume_id)).status == 413


async def test_a_volume_is_made_from_a_snapshot(dock: Dock) -> None:
    source = await dock.make(size=2, imageRef=IMAGE)
    snapshot_id = await taken(dock, source)
    volume_id = await dock.make(size=3, snapshot_id=snapshot_id)
    shown = await dock.show(volume_id)
    assert (shown["status"], shown["size"], shown["bootable"]) == ("available", 3, "true")
    assert shown["snapshot_id"] == snapshot_id
    assert shown["volume_image_metadata"]["image_name"] == "cirros"
    assert await dock.complaints() == []
    answer = await dock.ask("POST", "/volumes", {"volume": {"snapshot_id": snapshot_id}})
    assert answer.json["volume"]["size"] == 2
    await dock.engine.settle()


async def test_a_volume_smaller_than_its_snapshot_is_refused(dock: Dock) -> None:
    snapshot_id = await taken(dock, await dock.make(size=2))
    for fields, status in (
        ({"size": 1, "snapshot_id": snapshot_id}, 400),
        ({"size": 2, "snapshot_id": snapshot_id, "imageRef": IMAGE}, 400),
        ({"size": 2, "snapshot_id": UNKNOWN}, 404),
    ):
        assert (await dock.ask("POST", "/volumes", {"volume": fields})).status == status
    await act(dock, snapshot_id, "os-reset_status", {"status": "error"}, who="admin")
    body = {"volume": {"size": 2, "snapshot_id": snapshot_id}}
    assert (await dock.ask("POST", "/volumes", body)).status == 400


async def test_others_snapshots_look_absent_but_to_an_administrator(dock: Dock) -> None:
    volume_id = await dock.make()
    snapshot_id = await taken(dock, volume_id)
    for method, path, body in (
        ("GET", f"/snapshots/{snapshot_id}", None),
        ("PUT", f"/snapshots/{snapshot_id}", {"snapshot": {"name": "mine"}}),
        ("DELETE", f"/snapshots/{snapshot_id}", None),
        ("GET", f"/snapshots/{snapshot_id}/metadata", None),
        ("POST", "/snapshots", {"snapshot": {"volume_id": volume_id}}),
        ("POST", "/volumes", {"volume": {"snapshot_id": snapshot_id, "size": 1}}),
    ):
        assert (await dock.ask(method, path, body, who="stranger")).status == 404
    told = {"status": "error"}
    answer = await act(dock, snapshot_id, "os-update_snapshot_status", told, who="stranger")
    assert answer.status == 404
    assert (await dock.ask("GET", "/snapshots/detail", who="stranger")).json["snapshots"] == []
    every = await dock.ask("GET", "/snapshots?all_tenants=1", who="admin")
    assert [one["id"] for one in every.json["snapshots"]] == [snapshot_id]


async def test_a_reader_may_look_and_no_more(dock: Dock) -> None:
    volume_id = await dock.make()
    snapshot_id = await taken(dock, volume_id)
    assert (await dock.ask("GET", f"/snapshots/{snapshot_id}", who="reader")).status == 200
    assert (await take(dock, volume_id, who="reader")).status == 403
    assert (await dock.ask("DELETE", f"/snapshots/{snapshot_id}", who="reader")).status == 403
    for action, value in (("os-reset_status", {"status": "error"}), ("os-force_delete", {})):
        assert (await act(dock, snapshot_id, action, value)).status == 403


async def test_name_description_and_metadata_are_changed(dock: Dock) -> None:
    path = f"/snapshots/{await taken(dock, await dock.make(), metadata={'a': '1'})}"
    body = {"snapshot": {"name": "new", "description": "text"}}
    changed = (await dock.ask("PUT", path, body)).json["snapshot"]
    assert (changed["name"], changed["description"]) == ("new", "text")
    assert (await dock.ask("PUT", path, {"snapshot": {}})).status == 400
    merged = await dock.ask("POST", f"{path}/metadata", {"metadata": {"b": "2"}})
    assert merged.json == {"metadata": {"a": "1", "b": "2"}}
    assert (await dock.ask("PUT", f"{path}/metadata/c", {"meta": {"c": "3"}})).status == 200
    assert (await dock.ask("PUT", f"{path}/metadata/c", {"meta": {"d": "3"}})).status == 400
    assert (await dock.ask("GET", f"{path}/metadata/c")).json == {"meta": {"c": "3"}}
    assert (await dock.ask("DELETE", f"{path}/metadata/c")).status == 200
    assert (await dock.ask("DELETE", f"{path}/metadata/c")).status == 404
    whole = await dock.ask("PUT", f"{path}/metadata", {"metadata": {"z": "9"}})
    assert whole.json == {"metadata": {"z": "9"}}


async def test_lists_have_pages_filters_and_an_order(dock: Dock) -> None:
    volume_id, other = await dock.make(), await dock.make()
    ids = [await taken(dock, volume_id, name=name) for name in ("a", "b", "c")]
    await taken(dock, other, name="d", metadata={"k": "v"})

    async def names(query: str) -> list[str]:
        answer = await dock.ask("GET", f"/snapshots/detail?{query}")
        assert answer.status == 200, answer.content
        return [one["name"] for one in answer.json["snapshots"]]

    assert await names("sort=name:asc") == ["a", "b", "c", "d"]
    assert await names(f"volume_id={volume_id}&sort_key=name&sort_dir=desc") == ["c", "b", "a"]
    assert await names(f"sort=name:asc&limit=2&marker={ids[0]}") == ["b", "c"]
    assert await names("status=error") == []
    assert await names("name~=b") == ["b"]
    assert await names("metadata={'k': 'v'}") == ["d"]
    assert await names("availability_zone=nova&name=a") == ["a"]
    assert await names("consumes_quota=false") == []
    paged = (await dock.ask("GET", "/snapshots?limit=1&with_count=1")).json
    assert paged["count"] == 4
    assert paged["snapshots_links"][0]["rel"] == "next"
    assert (await dock.ask("GET", "/snapshots?nonsense=1")).status == 400
    assert (await dock.ask("GET", f"/snapshots?marker={UNKNOWN}")).status == 404


async def test_a_status_set_by_hand_is_told_on_as_upstream_has_it(dock: Dock) -> None:
    snapshot_id = await taken(dock, await dock.make())
    told = {"status": "error", "progress": "80%"}
    assert (await act(dock, snapshot_id, "os-update_snapshot_status", told)).status == 400
    reset = {"status": "creating"}
    assert (await act(dock, snapshot_id, "os-reset_status", reset, who="admin")).status == 202
    wrong = {"status": "deleting", "progress": "80%"}
    assert (await act(dock, snapshot_id, "os-update_snapshot_status", wrong)).status == 400
    for bad in ("101%", "many", ""):
        value = {"status": "error", "progress": bad}
        assert (await act(dock, snapshot_id, "os-update_snapshot_status", value)).status == 400
    assert (await act(dock, snapshot_id, "os-update_snapshot_status", told)).status == 202
    shown = await show(dock, snapshot_id)
    assert shown["status"] == "error"
    assert shown["os-extended-snapshot-attributes:progress"] == "80%"
    bogus = {"status": "bogus"}
    assert (await act(dock, snapshot_id, "os-reset_status", bogus, who="admin")).status == 400


async def test_force_deletes_from_any_status(dock: Dock) -> None:
    snapshot_id = await taken(dock, await dock.make())
    reset = {"status": "creating"}
    await act(dock, snapshot_id, "os-reset_status", reset, who="admin")
    assert (await dock.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 400
    assert (await act(dock, snapshot_id, "os-force_delete", {}, who="admin")).status == 202
    await dock.engine.settle()
    assert (await dock.ask("GET", f"/snapshots/{snapshot_id}")).status == 404


async def test_a_restart_ends_what_was_begun(dock: Dock) -> None:
    volume_id = await dock.make()
    dock.storage.knobs.hold("snapshot")
    snapshot_id = (await take(dock, volume_id)).json["snapshot"]["id"]
    await dock.restart()
    await dock.engine.settle()
    assert (await show(dock, snapshot_id))["status"] == "available"
    assert await dock.complaints() == []


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
    dock: Dock, status: str, missing: bool, settled: str
) -> None:
    snapshot_id = await taken(dock, volume_id := await dock.make())
    if missing:
        await dock.storage.delete_snapshot(volume_id, snapshot_id, "by hand")
    await act(dock, snapshot_id, "os-reset_status", {"status": status}, who="admin")
    dock.clock.advance(599)
    await settle_once(dock.volume)
    assert (await show(dock, snapshot_id))["status"] == status
    dock.clock.advance(2)
    await settle_once(dock.volume)
    assert (await show(dock, snapshot_id))["status"] == settled
