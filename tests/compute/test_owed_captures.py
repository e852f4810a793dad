"""The copy of a server's disk goes however often its host keeps it, also when others take it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cloud import SimulatedCloud
from tests.compute.test_server_images import act, captures, make_base, make_server
from tests.volume.movers import Reluctant, Silence
from tests.waiting import until

pytestmark = pytest.mark.anyio
ASKED = {
    "createImage": {"name": "picture"},
    "createBackup": {"name": "picture", "backup_type": "daily", "rotation": 1},
    "shelve": None,
}


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path, database=database) as opened:
        yield opened


@pytest.mark.parametrize("action", ASKED)
async def test_a_copy_goes_however_often_its_host_keeps_it(
    cloud: SimulatedCloud, action: str
) -> None:
    server_id = await make_server(cloud, await make_base(cloud))
    silence = Silence(cloud, ("h1", "PUT", "/captures/"), heard=True)
    assert (await act(cloud, server_id, action, ASKED[action])).status == 202

    async def has_begun() -> bool:
        return bool(captures(cloud))

    await until(has_begun, "the host copies the disk")
    await cloud.pass_time(20.0)
    assert captures(cloud)
    silence.end()
    host = Reluctant(cloud, "/captures/")
    reset = await act(cloud, server_id, "os-resetState", {"state": "error"}, user="admin")
    assert reset.status == 202
    await cloud.settle()
    assert (host.left, captures(cloud)) == (0, [])
    assert await cloud.complaints() == []
