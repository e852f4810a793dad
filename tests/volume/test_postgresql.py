"""What SQL says in two dialects: the same service on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from mooring.volume.attachments.loops.settle_borrowed import settle_once
from tests.callers import PROJECT
from tests.volume.cloud import IMAGE, VolumeCloud
from tests.volume.growth import Harbour
from tests.volume.test_assisted_snapshots import Assisting
from tests.volume.test_snapshots import taken, usage

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.fixture
async def cloud(
    tmp_path: Path, postgres_url: str, anyio_backend: str
) -> AsyncIterator[VolumeCloud]:
    async with VolumeCloud(tmp_path, database=postgres_url) as opened:
        yield opened


async def test_a_volume_lives_its_whole_life(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make(imageRef=IMAGE)
    attachment_id = await cloud.attach(volume_id)
    assert (await cloud.act(volume_id, "os-begin_detaching")).status == 202
    cloud.clock.advance(601)
    await settle_once(cloud.volume)
    assert await cloud.status(volume_id) == "in-use"
    assert (await cloud.detach(attachment_id)).status == 200
    body = {"status": "error"}
    assert (await cloud.act(volume_id, "os-reset_status", body, user="admin")).status == 202
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await cloud.settle()
    assert await cloud.count_volumes() == 0
    assert await cloud.complaints() == []


@pytest.mark.parametrize(
    "query",
    [
        "sort=description:asc",
        "sort=updated_at:desc,size:asc,bootable:asc,migration_status:asc",
        f"metadata={quote(str({'k': 'v'}))}",
        "name~=A",
        "created_at=gt:2020-01-01T00:00:00",
        "bootable=false",
    ],
)
async def test_lists_are_found_and_paged(cloud: VolumeCloud, query: str) -> None:
    volume_id = await cloud.make(name="a", metadata={"k": "v"})
    found = await cloud.ask("GET", f"/volumes/detail?{query}")
    assert [row["id"] for row in found.body["volumes"]] == [volume_id]
    after = await cloud.ask("GET", f"/volumes/detail?{query}&marker={volume_id}")
    assert after.body["volumes"] == []


async def test_what_is_counted_is_counted(cloud: VolumeCloud) -> None:
    await cloud.make(size=1)
    assert await cloud.status(await cloud.make(size=2)) == "available"
    for path in (f"/os-quota-sets/{PROJECT}?usage=true", "/limits", "/volumes/summary"):
        answer = await cloud.ask("GET", path)
        assert (answer.status, b":3" in answer.content) == (200, True)
    pools = await cloud.ask("GET", "/scheduler-stats/get_pools?detail=1", user="admin")
    assert pools.body["pools"][0]["capabilities"]["provisioned_capacity_gb"] == 3


async def test_a_volume_grows_alone_and_under_a_guest(cloud: VolumeCloud) -> None:
    harbour = Harbour(cloud)
    free, held = await cloud.make(), await harbour.made()
    assert (await harbour.extend(free, 3)).status == 202
    assert await harbour.state(free) == ("available", 3)
    await harbour.extend(held, 2)
    assert await harbour.state(held) == ("extending", 1)
    assert await harbour.gigabytes() == (4, 1)
    await harbour.grow(held)
    codes = [answer.status for answer in await asyncio.gather(*map(harbour.complete, [held] * 3))]
    assert sorted(codes) == [202, 400, 400]
    assert await harbour.state(held) == ("in-use", 2)
    assert await harbour.is_at_peace()


async def test_extends_at_once_take_no_more_than_the_quota(cloud: VolumeCloud) -> None:
    harbour = Harbour(cloud)
    volumes = [await cloud.make() for _ in range(4)]
    body = {"quota_set": {"gigabytes": 6}}
    await cloud.ask("PUT", f"/os-quota-sets/{PROJECT}", body, user="admin")
    codes = [answer.status for answer in await asyncio.gather(*map(harbour.extend, volumes))]
    assert sorted(codes) == [202, 202, 413, 413]
    await harbour.rest()
    assert await harbour.gigabytes() == (6, 0)
    assert await harbour.is_at_peace()


async def test_snapshots_are_taken_told_of_copied_and_deleted(cloud: VolumeCloud) -> None:
    compute = Assisting(cloud)
    cloud.volume.compute = compute
    volume_id = await cloud.make(size=2)
    free = await taken(cloud, volume_id, name="free", metadata={"k": "v"})
    copy_id = await cloud.make(snapshot_id=free, size=2)
    await cloud.attach(volume_id)
    compute.says = {"status": "creating"}
    used = await taken(cloud, volume_id, version="3.66")
    for query in (
        "sort=progress:asc,description:asc,name:desc&limit=1",
        f"metadata={quote(str({'k': 'v'}))}",
        "name~=FREE",
        f"availability_zone=nova&volume_id={volume_id}&sort=name:desc&limit=1",
    ):
        found = (await cloud.ask("GET", f"/snapshots/detail?{query}")).body["snapshots"]
        assert [row["id"] for row in found][:1] == [free]
    assert await usage(cloud) == {"volumes": 2, "snapshots": 2, "gigabytes": 8}
    compute.says = {"status": "deleting"}
    for snapshot_id in (used, free):
        assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await cloud.settle()
    assert await usage(cloud) == {"volumes": 2, "snapshots": 0, "gigabytes": 4}
    assert await cloud.status(copy_id) == "available"
    assert await cloud.complaints() == []
