"""What was accepted ends well though the storage fails once on the way."""

from __future__ import annotations

import errno

import pytest

from tests.volume.cloud import VolumeCloud

pytestmark = pytest.mark.anyio


@pytest.fixture
async def volume_id(cloud: VolumeCloud) -> str:
    """A volume whose storage fails when it is next looked at."""
    made = await cloud.make()
    for number in (errno.ESTALE, errno.EIO):
        cloud.storage.knobs.fail("find", OSError(number, "the storage failed"))
    return made


async def test_a_volume_grows(cloud: VolumeCloud, volume_id: str) -> None:
    assert (await cloud.act(volume_id, "os-extend", {"new_size": 2})).status == 202
    await cloud.settle()
    assert await cloud.status(volume_id) == "available"
    assert [each.size_gib for each in await cloud.storage.volumes()] == [2]
    assert await cloud.complaints() == []


async def test_a_volume_is_deleted(cloud: VolumeCloud, volume_id: str) -> None:
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await cloud.settle()
    assert (await cloud.ask("GET", f"/volumes/{volume_id}")).status == 404
    assert await cloud.storage.volumes() == []
    assert await cloud.complaints() == []


async def test_a_snapshot_is_taken(cloud: VolumeCloud, volume_id: str) -> None:
    answer = await cloud.ask("POST", "/snapshots", {"snapshot": {"volume_id": volume_id}})
    assert answer.status == 202
    await cloud.settle()
    path = f"/snapshots/{answer.body['snapshot']['id']}"
    assert (await cloud.ask("GET", path)).body["snapshot"]["status"] == "available"
    assert await cloud.complaints() == []
