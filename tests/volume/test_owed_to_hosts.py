"""What an operation owes to a host, when another one takes its volume, is asked for until it goes.

A host may refuse to remove a copy, as somebody reads it at that moment. Nobody else knows of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.cloud import SimulatedCloud
from tests.volume import backing_up, test_uploading
from tests.volume.backing_up import act, captures, images, make_volume, snapshot_of, status
from tests.volume.movers import Reluctant, Silence

pytestmark = pytest.mark.anyio
Begin = Callable[[SimulatedCloud], Awaitable[str]]


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path, database=database) as opened:
        yield opened


async def upload(cloud: SimulatedCloud) -> str:
    """Begin an image of a volume, and return whose content is copied."""
    volume_id = await make_volume(cloud)
    await test_uploading.begun(cloud, volume_id)
    return volume_id


async def back_up(cloud: SimulatedCloud) -> str:
    volume_id = await make_volume(cloud)
    await backing_up.begun(cloud, volume_id)
    return volume_id


async def back_up_snapshot(cloud: SimulatedCloud) -> str:
    volume_id = await make_volume(cloud)
    await backing_up.begun(cloud, volume_id, snapshot_id=await snapshot_of(cloud, volume_id))
    return volume_id


@pytest.mark.parametrize("begin", [upload, back_up, back_up_snapshot])
async def test_a_copy_goes_however_often_its_host_keeps_it(
    cloud: SimulatedCloud, begin: Begin
) -> None:
    silence = Silence(cloud, ("h1", "PUT", "/captures/"), heard=True)
    volume_id = await begin(cloud)
    await cloud.pass_time(20.0)
    assert captures(cloud)
    silence.end()
    host = Reluctant(cloud, "/captures/")
    reset = await act(cloud, volume_id, "os-reset_status", {"status": "available"}, user="admin")
    assert reset.status == 202
    await cloud.settle()
    assert await status(cloud, volume_id) == "available"
    assert (host.left, captures(cloud)) == (0, [])
    assert await cloud.complaints() == []


@pytest.mark.parametrize("is_new", [False, True])
async def test_what_was_brought_goes_however_often_the_host_keeps_it(
    cloud: SimulatedCloud, *, is_new: bool
) -> None:
    volume_id = await make_volume(cloud)
    backup_id = await backing_up.begun(cloud, volume_id)
    await cloud.settle()
    silence = Silence(cloud, ("h1", "PUT", "/volumes/"), heard=True)
    fields = {} if is_new else {"volume_id": volume_id}
    target = (await backing_up.restore(cloud, backup_id, **fields)).key("restore")["volume_id"]
    await cloud.pass_time(20.0)
    assert images(cloud) == [target]
    silence.end()
    host = Reluctant(cloud, f"/images/{target}")
    reset = await act(cloud, target, "os-reset_status", {"status": "error"}, user="admin")
    assert reset.status == 202
    await cloud.settle()
    assert await status(cloud, target) == "error"
    assert (host.left, images(cloud)) == (0, [])
    assert (await backing_up.backup(cloud, backup_id))["status"] == "available"
    assert await cloud.complaints() == []
