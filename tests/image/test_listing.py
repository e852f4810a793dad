from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.image.cloud import OTHER_PROJECT, PROJECT, ImageCloud

anywhere = pytest.mark.anyio


async def names(cloud: ImageCloud, query: str, user: str = "member") -> list[str]:
    answer = await cloud.ask("GET", f"/images?{query}", user=user)
    assert answer.status == 200, answer.text
    return [each["name"] for each in answer.body["images"]]


@anywhere
async def test_the_newest_comes_first(cloud: ImageCloud) -> None:
    for name in ("a", "b", "c"):
        await cloud.make(name=name)
        cloud.clock.advance(1)
    assert await names(cloud, "") == ["c", "b", "a"]
    assert await names(cloud, "sort=name:asc") == ["a", "b", "c"]
    assert await names(cloud, "sort_key=name&sort_dir=asc") == ["a", "b", "c"]
    assert await names(cloud, "sort_dir=asc") == ["a", "b", "c"]


@anywhere
async def test_who_sees_what(cloud: ImageCloud) -> None:
    for visibility in ("private", "shared", "community"):
        await cloud.make(name=f"own {visibility}", visibility=visibility)
        body = {"name": f"their {visibility}", "visibility": visibility}
        await cloud.ask("POST", "/images", body, user="stranger")
    await cloud.make("admin", name="public", visibility="public", owner=OTHER_PROJECT)
    await cloud.make(name="hidden", os_hidden=True)
    own = {"own private", "own shared", "own community"}
    their = {"their private", "their shared", "their community"}
    for query, expected in {
        "": own | {"public"},
        "visibility=all": own | {"public", "their community"},
        "visibility=community": {"own community", "their community"},
        "visibility=private": {"own private"},
        "visibility=public": {"public"},
        f"owner={PROJECT}": own,
        "os_hidden=true": {"hidden"},
    }.items():
        assert set(await names(cloud, query)) == expected, query
    assert set(await names(cloud, "", "admin")) == own | their | {"public"}


@anywhere
async def test_a_name_that_a_filter_repeats_counts_once(tmp_path: Path, database: str) -> None:
    async with ImageCloud(tmp_path, database=database) as cloud:
        await cloud.make(name="a")
        assert await names(cloud, "name=in:" + ",".join(["a", "b"] * 35000)) == ["a"]


@anywhere
async def test_filters_choose(cloud: ImageCloud) -> None:
    small = await cloud.filled(b"x", name="small", hw_disk_bus="scsi", tags=["t", "u"])
    large = await cloud.filled(b"x" * 100, name="large", tags=["t"], min_ram=64)
    cloud.clock.advance(3600)
    await cloud.make(name="a,b", disk_format="qcow2", protected=True)
    for query, expected in {
        f"id=in:{small},{large}": {"small", "large"},
        "name=small": {"small"},
        'name=in:small,"a,b"': {"small", "a,b"},
        "status=active": {"small", "large"},
        "status=in:queued,saving": {"a,b"},
        "disk_format=qcow2": {"a,b"},
        "size_min=2": {"large"},
        "size_max=2": {"small"},
        "size=100": {"large"},
        "min_ram=64": {"large"},
        "tag=t": {"small", "large"},
        "tag=t&tag=u": {"small"},
        "hw_disk_bus=scsi": {"small"},
        "hw_disk_bus=ide": set[str](),
        "protected=true": {"a,b"},
        "created_at=gt:2026-01-01T00:30:00Z": {"a,b"},
        "created_at=lte:2026-01-01T00:30:00Z": {"small", "large"},
    }.items():
        assert set(await names(cloud, query)) == expected, query


@anywhere
@pytest.mark.parametrize(
    "query",
    [
        "sort=colour",
        "sort_key=name&sort_dir=up",
        "sort_dir=up",
        "marker=nothing",
        "limit=-1",
        "size_min=x",
        "visibility=secret",
        "member_status=maybe",
        "protected=maybe",
        "created_at=yesterday",
        'name=in:"a',
    ],
)
async def test_a_query_that_makes_no_sense_is_400(cloud: ImageCloud, query: str) -> None:
    assert (await cloud.ask("GET", f"/images?{query}")).status == 400


@anywhere
async def test_without_a_limit_a_page_has_25_and_next_is_a_path(cloud: ImageCloud) -> None:
    for number in range(26):
        await cloud.make(name=f"{number:02}")
    body = (await cloud.ask("GET", "/images?sort=name:asc&visibility=all")).body
    assert len(body["images"]) == 25
    last = body["images"][-1]["id"]
    assert body["next"] == f"/v2/images?sort=name%3Aasc&visibility=all&marker={last}"
    assert body["first"] == "/v2/images?sort=name%3Aasc&visibility=all"
    rest = (await cloud.ask("GET", body["next"].removeprefix("/v2"))).body
    assert [each["name"] for each in rest["images"]] == ["25"]
    assert "next" not in rest


IMAGES = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["a", "b", None]),
            "disk_format": st.sampled_from(["raw", "qcow2", None]),
            "min_disk": st.integers(0, 2),
        }
    ),
    max_size=7,
)
KEYS = st.lists(
    st.tuples(
        st.sampled_from(["name", "disk_format", "min_disk", "size", "created_at", "id"]),
        st.sampled_from(["asc", "desc"]),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda pair: pair[0],
)


@given(IMAGES, KEYS, st.integers(1, 4))
@settings(max_examples=15)
def test_pages_join_to_the_whole_list_in_every_order(
    images: list[dict[str, Any]], keys: list[tuple[str, str]], limit: int
) -> None:
    asyncio.run(join(images, ",".join(":".join(pair) for pair in keys), limit))


async def join(images: list[dict[str, Any]], sort: str, limit: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with ImageCloud(Path(folder), inline=True) as cloud:
            for image in images:
                answer = await cloud.ask("POST", "/images", image)
                assert answer.status == 201, answer.text
            whole = (await cloud.ask("GET", f"/images?sort={sort}")).body["images"]
            assert len(whole) == len(images)
            joined: list[Any] = []
            path: str | None = f"/images?sort={sort}&limit={limit}"
            while path is not None:
                body = (await cloud.ask("GET", path)).body
                assert len(body["images"]) <= limit
                joined += body["images"]
                path = body["next"].removeprefix("/v2") if "next" in body else None
            assert joined == whole


@anywhere
async def test_a_marker_that_is_not_seen_tells_nothing(cloud: ImageCloud) -> None:
    await cloud.make(name="a")
    secret = await cloud.make("stranger", name="m", visibility="private")
    for order in ("", "sort=name:desc&", "sort=size:asc&"):
        refused = await cloud.ask("GET", f"/images?{order}marker={secret}")
        assert refused.status == 400
    assert await names(cloud, f"sort=name:desc&marker={secret}", user="admin") == ["a"]
