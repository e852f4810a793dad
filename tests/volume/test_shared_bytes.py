"""Volumes that several servers may have are raw, however they come to be: on real files."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.agent.settings import PoolSettings
from tests.cloud import SimulatedCloud
from tests.volume.backing_up import begun, make_volume, restore, snapshot_of, status
from tests.volume.test_uploaded_bytes import MIB, content, files
from tests.volume.test_uploading import IMAGES, VOLUMES, act

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]
DATA = random.Random(5).randbytes(3 * MIB)


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    pool = PoolSettings(name="files", driver="directory", format="qcow2")
    made = SimulatedCloud(tmp_path, database=database)
    made.hosts["h1"] = replace(made.hosts["h1"], pools=(pool,))
    async with made as opened:
        body = {"volume_type": {"name": "shared", "extra_specs": {"multiattach": "<is> True"}}}
        await opened.ask("POST", "/volume/v3/types", body, user="admin")
        yield opened


async def push_image(cloud: SimulatedCloud, data: bytes) -> str:
    base: dict[str, Any] = {"name": "b", "disk_format": "raw", "container_format": "bare"}
    image_id: str = (await cloud.ask("POST", IMAGES, base)).key("id")
    await cloud.ask("PUT", f"{IMAGES}/{image_id}/file", data)
    return image_id


async def make_of_backup(cloud: SimulatedCloud, backup_id: str) -> str:
    fields = {"size": 1, "volume_type": "shared", "backup_id": backup_id}
    made = await cloud.ask("POST", VOLUMES, {"volume": fields}, version="3.47")
    await cloud.settle()
    return made.key("volume")["id"]


async def require_raw(cloud: SimulatedCloud, volume_id: str, wanted: bytes, at: Path) -> None:
    """See that a volume is a raw file with these bytes, and nothing else."""
    assert await status(cloud, volume_id) == "available"
    known = await files(cloud).find(volume_id)
    assert known is not None
    assert known.format == "raw"
    path = files(cloud).active_path(volume_id)
    with path.open("rb") as file:
        assert file.read(len(wanted)) == wanted
    assert path.stat().st_size == 1 << 30
    assert (await content(cloud, volume_id, at))[: len(wanted)] == wanted


async def test_whatever_it_is_made_of_it_is_a_raw_file(
    cloud: SimulatedCloud, tmp_path: Path
) -> None:
    image_id = await push_image(cloud, DATA)
    plain = await make_volume(cloud, imageRef=image_id)
    known = await files(cloud).find(plain)
    assert known is not None
    assert known.format == "qcow2"
    backup_id = await begun(cloud, plain)
    await cloud.settle()
    cloned = await make_volume(cloud, volume_type="shared", source_volid=plain)
    snapshot_id = await snapshot_of(cloud, plain)
    made = {
        cloned: DATA,
        await make_volume(cloud, volume_type="shared"): bytes(MIB),
        await make_volume(cloud, volume_type="shared", imageRef=image_id): DATA,
        await make_volume(cloud, volume_type="shared", snapshot_id=snapshot_id): DATA,
        await make_of_backup(cloud, backup_id): DATA,
        # One that is made of it is of its type.
        await make_volume(cloud, source_volid=cloned): DATA,
    }
    assert len(made) == 6
    for volume_id, wanted in made.items():
        await require_raw(cloud, volume_id, wanted, tmp_path / "back")
    assert await cloud.complaints() == []


async def test_whatever_it_is_filled_with_it_stays_a_raw_file(
    cloud: SimulatedCloud, tmp_path: Path
) -> None:
    volume_id = await make_volume(cloud, volume_type="shared")
    plain = await make_volume(cloud, imageRef=await push_image(cloud, DATA))
    backup_id = await begun(cloud, plain)
    await cloud.settle()
    await restore(cloud, backup_id, volume_id=volume_id)
    await cloud.settle()
    await require_raw(cloud, volume_id, DATA, tmp_path / "restored")
    other = DATA[::-1]
    body = {"image_id": await push_image(cloud, other)}
    answer = await act(cloud, volume_id, "os-reimage", body, version="3.68")
    assert answer.status == 202
    await cloud.settle()
    await require_raw(cloud, volume_id, other, tmp_path / "reimaged")
    answer = await act(cloud, volume_id, "os-extend", {"new_size": 2})
    assert answer.status == 202
    await cloud.settle()
    grown = await files(cloud).find(volume_id)
    assert grown is not None
    assert (grown.format, grown.size_gib) == ("raw", 2)


async def test_its_snapshot_is_a_copy_to_which_it_goes_back(
    cloud: SimulatedCloud, tmp_path: Path
) -> None:
    image_id, other = await push_image(cloud, DATA), DATA[::-1]
    volume_id = await make_volume(cloud, volume_type="shared", imageRef=image_id)
    snapshot_id = await snapshot_of(cloud, volume_id)
    body = {"image_id": await push_image(cloud, other)}
    assert (await act(cloud, volume_id, "os-reimage", body, version="3.68")).status == 202
    await cloud.settle()
    await require_raw(cloud, volume_id, other, tmp_path / "reimaged")
    backup_id = await begun(cloud, volume_id, snapshot_id=snapshot_id)
    await cloud.settle()
    made = (
        await make_volume(cloud, snapshot_id=snapshot_id),
        await make_of_backup(cloud, backup_id),
    )
    for one in made:
        await require_raw(cloud, one, DATA, tmp_path / "made")
    value = {"snapshot_id": snapshot_id}
    assert (await act(cloud, volume_id, "revert", value, version="3.40")).status == 202
    await cloud.settle()
    await require_raw(cloud, volume_id, DATA, tmp_path / "reverted")
    assert await cloud.complaints() == []
