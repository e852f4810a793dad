"""Backups that build on others (facts/block_storage.md 1.8): through the API, and byte for byte."""

from __future__ import annotations

import random
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring import limits
from mooring.volume.backups.limits import MANIFEST_BYTES
from mooring.volume.backups.pieces import CLUSTER_BYTES, LEAST_BYTES, Cutter
from mooring.volume.backups.stores.base import Manifest, Piece
from tests.cloud import SimulatedCloud
from tests.volume.backing_up import (
    BACKUPS,
    back_up,
    backup,
    begun,
    damage,
    make_volume,
    restore,
    snapshot_of,
    status,
    storage,
    the_store,
)
from tests.volume.test_backed_up_bytes import cloud as files_cloud
from tests.volume.test_backed_up_bytes import whole, write
from tests.volume.test_uploaded_bytes import MIB
from tests.volume.test_uploading import IMAGES

pytestmark = pytest.mark.anyio
__all__ = ["files_cloud"]


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path, database=database) as opened:
        yield opened


async def made(cloud: SimulatedCloud, volume_id: str, *, incremental: bool, **fields: str) -> str:
    # Which is the newest is told by their times.
    await cloud.pass_time(1.0)
    backup_id = await begun(cloud, volume_id, incremental=incremental, **fields)
    await cloud.settle()
    return backup_id


async def test_one_builds_on_the_newest_of_its_volume(cloud: SimulatedCloud) -> None:
    volume_id, other = await make_volume(cloud), await make_volume(cloud)
    await made(cloud, other, incremental=False)
    refused = await back_up(cloud, volume_id, incremental=True)
    assert refused.status == 400
    assert b"No backups available to do an incremental backup" in refused.content
    full = await made(cloud, volume_id, incremental=False)
    first = await made(cloud, volume_id, incremental=True)
    second = await made(cloud, volume_id, incremental=True)
    shown = {one: await backup(cloud, one) for one in (full, first, second)}
    assert [one["status"] for one in shown.values()] == ["available"] * 3
    assert [one["is_incremental"] for one in shown.values()] == [False, True, True]
    assert [one["has_dependent_backups"] for one in shown.values()] == [True, True, False]
    assert shown[full]["object_count"] > 0
    assert shown[second]["object_count"] == 0
    listed = (await cloud.ask("GET", f"{BACKUPS}/detail", version="3.67")).key("backups")
    assert sum(one["has_dependent_backups"] for one in listed) == 2
    assert await cloud.complaints() == []


async def test_one_of_a_snapshot_builds_on_what_is_older(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    snapshot_id = await snapshot_of(cloud, volume_id)
    await cloud.pass_time(1.0)
    await made(cloud, volume_id, incremental=False)
    asked = await back_up(cloud, volume_id, incremental=True, snapshot_id=snapshot_id)
    assert asked.status == 400
    await cloud.pass_time(1.0)
    later = await snapshot_of(cloud, volume_id)
    backup_id = await made(cloud, volume_id, incremental=True, snapshot_id=later)
    shown = await backup(cloud, backup_id)
    assert (shown["status"], shown["is_incremental"]) == ("available", True)


async def test_one_that_others_build_on_stays_as_long_as_they(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    full = await made(cloud, volume_id, incremental=False)
    first = await made(cloud, volume_id, incremental=True)
    for asking in (
        cloud.ask("DELETE", f"{BACKUPS}/{full}"),
        cloud.ask("POST", f"{BACKUPS}/{full}/action", {"os-force_delete": None}, user="admin"),
    ):
        refused = await asking
        assert refused.status == 400
        assert b"Incremental backups exist for this backup" in refused.content
    assert (await backup(cloud, full))["status"] == "available"
    for each in (first, full):
        assert (await cloud.ask("DELETE", f"{BACKUPS}/{each}")).status == 202
        await cloud.settle()
    assert (await cloud.ask("GET", BACKUPS)).key("backups") == []
    assert list(the_store(cloud).iterdir()) == []


async def test_one_whose_parent_is_damaged_is_not_made(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    full = await made(cloud, volume_id, incremental=False)
    damage(cloud, full, "gone")
    backup_id = await made(cloud, volume_id, incremental=True)
    shown = await backup(cloud, backup_id)
    assert shown["status"] == "error"
    assert "ask for a full backup" in shown["fail_reason"]
    assert await status(cloud, volume_id) == "available"


async def test_a_damaged_piece_of_its_parent_is_found(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    full = await made(cloud, volume_id, incremental=False)
    backup_id = await made(cloud, volume_id, incremental=True)
    damage(cloud, full, "changed")
    target = await make_volume(cloud)
    assert (await restore(cloud, backup_id, volume_id=target)).status == 202
    await cloud.settle()
    assert await status(cloud, target) == "error_restoring"
    assert storage(cloud).content(target) == ""


async def test_what_its_parent_misses_is_stored_anew(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    full = await made(cloud, volume_id, incremental=False)
    damage(cloud, full, "missing")
    backup_id = await made(cloud, volume_id, incremental=True)
    shown = await backup(cloud, backup_id)
    assert (shown["status"], shown["object_count"]) == ("available", 1)
    target = await make_volume(cloud)
    assert (await restore(cloud, backup_id, volume_id=target)).status == 202
    await cloud.settle()
    assert await status(cloud, target) == "available"
    assert storage(cloud).content(target) != ""


async def test_its_parent_is_told_of(tmp_path: Path) -> None:
    async with SimulatedCloud(tmp_path, notifications=("keep",)) as cloud:
        volume_id = await make_volume(cloud)
        full = await made(cloud, volume_id, incremental=False)
        first = await made(cloud, volume_id, incremental=True)
        reset = {"os-reset_status": {"status": "error"}}
        assert (await cloud.ask("POST", f"{BACKUPS}/{full}/action", reset, user="admin")).status
        told = [each.payload for each in await cloud.told("volume") if "parent_id" in each.payload]
        told = [(each["backup_id"], each["parent_id"]) for each in told]
        assert (first, full) in told
        assert (full, None) in told


async def a_large_volume(cloud: SimulatedCloud) -> str:
    """Make a volume with 40 MiB of data, and a hole in it."""
    data = random.Random(4).randbytes(12 * MIB) + bytes(MIB) + random.Random(5).randbytes(28 * MIB)
    base: dict[str, Any] = {"name": "b", "disk_format": "raw", "container_format": "bare"}
    image_id = (await cloud.ask("POST", IMAGES, base)).key("id")
    await cloud.ask("PUT", f"{IMAGES}/{image_id}/file", data)
    return await make_volume(cloud, imageRef=image_id)


@pytest.mark.hosts
async def test_a_chain_gives_back_each_day_and_stores_only_what_changed(
    files_cloud: SimulatedCloud, tmp_path: Path
) -> None:
    cloud = files_cloud
    volume_id, target = await a_large_volume(cloud), await make_volume(cloud)
    contents, stored = list[tuple[str, bytes]](), list[int]()

    async def keep(name: str, **fields: str) -> None:
        before = await whole(cloud, volume_id, tmp_path / f"{name}-before")
        backup_id = await made(cloud, volume_id, incremental=bool(contents), **fields)
        contents.append((backup_id, before))
        files = (the_store(cloud) / backup_id).glob("*")
        stored.append(sum(path.stat().st_size for path in files))

    await keep("full")
    # A cluster that the volume did not have: all that follow stand further behind in the copy.
    await write(cloud, volume_id, "write -q -P 0x5a 12M 64k")
    await keep("first")
    await write(cloud, volume_id, "write -q -P 0x77 1M 64k")
    await cloud.pass_time(1.0)
    await keep("second", snapshot_id=await snapshot_of(cloud, volume_id))
    assert stored[0] > 40 * MIB
    assert max(stored[1:]) < stored[0] / 3
    for backup_id, before in contents:
        assert (await restore(cloud, backup_id, volume_id=target)).status == 202
        await cloud.settle()
        assert await status(cloud, target) == "available"
        assert await whole(cloud, target, tmp_path / backup_id) == before
    assert await cloud.complaints() == []


def cut(data: bytes, portion: int) -> list[bytes]:
    cutter, pieces = Cutter(), list[bytes]()
    for at in range(0, len(data), portion):
        pieces += cutter.take(data[at : at + portion])
    return [*pieces, *cutter.rest()]


@pytest.mark.parametrize("portion", [CLUSTER_BYTES // 2 + 1, 4 * MIB, 64 * MIB])
def test_pieces_are_the_same_however_the_data_come(portion: int) -> None:
    data = random.Random(1).randbytes(40 * MIB + 12345)
    pieces = cut(data, portion)
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) <= limits.CAPTURE_PIECE_BYTES
    assert len(pieces) < 40
    assert pieces == cut(data, CLUSTER_BYTES)


def test_a_cluster_more_changes_the_pieces_around_it_alone() -> None:
    data, more = random.Random(2).randbytes(64 * MIB), random.Random(3).randbytes(CLUSTER_BYTES)
    at = 9 * CLUSTER_BYTES
    before, after = cut(data, MIB), cut(data[:at] + more + data[at:], MIB)
    assert sum(map(len, set(after) - set(before))) < 20 * MIB


def test_zeros_are_cut_in_whole_pieces() -> None:
    assert [len(piece) for piece in cut(bytes(9 * MIB), MIB)] == [4 * MIB, 4 * MIB, MIB]


@pytest.mark.parametrize("fill", [2, 65, 167, 228])
def test_one_cluster_over_and_over_makes_no_more_pieces_than_anything_else(fill: int) -> None:
    """Behind each of these a piece may end: 43 GiB of them had a manifest that S3 gave back cut."""
    sizes = [len(piece) for piece in cut(bytes([fill]) * (40 * MIB), MIB)]
    assert min(sizes[:-1]) >= LEAST_BYTES


def test_the_manifest_of_the_largest_backup_can_be_read() -> None:
    places = tuple(str(uuid.uuid4()) for _ in range(999))
    piece = Piece(limits.CAPTURE_PIECE_BYTES - CLUSTER_BYTES, "0" * 64, len(places))
    most = -(-limits.IMAGE_BYTES // LEAST_BYTES)
    made = Manifest(
        backup_id=places[0],
        disk_format="qcow2",
        size_bytes=limits.IMAGE_BYTES,
        sha256="0" * 64,
        pieces=[],
        sources=places,
    )
    total = len(msgspec.json.encode(made)) + most * (len(msgspec.json.encode(piece)) + 1)
    assert total <= MANIFEST_BYTES
