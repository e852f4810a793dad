"""What holds when a volume with snapshots gets an image, of the simulated driver and of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.agent.drivers.base import SourceImage, VolumeDriver
from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.sources import FileSource
from mooring.errors import Conflict
from tests.contract.test_volume_snapshots import driver, files, holds, reads, write

__all__ = ["driver", "files"]
pytestmark = pytest.mark.anyio


async def test_a_volume_with_snapshots_gets_an_image_and_they_stay(
    driver: VolumeDriver, tmp_path: Path
) -> None:
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
