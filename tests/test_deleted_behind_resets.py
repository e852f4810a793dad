"""What is deleted while a reset is to end its deletion: no request is answered well and lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cloud import SimulatedCloud
from tests.volume.movers import Silence

pytestmark = pytest.mark.anyio
VOLUMES, SHARES = "/volume/v3/volumes", "/share/v2/shares"
MADE: dict[str, dict[str, Any]] = {
    VOLUMES: {"volume": {"size": 1}},
    SHARES: {"share": {"size": 1, "share_proto": "NFS"}},
}
RESETS = {VOLUMES: "os-reset_status", SHARES: "reset_status"}
VERSIONS = {VOLUMES: "3.67", SHARES: "2.65"}


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path, database=database) as opened:
        yield opened


@pytest.mark.parametrize("root", MADE)
async def test_a_deletion_is_refused_until_the_reset_has_ended(
    cloud: SimulatedCloud, root: str
) -> None:
    made = await cloud.do("POST", root, MADE[root], version=VERSIONS[root])
    assert made is not None
    path = f"{root}/{made.key(next(iter(MADE[root])))['id']}"
    await cloud.settle()
    silence = Silence(cloud, ("h1", "DELETE", f"/{root.rsplit('/', 1)[1]}/"))
    assert (await cloud.ask("DELETE", path, version=VERSIONS[root])).status == 202
    await cloud.pass_time(1.0)
    assert (await cloud.ask("DELETE", path, version=VERSIONS[root])).status == 202, "it goes on"
    reset = {RESETS[root]: {"status": "available"}}
    how: dict[str, Any] = {"version": VERSIONS[root], "user": "admin"}
    asking = asyncio.create_task(cloud.ask("POST", f"{path}/action", reset, **how))
    answer = await cloud.ask("DELETE", path, version=VERSIONS[root])
    while answer.status == 202 and not asking.done():
        answer = await cloud.ask("DELETE", path, version=VERSIONS[root])
    assert answer.status == 409, "it would be taken for done, and the reset leaves all as it is"
    await cloud.until_answered(asking)
    await cloud.settle()
    silence.end()
    shown = await cloud.ask("GET", path, version=VERSIONS[root])
    assert shown.key(next(iter(MADE[root])))["status"] == "available"
    assert (await cloud.do("DELETE", path, version=VERSIONS[root])) is not None
    await cloud.settle()
    assert (await cloud.ask("GET", path, version=VERSIONS[root])).status == 404
    assert await cloud.complaints() == []
