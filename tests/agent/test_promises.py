"""A pool of files promises what its volumes are now, and reads again only those that changed."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.agent.drivers import file_volumes
from mooring.agent.drivers.chains import Chain, Layer
from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.drivers.records import Record, Records
from mooring.agent.qemu_img import GIB, QemuImg
from mooring.agent.run import Runner
from mooring.agent.settings import PoolSettings
from mooring.fence.journal import Journal
from tests.agent.places import place

pytestmark = pytest.mark.anyio
RAW = Record("raw")


@pytest.fixture
async def driver(tmp_path: Path, journal: Journal) -> AsyncGenerator[DirectoryDriver]:
    pool = PoolSettings(name="local", format="raw")
    made = DirectoryDriver(pool, place(tmp_path / "pool"), QemuImg(Runner(journal)))
    await made.setup()
    yield made
    await made.close()


@pytest.fixture
def another_host(driver: DirectoryDriver) -> Records:
    """What changes volumes behind the driver's back."""
    return Records(driver.directory, "h2")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose sizes were read, by name."""
    found: list[str] = []
    read = file_volumes.read_own_bytes

    def note(path: Path, disk_format: str) -> int:
        found.append(path.name)
        return read(path, disk_format)

    monkeypatch.setattr(file_volumes, "read_own_bytes", note)
    return found


def make(records: Records, volume_id: str, size_gib: int, *, age_s: float = 60) -> None:
    records.keep(volume_id, RAW)
    grow(records, volume_id, size_gib, age_s=age_s)


def grow(records: Records, volume_id: str, size_gib: int, *, age_s: float = 60) -> None:
    with records.data_path(volume_id).open("ab") as file:
        file.truncate(size_gib * GIB)
    age(records.data_path(volume_id), age_s)
    age(records.path(volume_id), age_s)


def age(path: Path, age_s: float) -> None:
    then = time.time() - age_s
    os.utime(path, (then, then))


async def promised(driver: DirectoryDriver) -> tuple[int, int]:
    """Return how many volumes the pool has, and how many GiB they are."""
    stats = await driver.stats()
    assert stats.provisioned_gib == sum(one.size_gib for one in await driver.volumes())
    return stats.volumes, stats.provisioned_gib


async def test_volumes_that_stand_still_are_read_once(
    driver: DirectoryDriver, another_host: Records, reads: list[str]
) -> None:
    make(another_host, "v1", 1)
    make(another_host, "v2", 2)
    for _ in range(3):
        stats = await driver.stats()
        assert (stats.volumes, stats.provisioned_gib) == (2, 3)
    assert sorted(reads) == ["volume-v1", "volume-v2"]


async def test_one_that_may_change_again_in_the_same_moment_is_read_again(
    driver: DirectoryDriver, another_host: Records, reads: list[str]
) -> None:
    make(another_host, "v1", 1, age_s=0)
    await driver.stats()
    await driver.stats()
    assert reads == ["volume-v1", "volume-v1"]


async def test_what_another_host_does_with_volumes_is_seen(
    driver: DirectoryDriver, another_host: Records
) -> None:
    make(another_host, "v1", 1)
    make(another_host, "v2", 2)
    assert await promised(driver) == (2, 3)
    grow(another_host, "v1", 5, age_s=50)
    assert await promised(driver) == (2, 7)
    make(another_host, "v3", 4)
    another_host.data_path("v2").unlink()
    assert await promised(driver) == (2, 9)
    another_host.path("v2").unlink()
    another_host.path("v1").unlink()
    assert await promised(driver) == (1, 4)


async def test_the_file_that_a_guest_opens_tells_the_size_from_a_snapshot_on(
    driver: DirectoryDriver, another_host: Records
) -> None:
    make(another_host, "v1", 1)
    assert await promised(driver) == (1, 1)
    top = another_host.directory / "volume-v1.s1"
    with top.open("wb") as file:
        file.truncate(3 * GIB)
    layers = Layer("volume-v1", "raw"), Layer(top.name, "raw", "s1", GIB)
    another_host.keep("v1", Record("raw", chain=Chain(layers)))
    age(another_host.path("v1"), 40)
    age(top, 40)
    assert await promised(driver) == (1, 3)
    with top.open("ab") as file:
        file.truncate(4 * GIB)
    age(top, 30)
    assert await promised(driver) == (1, 4)


async def test_a_record_that_is_damaged_and_mended_is_seen_at_once(
    driver: DirectoryDriver, another_host: Records
) -> None:
    make(another_host, "v1", 2)
    assert await promised(driver) == (1, 2)
    another_host.path("v1").write_text("")
    age(another_host.path("v1"), 40)
    count, _ = await promised(driver)
    assert count == 1
    another_host.keep("v1", RAW)
    grow(another_host, "v1", 3)
    assert await promised(driver) == (1, 3)


async def test_what_cannot_be_looked_at_hides_no_other_and_is_read_each_time(
    driver: DirectoryDriver,
    another_host: Records,
    reads: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make(another_host, "v1", 1)
    make(another_host, "v2", 2)
    scandir = os.scandir

    @contextmanager
    def spoiled(path: Path) -> Generator[Iterator[object]]:
        with scandir(path) as entries:
            yield (Unseen(one.name) if "v1" in one.name else one for one in entries)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", spoiled)
        for _ in range(3):
            stats = await driver.stats()
            assert (stats.volumes, stats.provisioned_gib) == (2, 3)
    assert sorted(reads) == ["volume-v1"] * 3 + ["volume-v2"]


class Unseen:
    """An entry of a directory that says its name alone."""

    def __init__(self, name: str) -> None:
        self.name = name

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        del follow_symlinks
        raise OSError(errno.EIO, "Input/output error")
