"""What SQL says in two dialects: the same service on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from mooring.volume.attachments.loops.settle_borrowed import settle_once
from tests.volume.dock import IMAGE, PROJECT, Dock
from tests.volume.growth import Harbour
from tests.volume.test_assisted_snapshots import Assisting
from tests.volume.test_snapshots import taken, usage

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.fixture
async def dock(tmp_path: Path, postgres_url: str, anyio_backend: str) -> AsyncIterator[Dock]:
    opened = Dock(tmp_path, database=postgres_url)
    await opened.open()
    yield opened
    await opened.close()


async def test_a_volume_lives_its_whole_life(dock: Dock) -> None:
    volume_id = await dock.make(imageRef=IMAGE)
    attachment_id = await dock.attach(volume_id)
    assert (await dock.act(volume_id, "os-begin_detaching")).status == 202
    dock.clock.advance(601)
    await settle_once(dock.volume)
    assert await dock.status(volume_id) == "in-use"
    assert (await dock.detach(attachment_id)).status == 200
    body = {"status": "error"}
    assert (await dock.act(volume_id, "os-reset_status", body, who="admin")).status == 202
    assert (await dock.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await dock.engine.settle()
    assert await dock.count_volumes() == 0
    assert await dock.complaints() == []


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
async def test_lists_are_found_and_paged(dock: Dock, query: str) -> None:
    volume_id = await dock.make(name="a", metadata={"k": "v"})
    found = await dock.ask("GET", f"/volumes/detail?{query}")
    assert [row["id"] for row in found.json["volumes"]] == [volume_id]
    after = await dock.ask("GET", f"/volumes/detail?{query}&marker={volume_id}")
    assert after.json["volumes"] == []


async def test_what_is_counted_is_counted(dock: Dock) -> None:
    await dock.make(size=1)
    assert await dock.status(await dock.make(size=2)) == "available"
    for path in (f"/os-quota-sets/{PROJECT}?usage=true", "/limits", "/volumes/summary"):
        answer = await dock.ask("GET", path)
        assert (answer.status, b":3" in answer.content) == (200, True)
    pools = await dock.ask("GET", "/scheduler-stats/get_pools?detail=1", who="admin")
    assert pools.json["pools"][0]["capabilities"]["provisioned_capacity_gb"] == 3


async def test_a_volume_grows_alone_and_under_a_guest(dock: Dock) -> None:
    harbour = Harbour(dock)
    free, held = await dock.make(), await harbour.made()
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


async def test_extends_at_once_take_no_more_than_the_quota(dock: Dock) -> None:
    harbour = Harbour(dock)
    volumes = [await dock.make() for _ in range(4)]
    body = {"quota_set": {"gigabytes": 6}}
    await dock.ask("PUT", f"/os-quota-sets/{PROJECT}", body, who="admin")
    codes = [answer.status for answer in await asyncio.gather(*map(harbour.extend, volumes))]
    assert sorted(codes) == [202, 202, 413, 413]
    await harbour.rest()
    assert await harbour.gigabytes() == (6, 0)
    assert await harbour.is_at_peace()


async def test_snapshots_are_taken_told_of_copied_and_deleted(dock: Dock) -> None:
    compute = Assisting(dock)
    dock.volume.compute = compute
    volume_id = await dock.make(size=2)
    free = await taken(dock, volume_id, name="free", metadata={"k": "v"})
    copy_id = await dock.make(snapshot_id=free, size=2)
    await dock.attach(volume_id)
    compute.says = {"status": "creating"}
    used = await taken(dock, volume_id, version="3.66")
    for query in (
        "sort=progress:asc,description:asc,name:desc&limit=1",
        f"metadata={quote(str({'k': 'v'}))}",
        "name~=FREE",
        f"availability_zone=nova&volume_id={volume_id}&sort=name:desc&limit=1",
    ):
        found = (await dock.ask("GET", f"/snapshots/detail?{query}")).json["snapshots"]
        assert [row["id"] for row in found][:1] == [free]
    assert await usage(dock) == {"volumes": 2, "snapshots": 2, "gigabytes": 8}
    compute.says = {"status": "deleting"}
    for snapshot_id in (used, free):
        assert (await dock.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await dock.engine.settle()
    assert await usage(dock) == {"volumes": 2, "snapshots": 0, "gigabytes": 4}
    assert await dock.status(copy_id) == "available"
    assert await dock.complaints() == []
