"""A pool in a directory is the storage that it was once, or it is not used."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.pools import Pools, look_at_volumes
from mooring.agent.qemu_img import QemuImg
from mooring.agent.run import Runner
from mooring.agent.settings import PoolSettings
from mooring.agent_api.volumes import VolumeFile
from mooring.errors import Unavailable
from mooring.fence.journal import Journal

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]
GONE = "is not the storage that it was"
VOLUME = VolumeFile(volume_id="v1", pool="own", size_gib=1, format="raw")


class Disk:
    """A disk of its own, with a pool and a volume on it; the test mounts it."""

    def __init__(self, directory: Path, journal: Journal) -> None:
        self.point, self.known = directory / "point", directory / "own.identity"
        self._away, self._journal = directory / "away", journal
        self.driver = self.start()

    def start(self) -> DirectoryDriver:
        """Return the driver of an agent that starts, not yet set up."""
        qemu_img = QemuImg(Runner(self._journal))
        pool = PoolSettings(name="own", format="raw")
        self.driver = DirectoryDriver(pool, self.point, "h1", qemu_img, self.known)
        return self.driver

    def unmount(self) -> None:
        """Leave an empty mount point."""
        self.point.rename(self._away)
        self.point.mkdir()

    def mount(self) -> None:
        """Put the disk back over its mount point."""
        self.point.rmdir()
        self._away.rename(self.point)


@pytest.fixture
async def disk(tmp_path: Path, journal: Journal) -> AsyncGenerator[Disk]:
    made = Disk(tmp_path, journal)
    await made.driver.setup()
    await made.driver.create(VOLUME, None, "op")
    yield made
    await made.driver.close()


async def restart(disk: Disk) -> None:
    await disk.driver.close()
    await disk.start().setup()


@pytest.mark.parametrize("restarts", [True, False])
async def test_a_pool_whose_disk_is_not_mounted_takes_and_finds_nothing_until_it_is(
    disk: Disk, restarts: bool
) -> None:
    disk.unmount()
    if restarts:
        await restart(disk)
    driver = disk.driver
    for asked in (
        driver.stats(),
        driver.find("v1"),
        driver.delete("v1"),
        driver.rename("v1", "v2"),
        driver.leftovers(),
        driver.create(VOLUME, None, "op"),
        driver.export("v1", "a1", {"host": "h1"}),
        driver.snapshot("v1", "s1"),
    ):
        with pytest.raises(Unavailable, match=GONE):
            await asked
    [told] = await Pools().volume_pools([driver])
    assert GONE in told.problem
    assert "own.identity" in told.problem
    assert (await look_at_volumes({"own": driver})).unread == ["own"]
    assert list(disk.point.iterdir()) == []
    disk.mount()
    assert [one.volume_id for one in await driver.volumes()] == ["v1"]
    await driver.delete("v1")
    assert await driver.volumes() == []
    assert (await driver.stats()).problem == ""


async def test_another_storage_is_taken_only_once_an_operator_says_so(disk: Disk) -> None:
    former = (await disk.driver.stats()).identity
    disk.unmount()
    records = disk.point / ".mooring"
    records.mkdir()
    (records / "identity").write_text("another")
    await restart(disk)
    with pytest.raises(Unavailable, match="has another identity"):
        await disk.driver.volumes()
    disk.known.unlink()
    await restart(disk)
    assert await disk.driver.volumes() == []
    assert (await disk.driver.stats()).identity == "another" != former
    await disk.driver.create(VOLUME, None, "op")
    assert disk.known.read_text() == "another"
