"""What is restored is what was backed up: on real files, raw and qcow2, and on both databases."""

from __future__ import annotations

import hashlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.agent.settings import PoolSettings
from mooring.errors import Unavailable
from mooring.fence.threads import run_to_end
from mooring.volume.app import SERVICE
from mooring.volume.backups.stores.directory import DirectoryStore
from tests.cloud import SimulatedCloud
from tests.volume.backing_up import (
    backup,
    begun,
    captures,
    damage,
    images,
    make_volume,
    restore,
    snapshot_of,
    status,
    the_store,
)
from tests.volume.test_uploaded_bytes import MIB, content, files, run
from tests.volume.test_uploading import IMAGES

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]


@pytest.fixture(params=["raw", "qcow2"])
async def cloud(
    tmp_path: Path, database: str, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[SimulatedCloud]:
    pool = PoolSettings(name="files", driver="directory", format=request.param)
    made = SimulatedCloud(tmp_path, database=database)
    made.hosts["h1"] = replace(made.hosts["h1"], pools=(pool,))
    async with made as opened:
        yield opened


async def a_filled_volume(cloud: SimulatedCloud) -> str:
    """Make a volume with 11 MiB of data, of which two are zeros."""
    data = (
        random.Random(9).randbytes(5 * MIB) + bytes(2 * MIB) + random.Random(8).randbytes(4 * MIB)
    )
    base: dict[str, Any] = {"name": "b", "disk_format": "raw", "container_format": "bare"}
    image_id = (await cloud.ask("POST", IMAGES, base)).key("id")
    await cloud.ask("PUT", f"{IMAGES}/{image_id}/file", data)
    return await make_volume(cloud, imageRef=image_id)


async def write(cloud: SimulatedCloud, volume_id: str, command: str) -> None:
    """Write as a guest would: into the file that the volume is in now."""
    known = await files(cloud).find(volume_id)
    assert known is not None
    path = str(files(cloud).active_path(volume_id))
    disk_format = "qcow2" if known.snapshots else known.format
    await run("qemu-io", "-f", disk_format, "-c", command, path)


async def test_a_volume_gets_back_what_it_had(cloud: SimulatedCloud, tmp_path: Path) -> None:
    first = await a_filled_volume(cloud)
    await write(cloud, first, "write -q -P 0x5a 900M 64k")
    before = await whole(cloud, first, tmp_path / "before")
    backup_id = await begun(cloud, first)
    await cloud.settle()
    assert (await backup(cloud, backup_id))["object_count"] >= 3
    await write(cloud, first, "write -q -P 0x77 0 3M")
    await write(cloud, first, "write -q -P 0x77 700M 1M")
    assert await whole(cloud, first, tmp_path / "changed") != before
    await restore(cloud, backup_id, volume_id=first)
    await cloud.settle()
    assert await status(cloud, first) == "available"
    assert await whole(cloud, first, tmp_path / "after") == before
    second = (await restore(cloud, backup_id)).key("restore")["volume_id"]
    larger = await make_volume(cloud, size=2)
    await cloud.settle()
    await restore(cloud, backup_id, volume_id=larger)
    await cloud.settle()
    assert await whole(cloud, second, tmp_path / "second") == before
    assert await whole(cloud, larger, tmp_path / "larger") == before
    shown = (await cloud.ask("GET", f"/volume/v3/volumes/{second}")).key("volume")
    assert shown["bootable"] == "true"
    assert (captures(cloud), images(cloud)) == ([], [shown["volume_image_metadata"]["image_id"]])
    assert await cloud.complaints() == []


async def test_a_snapshot_gives_what_the_volume_had_then(
    cloud: SimulatedCloud, tmp_path: Path
) -> None:
    first = await a_filled_volume(cloud)
    before = await whole(cloud, first, tmp_path / "before")
    snapshot_id = await snapshot_of(cloud, first)
    await write(cloud, first, "write -q -P 0x11 1M 2M")
    backup_id = await begun(cloud, first, snapshot_id=snapshot_id)
    await cloud.settle()
    second = (await restore(cloud, backup_id)).key("restore")["volume_id"]
    await cloud.settle()
    assert await whole(cloud, second, tmp_path / "second") == before
    assert await whole(cloud, first, tmp_path / "first") != before


async def test_a_bit_that_turned_is_found_and_nothing_of_it_used(
    cloud: SimulatedCloud, tmp_path: Path
) -> None:
    first = await a_filled_volume(cloud)
    backup_id = await begun(cloud, first)
    await cloud.settle()
    damage(cloud, backup_id, "changed")
    await write(cloud, first, "write -q -P 0x77 0 1M")
    before = await whole(cloud, first, tmp_path / "before")
    await restore(cloud, backup_id, volume_id=first)
    await cloud.settle()
    assert await status(cloud, first) == "error_restoring"
    assert await whole(cloud, first, tmp_path / "after") == before


class BreakingStore(DirectoryStore):
    """The store of a cloud, which cannot be reached for a moment before its third piece."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.directory, self.left, self.before = directory, 2, dict[str, int]()

    def pieces(self) -> dict[str, int]:
        """Return the inode of each piece."""
        return {path.name: path.stat().st_ino for path in self.directory.glob("*/*")}

    async def put_piece(self, backup_id: str, sha256: str, data: bytes) -> None:
        self.left -= 1
        if self.left == -1:
            self.before = self.pieces()
            raise Unavailable("The store is away for a moment.")
        await super().put_piece(backup_id, sha256, data)


async def test_a_backup_that_was_interrupted_goes_on_at_its_next_piece(
    cloud: SimulatedCloud, tmp_path: Path
) -> None:
    first = await a_filled_volume(cloud)
    before = await whole(cloud, first, tmp_path / "before")
    store = cloud.cloud[SERVICE].backups = BreakingStore(the_store(cloud))
    backup_id = await begun(cloud, first)
    await cloud.settle()
    assert (await backup(cloud, backup_id))["status"] == "available"
    assert len(store.before) == 2
    assert store.before.items() <= store.pieces().items()
    second = (await restore(cloud, backup_id)).key("restore")["volume_id"]
    await cloud.settle()
    assert await whole(cloud, second, tmp_path / "second") == before


async def test_zeros_take_no_room_in_the_store(cloud: SimulatedCloud) -> None:
    first = await make_volume(cloud, size=3)
    await write(cloud, first, "write -q -P 0 0 64M")
    await begun(cloud, first)
    await cloud.settle()
    assert sum(path.stat().st_size for path in the_store(cloud).glob("*/*")) < 2 * MIB


async def whole(cloud: SimulatedCloud, volume_id: str, to: Path) -> bytes:
    """Return a digest of what a guest would read of the first GiB of a volume."""
    await content(cloud, volume_id, to)
    return await run_to_end(lambda: _digest(to))


def _digest(path: Path) -> bytes:
    """Digest the first GiB of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for _ in range(1024):
            digest.update(file.read(MIB))
    return digest.digest()
