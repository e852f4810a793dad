from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import update

from mooring.volume.tables import BackendRow
from tests.volume.cloud import IMAGE, UNKNOWN, VolumeCloud

pytestmark = pytest.mark.anyio


async def names(cloud: VolumeCloud, query: str, **more: Any) -> list[str]:
    answer = await cloud.ask("GET", f"/volumes?{query}", **more)
    assert answer.status == 200, answer.content
    return [row["name"] for row in answer.body["volumes"]]


async def fill(cloud: VolumeCloud) -> dict[str, str]:
    """Make a, b and c, one second apart, and return their ids."""
    made = {"a": await cloud.make(name="a", size=3, metadata={"k": "v", "x": "%"})}
    cloud.clock.advance(1)
    made["b"] = await cloud.make(name="b", size=1, imageRef=IMAGE)
    cloud.clock.advance(1)
    made["c"] = await cloud.make(name="c", size=2, metadata={"k": "w"})
    return made


async def test_newest_first_unless_sorted_otherwise(cloud: VolumeCloud) -> None:
    await fill(cloud)
    assert await names(cloud, "") == ["c", "b", "a"]
    assert await names(cloud, "sort=size:asc") == ["b", "c", "a"]
    assert await names(cloud, "sort=name:asc,size:desc") == ["a", "b", "c"]
    assert await names(cloud, "sort_key=name&sort_dir=desc") == ["c", "b", "a"]
    assert await names(cloud, "sort_dir=asc") == ["a", "b", "c"]
    assert (await cloud.ask("GET", "/volumes?sort_dir=up")).status == 400
    assert (await cloud.ask("GET", "/volumes?sort=name:up")).status == 400
    assert (await cloud.ask("GET", "/volumes?sort=colour:asc")).status == 400
    for user, status in (("member", 400), ("admin", 200)):
        by_host = await cloud.ask("GET", "/volumes?sort=host:asc", user=user)
        assert by_host.status == status
    assert (await cloud.ask("GET", "/volumes?sort=name:asc&sort_key=name")).status == 400


async def test_pages_follow_each_other_by_marker(cloud: VolumeCloud) -> None:
    made = await fill(cloud)
    for order in ("", *(f"sort={key}:asc&" for key in ("size", "description", "bootable"))):
        everything = await names(cloud, order)
        first = await cloud.ask("GET", f"/volumes?{order}limit=2")
        assert [row["name"] for row in first.body["volumes"]] == everything[:2]
        (link,) = first.body["volumes_links"]
        assert link["rel"] == "next"
        rest = await cloud.ask("GET", link["href"])
        assert [row["name"] for row in rest.body["volumes"]] == everything[2:]
        assert "volumes_links" not in rest.body
    assert await names(cloud, "limit=0") == []
    assert await names(cloud, f"offset=1&marker={made['c']}") == ["a"]
    assert (await cloud.ask("GET", f"/volumes?marker={UNKNOWN}")).status == 404
    for bad in ("-1", "two"):
        assert (await cloud.ask("GET", f"/volumes?limit={bad}")).status == 400


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
async def test_filters_find(cloud: VolumeCloud, query: str, found: list[str]) -> None:
    await fill(cloud)
    assert await names(cloud, query) == found


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
async def test_filters_that_make_no_sense_are_refused(cloud: VolumeCloud, query: str) -> None:
    assert (await cloud.ask("GET", f"/volumes?{query}")).status == 400


async def test_an_unknown_filter_is_ignored_below_3_31(cloud: VolumeCloud) -> None:
    await fill(cloud)
    assert len(await names(cloud, "colour=red", version="3.30")) == 3


@pytest.mark.parametrize("kind", ["volumes", "snapshots", "backups"])
async def test_times_and_numbers_are_read_as_such_for_every_list(
    cloud: VolumeCloud, kind: str
) -> None:
    for query in ("created_at=x", "updated_at=x", "created_at=gt:noon"):
        assert (await cloud.ask("GET", f"/{kind}?{query}", user="admin")).status == 400
    of_size = {"snapshots": "volume_size"}.get(kind, "size")
    assert (await cloud.ask("GET", f"/{kind}?{of_size}=big", user="admin")).status == 400
    then = "created_at=gte:2026-01-01T00:00:01,lt:2026-01-01T00:00:02"
    for query in (then, f"{of_size}=1"):
        assert (await cloud.ask("GET", f"/{kind}?{query}", user="admin")).status == 200


async def test_only_an_administrator_sees_all_projects(cloud: VolumeCloud) -> None:
    await cloud.make(name="mine")
    await cloud.make(name="theirs", user="stranger")
    assert await names(cloud, "all_tenants=1") == ["mine"]
    assert await names(cloud, "all_tenants=False") == ["mine"]
    assert sorted(await names(cloud, "all_tenants=1", user="admin")) == ["mine", "theirs"]
    assert await names(cloud, "", user="admin") == ["mine"]
    other = "fedcba9876543210fedcba9876543210"
    assert await names(cloud, f"all_tenants=1&project_id={other}", user="admin") == ["theirs"]


async def test_detail_and_count_and_summary(cloud: VolumeCloud) -> None:
    await fill(cloud)
    answer = await cloud.ask("GET", "/volumes/detail?limit=1&with_count=True", user="admin")
    assert answer.body["count"] == 3
    (shown,) = answer.body["volumes"]
    assert shown["os-vol-host-attr:host"] == "host1@simulated#fast"
    below = await cloud.ask("GET", "/volumes/detail?with_count=True", version="3.44")
    assert "count" not in below.body
    summary = await cloud.ask("GET", "/volumes/summary")
    assert summary.body["volume-summary"]["total_count"] == 3
    assert summary.body["volume-summary"]["total_size"] == 6
    assert sorted(summary.body["volume-summary"]["metadata"]["k"]) == ["v", "w"]
    older = await cloud.ask("GET", "/volumes/summary", version="3.12")
    assert older.body == {"volume-summary": {"total_count": 3, "total_size": 6}}
    assert (await cloud.ask("GET", "/volumes/summary", version="3.11")).status == 404


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
    cloud: VolumeCloud, version: str, more: set[str], admin: set[str]
) -> None:
    volume_id = await cloud.make()
    assert set(await cloud.show(volume_id, user="member", version=version)) == BASE | more
    shown = await cloud.show(volume_id, user="admin", version=version)
    assert set(shown) == BASE | more | ADMIN | admin


@pytest.mark.parametrize(
    ("protocol", "before", "since"),
    [("nfs", False, False), ("iSCSI", True, True), ("NVMe-oF", True, None)],
)
async def test_whether_targets_are_shared_is_what_the_pool_speaks(
    cloud: VolumeCloud, protocol: str, before: bool, since: bool | None
) -> None:
    volume_id = await cloud.make()
    await cloud.volume.store.write(
        lambda tx: tx.execute(update(BackendRow).values(protocol=protocol))
    )
    shown = [await cloud.show(volume_id, version=version) for version in ("3.68", "3.69")]
    assert [one["shared_targets"] for one in shown] == [before, since]
    assert shown[0]["service_uuid"] == shown[1]["service_uuid"] is not None
    (listed,) = (await cloud.ask("GET", "/volumes/detail", version="3.69")).key("volumes")
    assert listed["shared_targets"] is since


async def test_the_newest_version_is_3_71(cloud: VolumeCloud) -> None:
    assert (await cloud.ask("GET", "/volumes", version="latest")).status == 200
    refused = await cloud.ask("GET", "/volumes", version="3.72")
    assert refused.status == 406
    assert "computeFault" in refused.body
    assert refused.headers["openstack-api-version"] == "volume 3.72"
    shown = await cloud.show(await cloud.make())
    assert shown["shared_targets"] is False
    assert shown["created_at"].endswith("00:00.000000")


async def test_a_marker_of_another_project_tells_nothing(cloud: VolumeCloud) -> None:
    secret = await cloud.make(name="m", user="stranger")
    await cloud.make(name="a")
    for order in ("", "sort=name:desc&", "sort=size:asc&"):
        refused = await cloud.ask("GET", f"/volumes?{order}marker={secret}")
        assert refused.status == 404
    listed = await cloud.ask("GET", f"/volumes?marker={secret}&all_tenants=1", user="admin")
    assert listed.status == 200


async def walk(cloud: VolumeCloud, path: str, key: str, *, user: str = "member") -> list[str]:
    """Return the ids of what a list has, read two rows a page by its links."""
    found, href = list[str](), f"{path}{'&' if '?' in path else '?'}limit=2"
    while href:
        answer = await cloud.ask("GET", href, user=user, version="3.67")
        page = [row["id"] for row in answer.key(key)]
        assert len(page) <= 2
        found += page
        name = {"volume_types": "volume_type_links"}.get(key, f"{key}_links")
        href = answer.body[name][0]["href"] if name in answer.body else ""
    return found


async def test_messages_come_in_pages_and_by_what_they_say(cloud: VolumeCloud) -> None:
    name = await cloud.type_with(vendor_name="nobody")
    volumes = [await cloud.make(volume_type=name) for _ in range(3)]
    await cloud.make(volume_type=name, user="stranger")

    async def uuids(query: str, *, user: str = "member", version: str = "3.5") -> list[str]:
        answer = await cloud.ask("GET", f"/messages?{query}", user=user, version=version)
        return [row["resource_uuid"] for row in answer.key("messages")]

    every = (await cloud.ask("GET", "/messages")).key("messages")
    assert {row["resource_uuid"] for row in every} == set(volumes)
    assert await walk(cloud, "/messages", "messages") == [row["id"] for row in every]
    assert await uuids("sort=resource_uuid:asc&offset=1") == sorted(volumes)[1:]
    for key in ("resource_uuid", "request_id"):
        assert await uuids(f"{key}={every[0][key]}&limit=1") == [every[0]["resource_uuid"]]
    for key in ("resource_type", "event_id", "message_level"):
        assert len(await uuids(f"{key}={every[0][key]}")) == 3
        assert await uuids(f"{key}=NONE") == []
    assert len(await uuids("limit=1&resource_type=NONE", version="3.4")) == 3
    assert len(await uuids("all_tenants=1", user="admin")) == 4
    assert len(await uuids("all_tenants=1")) == 3
    theirs = (await cloud.ask("GET", "/messages", user="stranger")).key("messages")[0]["id"]
    for query, version, status in (
        (f"marker={theirs}", "3.5", 404),
        ("limit=-1", "3.5", 400),
        ("colour=red", "3.30", 200),
        ("colour=red", "3.31", 400),
    ):
        answer = await cloud.ask("GET", f"/messages?{query}", version=version)
        assert answer.status == status, query


async def test_types_come_in_pages(cloud: VolumeCloud) -> None:
    for at in range(3):
        cloud.clock.advance(1)
        await cloud.type_with(**{str(at): "1"})
    body = {"volume_type": {"name": "hidden", "os-volume-type-access:is_public": False}}
    hidden = (await cloud.ask("POST", "/types", body, user="admin")).key("volume_type")["id"]
    every = [row["id"] for row in (await cloud.ask("GET", "/types")).key("volume_types")]
    assert len(every) == 4
    assert await walk(cloud, "/types", "volume_types") == every
    assert await walk(cloud, "/types", "volume_types", user="admin") == every
    path = "/types?is_public=None&sort=name:asc"
    seen = await walk(cloud, path, "volume_types", user="admin")
    assert set(seen) == {*every, hidden}
    assert seen[1] == hidden
    for query, status in ((f"marker={hidden}", 404), ("limit=two", 400), ("sort=specs:asc", 400)):
        assert (await cloud.ask("GET", f"/types?{query}")).status == status
