"""What holds when a volume with snapshots gets an image, of the simulated driver and of files."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.agent.drivers.base import SourceImage, VolumeDriver
from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.drivers.file_snapshots import FileSnapshots
from mooring.agent.sources import FileSource
from mooring.errors import Conflict
from mooring.fence.journal import Journal
from tests.agent.remote_pools import remote_pool
from tests.contract.test_volume_driver import REMOTE, volume
from tests.contract.test_volume_snapshots import driver, files, holds, reads, write

__all__ = ["driver", "files"]
pytestmark = pytest.mark.anyio
_TAKES_SNAPSHOTS = {"nfs_snapshot_support": True, "nas_secure_file_operations": "false"}


@pytest.fixture(params=REMOTE)
async def remote(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[FileSnapshots]:
    """A driver of files on a share that takes snapshots, with a volume."""
    kind, _, disk_format = request.param.partition("/")
    journal = Journal(tmp_path / "journal.sqlite")
    takes = {} if kind == "quobyte" else _TAKES_SNAPSHOTS
    async with remote_pool(kind, disk_format, tmp_path, journal, **takes) as made:
        await made.driver.setup()
        await made.driver.create(volume(made.driver), None, "op")
        yield made.driver
        await made.driver.close()
    await journal.close()


async def test_a_volume_with_snapshots_gets_an_image_and_they_stay(
    driver: VolumeDriver, tmp_path: Path
) -> None:
    await keep_snapshots(driver, tmp_path)


@pytest.mark.hosts
async def test_so_do_those_of_a_volume_on_a_share(remote: FileSnapshots, tmp_path: Path) -> None:
    await keep_snapshots(remote, tmp_path)


async def keep_snapshots(driver: VolumeDriver, tmp_path: Path) -> None:
    """Give a volume with snapshots an image, twice, and see what holds."""
    image = image_of(tmp_path)
    for number in (1, 2):
        await driver.take_snapshot("v1", f"s{number}", "op")
    for _ in range(2):
        found = await driver.replace("v1", image, "op")
        assert found.snapshots == ["s1", "s2"]
    await driver.prepare_snapshot("v1", "s3", "op")
    with pytest.raises(Conflict, match="has not ended"):
        await driver.replace("v1", image, "op")
    await driver.delete_snapshot("v1", "s3", "op")
    for number in (1, 2):
        await driver.delete_snapshot("v1", f"s{number}", "op")
    assert await driver.leftovers() == []


@pytest.mark.hosts
@pytest.mark.parametrize("count", [1, 2])
async def test_an_image_hides_all_that_the_snapshots_keep(
    files: DirectoryDriver, tmp_path: Path, count: int
) -> None:
    await hide(files, tmp_path, count)


@pytest.mark.hosts
async def test_it_hides_it_on_a_share_too(remote: FileSnapshots, tmp_path: Path) -> None:
    await hide(remote, tmp_path, 2)


async def hide(files: FileSnapshots, tmp_path: Path, count: int) -> None:
    """Write between snapshots, give the volume an image, and see which data is where."""
    for number in range(1, count + 1):
        await write(files, 0x10 + number, "0", "8M")
        await files.take_snapshot("v1", f"s{number}", "op")
    await write(files, 0x66, "512M", "1M")
    await files.replace("v1", image_of(tmp_path), "op")
    await holds(files, 0xAB, "0")
    # What the image does not fill shows nothing of before, beyond its end neither.
    for empty in ("2M", "6M", "512M"):
        await holds(files, 0, empty)
    for number in range(1, count + 1):
        path, kind = (await files.snapshot_source("v1", f"s{number}")).file()
        await reads(path, kind, 0x10 + number, "4M", "1M")
    for number in range(1, count + 1):
        await files.delete_snapshot("v1", f"s{number}", "op")
    await holds(files, 0xAB, "0")
    await holds(files, 0, "2M")
    await holds(files, 0, "512M")


def image_of(directory: Path) -> SourceImage:
    """Return a raw image of 4 MiB, of which the first one is full and the rest a hole."""
    path = directory / "image"
    with path.open("wb") as file:
        file.write(b"\xab" * 2**20)
        file.truncate(4 * 2**20)
    return SourceImage("image-1", FileSource(str(path), "raw"), 4 * 2**20)
