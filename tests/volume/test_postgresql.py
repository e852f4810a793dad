"""What SQL says in two dialects: the same service on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from mooring.volume.loops.settle_borrowed import settle_once
from tests.volume.dock import IMAGE, PROJECT, Dock

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
