"""A pool in a directory is the storage that it was once, or it is not used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.agent import known_storage
from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.known_storage import KnownStorage
from mooring.agent.pool_threads import PoolThreads
from mooring.agent.pools import Pools, look_at_volumes
from mooring.agent.qemu_img import QemuImg
from mooring.agent.run import Runner
from mooring.agent.settings import PoolSettings
from mooring.agent_api.volumes import VolumeFile
from mooring.errors import Unavailable
from mooring.fence.journal import Journal
from tests.agent.places import Disk

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]
GONE = "is not the storage that it was"
VOLUME = VolumeFile(volume_id="v1", pool="own", size_gib=1, format="raw")


class Volumes(Disk):
    """A disk with a pool and a volume on it."""

    def __init__(self, directory: Path, journal: Journal) -> None:
        super().__init__(directory)
        self._journal = journal
        self.driver = self.open()

    def open(self) -> DirectoryDriver:
        """Return the driver of an agent that starts, not yet set up."""
        pool = PoolSettings(name="own", format="raw")
        return DirectoryDriver(pool, self.place, QemuImg(Runner(self._journal)))

    async def restart(self) -> None:
        """Have another agent."""
        await self.driver.close()
        self.driver = self.open()
        await self.driver.setup()


@pytest.fixture
async def disk(tmp_path: Path, journal: Journal) -> AsyncGenerator[Volumes]:
    made = Volumes(tmp_path, journal)
    await made.driver.setup()
    await made.driver.create(VOLUME, None, "op")
    yield made
    await made.driver.close()


@pytest.mark.parametrize("restarts", [True, False])
async def test_a_pool_whose_disk_is_not_mounted_takes_and_finds_nothing_until_it_is(
    disk: Volumes, restarts: bool
) -> None:
    disk.unmount()
    if restarts:
        await disk.restart()
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
    assert disk.place.known.name in told.problem
    assert (await look_at_volumes({"own": driver})).unread == ["own"]
    assert list(disk.point.iterdir()) == []
    disk.mount()
    assert [one.volume_id for one in await driver.volumes()] == ["v1"]
    await driver.delete("v1")
    assert await driver.volumes() == []
    assert (await driver.stats()).problem == ""


async def test_another_storage_is_taken_only_once_an_operator_says_so(disk: Volumes) -> None:
    former = (await disk.driver.stats()).identity
    disk.replace()
    await disk.restart()
    with pytest.raises(Unavailable, match="has another identity"):
        await disk.driver.volumes()
    disk.place.known.unlink()
    await disk.restart()
    assert await disk.driver.volumes() == []
    assert (await disk.driver.stats()).identity == "another" != former
    await disk.driver.create(VOLUME, None, "op")
    assert disk.place.known.read_text() == "another"


async def test_a_pool_that_hangs_in_its_first_use_keeps_no_other_caller_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_storage, "AGENT_POOL_ANSWER_S", 0.0)
    disk, threads = Disk(tmp_path), PoolThreads("own")
    begun, back = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        begun.set()
        await back.wait()

    disk.place.known.write_text("another")
    storage = KnownStorage("own", disk.place, threads, hang)
    await storage.setup()
    disk.replace()
    first = asyncio.ensure_future(storage.run(lambda: "done"))
    await begun.wait()
    with pytest.raises(Unavailable, match="pool own does not answer"):
        await storage.run(lambda: "done")
    back.set()
    assert [await first, await storage.run(lambda: "done")] == ["done", "done"]
    threads.close()
