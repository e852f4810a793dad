from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.volume.dock import IMAGE, UNKNOWN, Dock

pytestmark = pytest.mark.anyio


async def names(dock: Dock, query: str, **more: Any) -> list[str]:
    answer = await dock.ask("GET", f"/volumes?{query}", **more)
    assert answer.status == 200, answer.content
    return [row["name"] for row in answer.json["volumes"]]


async def fill(dock: Dock) -> dict[str, str]:
    """Make a, b and c, one second apart, and return their ids."""
    made = {"a": await dock.make(name="a", size=3, metadata={"k": "v", "x": "%"})}
    dock.clock.advance(1)
    made["b"] = await dock.make(name="b", size=1, imageRef=IMAGE)
    dock.clock.advance(1)
    made["c"] = await dock.make(name="c", size=2, metadata={"k": "w"})
    return made


async def test_newest_first_unless_sorted_otherwise(dock: Dock) -> None:
    await fill(dock)
    assert await names(dock, "") == ["c", "b", "a"]
    assert await names(dock, "sort=size:asc") == ["b", "c", "a"]
    assert await names(dock, "sort=name:asc,size:desc") == ["a", "b", "c"]
    assert await names(dock, "sort_key=name&sort_dir=desc") == ["c", "b", "a"]
    assert (await dock.ask("GET", "/volumes?sort=name:up")).status == 400
    assert (await dock.ask("GET", "/volumes?sort=colour:asc")).status == 400
    assert (await dock.ask("GET", "/volumes?sort=name:asc&sort_key=name")).status == 400


async def test_pages_follow_each_other_by_marker(dock: Dock) -> None:
    made = await fill(dock)
    for order in ("", *(f"sort={key}:asc&" for key in ("size", "description", "bootable"))):
        everything = await names(dock, order)
        first = await dock.ask("GET", f"/volumes?{order}limit=2")
        assert [row["name"] for row in first.json["volumes"]] == everything[:2]
        (link,) = first.json["volumes_links"]
        assert link["rel"] == "next"
        rest = await dock.ask("GET", link["href"].removeprefix("http://cloud/volume/v3"))
        assert [row["name"] for row in rest.json["volumes"]] == everything[2:]
        assert "volumes_links" not in rest.json
    assert await names(dock, "limit=0") == []
    assert await names(dock, f"offset=1&marker={made['c']}") == ["a"]
    assert (await dock.ask("GET", f"/volumes?marker={UNKNOWN}")).status == 404
    for bad in ("-1", "two"):
        assert (await dock.ask("GET", f"/volumes?limit={bad}")).status == 400


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("name=a", ["a"]),
        ("status=available", ["c", "b", "a"]),
        ("status=null", []),
        ("size=2", ["c"]),
        ("bootable=True", ["b"]),
        ("bootable=false", ["c", "a"]),
        ("availability_zone=nova", ["c", "b", "a"]),
        ("migration_status=none", []),
        ("consumes_quota=true", ["c", "b", "a"]),
        ("consumes_quota=false", []),
        ("group_id=x", []),
        (f"metadata={quote(str({'k': 'v'}))}", ["a"]),
        (f"metadata={quote(str({'x': '%'}))}", ["a"]),
        (f"metadata={quote(str({'k': 'V'}))}", []),
        (f"metadata={quote(str({'k': '%'}))}", []),
        (f"glance_metadata={quote(str({'image_name': 'cirros'}))}", ["b"]),
        ("name~=B", ["b"]),
        ("created_at=gte:2026-01-01T00:00:01,lt:2026-01-01T00:00:02", ["b"]),
        ("name=a&size=2", []),
    ],
)
async def test_filters_find(dock: Dock, query: str, found: list[str]) -> None:
    await fill(dock)
    assert await names(dock, query) == found


@pytest.mark.parametrize(
    "query",
    [
        "bootable=maybe",
        "size=big",
        "metadata=[1]",
        "metadata=k",
        "created_at=gt:noon",
        "colour=red",
    ],
)
async def test_filters_that_make_no_sense_are_refused(dock: Dock, query: str) -> None:
    assert (await dock.ask("GET", f"/volumes?{query}")).status == 400


async def test_an_unknown_filter_is_ignored_below_3_31(dock: Dock) -> None:
    await fill(dock)
    assert len(await names(dock, "colour=red", version="3.30")) == 3


async def test_only_an_administrator_sees_all_projects(dock: Dock) -> None:
    await dock.make(name="mine")
    await dock.make(name="theirs", who="stranger")
    assert await names(dock, "all_tenants=1") == ["mine"]
    assert await names(dock, "all_tenants=False") == ["mine"]
    assert sorted(await names(dock, "all_tenants=1", who="admin")) == ["mine", "theirs"]
    assert await names(dock, "", who="admin") == ["mine"]
    other = "fedcba9876543210fedcba9876543210"
    assert await names(dock, f"all_tenants=1&project_id={other}", who="admin") == ["theirs"]


async def test_detail_and_count_and_summary(dock: Dock) -> None:
    await fill(dock)
    answer = await dock.ask("GET", "/volumes/detail?limit=1&with_count=True", who="admin")
    assert answer.json["count"] == 3
    (shown,) = answer.json["volumes"]
    assert shown["os-vol-host-attr:host"] == "host1@simulated#fast"
    below = await dock.ask("GET", "/volumes/detail?with_count=True", version="3.44")
    assert "count" not in below.json
    summary = await dock.ask("GET", "/volumes/summary")
    assert summary.json["volume-summary"]["total_count"] == 3
    assert summary.json["volume-summary"]["total_size"] == 6
    assert sorted(summary.json["volume-summary"]["metadata"]["k"]) == ["v", "w"]
    older = await dock.ask("GET", "/volumes/summary", version="3.12")
    assert older.json == {"volume-summary": {"total_count": 3, "total_size": 6}}
    assert (await dock.ask("GET", "/volumes/summary", version="3.11")).status == 404


BASE = {
    *("id", "status", "size", "availability_zone", "created_at", "updated_at", "name"),
    *("description", "volume_type", "snapshot_id", "source_volid", "metadata", "links"),
    *("user_id", "bootable", "encrypted", "replication_status", "consistencygroup_id"),
    *("multiattach", "attachments", "os-vol-tenant-attr:tenant_id"),
}
ADMIN = {
    *("migration_status", "os-vol-host-attr:host", "os-vol-mig-status-attr:migstat"),
    "os-vol-mig-status-attr:name_id",
}


@pytest.mark.parametrize(
    ("version", "more", "admin"),
    [
        ("3.0", set[str](), set[str]()),
        ("3.13", {"group_id"}, set[str]()),
        ("3.21", {"group_id"}, {"provider_id"}),
        ("3.48", {"group_id", "shared_targets", "service_uuid"}, {"provider_id"}),
        (
            "3.67",
            {
                *("group_id", "shared_targets", "service_uuid"),
                *("volume_type_id", "consumes_quota"),
            },
            {"provider_id", "cluster_name"},
        ),
    ],
)
async def test_each_version_shows_its_keys_and_no_other(
    dock: Dock, version: str, more: set[str], admin: set[str]
) -> None:
    volume_id = await dock.make()
    assert set(await dock.show(volume_id, who="member", version=version)) == BASE | more
    shown = await dock.show(volume_id, who="admin", version=version)
    assert set(shown) == BASE | more | ADMIN | admin


async def test_the_newest_version_is_3_71(dock: Dock) -> None:
    assert (await dock.ask("GET", "/volumes", version="latest")).status == 200
    refused = await dock.ask("GET", "/volumes", version="3.72")
    assert refused.status == 406
    assert "computeFault" in refused.json
    assert refused.headers["openstack-api-version"] == "volume 3.72"
    shown = await dock.show(await dock.make())
    assert shown["shared_targets"] is False
    assert shown["created_at"].endswith("00:00.000000")
