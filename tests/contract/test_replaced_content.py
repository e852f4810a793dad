"""Replacing a volume's content, on every driver: all of it, or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.agent.drivers.base import SourceImage, VolumeDriver
from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent.qemu_img import GIB, QemuImg
from mooring.agent.run import Runner
from mooring.agent.settings import PoolSettings
from mooring.agent.sources import FileSource
from mooring.agent_api.captures import DiskFormat
from mooring.agent_api.volumes import VolumeFile
from mooring.errors import Conflict, Invalid, MooringError, NotFound
from mooring.fence.journal import Journal
from tests.agent.places import place
from tests.agent.remote_pools import HOST
from tests.contract.test_volume_driver import HERE, image, make_driver, run, volume

pytestmark = pytest.mark.anyio


@pytest.fixture(
    params=[
        "simulated",
        pytest.param("raw", marks=pytest.mark.hosts),
        pytest.param("qcow2", marks=pytest.mark.hosts),
    ]
)
async def driver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[VolumeDriver]:
    journal = Journal(tmp_path / "journal.sqlite")
    made = make_driver(request.param, tmp_path, journal)
    await made.setup()
    yield made
    await made.close()
    await journal.close()


async def read_all(driver: VolumeDriver, directory: Path) -> bytes:
    """Return the bytes that a guest would read, without the zeros at the end."""
    info = await driver.export("v1", "reader", HERE)
    raw = directory / "read.raw"
    convert = ["qemu-img", "convert", "-f", info["data"]["format"], "-O", "raw"]
    assert await run(*convert, info["data"]["device_path"], str(raw)) == 0
    await driver.unexport("v1", "reader")
    assert raw.stat().st_size == GIB
    with raw.open("rb") as file:
        return file.read().rstrip(b"\0")


async def fill(driver: VolumeDriver) -> None:
    """Write a pattern far behind any image, and at the very end."""
    info = await driver.export("v1", "writer", HERE)
    writes = ["-c", "write -P 0xab 512M 1M", "-c", "write -P 0xab 1023M 1M"]
    path = info["data"]["device_path"]
    assert await run("qemu-io", "-f", driver.pool.format, *writes, path) == 0
    await driver.unexport("v1", "writer")


async def test_nothing_old_is_left(driver: VolumeDriver, tmp_path: Path) -> None:
    await driver.create(volume(driver), None, "op")
    if not isinstance(driver, SimulatedDriver):
        await fill(driver)
        assert b"\xab" in await read_all(driver, tmp_path)
    for _ in range(2):
        assert await driver.replace("v1", image(tmp_path), "op2") == volume(driver)
    assert await driver.leftovers() == []
    assert await driver.copied_percent("v1") is None
    if isinstance(driver, SimulatedDriver):
        assert driver.content("v1") == "i1"
    else:
        assert await read_all(driver, tmp_path) == b"MOORING"


async def test_what_is_refused_changes_nothing(driver: VolumeDriver, tmp_path: Path) -> None:
    await driver.create(volume(driver), image(tmp_path), "op")
    large = SourceImage("i2", FileSource(str(tmp_path / "image"), "raw"), 2 * GIB)
    with pytest.raises(Invalid, match="needs a volume of 2 GiB"):
        await driver.replace("v1", large, "op2")
    await driver.export("v1", "a1", HERE)
    with pytest.raises(Conflict, match="is exported"):
        await driver.replace("v1", image(tmp_path), "op3")
    with pytest.raises(NotFound):
        await driver.replace("v2", image(tmp_path), "op4")
    assert await driver.leftovers() == []


class Lost(DirectoryDriver):
    """A pool whose volume is given to a guest as soon as its new content is written."""

    async def _rewrite(
        self, path: Path, known: VolumeFile, source: SourceImage, operation_key: str
    ) -> None:
        await super()._rewrite(path, known, source, operation_key)
        await self.export("v1", "a1", HERE)


@pytest.mark.hosts
@pytest.mark.parametrize("has_snapshot", [False, True])
@pytest.mark.parametrize("disk_format", ["raw", "qcow2"])
async def test_who_is_given_the_volume_while_it_is_copied_keeps_its_file(
    tmp_path: Path, disk_format: DiskFormat, *, has_snapshot: bool
) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    pool = PoolSettings(name="pool", format=disk_format)
    qemu_img = QemuImg(Runner(journal))
    driver = Lost(pool, place(tmp_path / "volumes", HOST), qemu_img)
    await driver.setup()
    await driver.create(volume(driver), image(tmp_path), "op")
    if has_snapshot:
        await driver.take_snapshot("v1", "s1", "op")
    file = driver.active_path("v1").stat().st_ino
    with pytest.raises(Conflict, match="is exported"):
        await driver.replace("v1", other(tmp_path), "op2")
    assert driver.active_path("v1").stat().st_ino == file
    assert await read_all(driver, tmp_path) == b"MOORING"
    assert await driver.leftovers() == []
    await driver.unexport("v1", "a1")
    await journal.close()


async def test_who_is_given_a_simulated_volume_while_it_is_copied_keeps_it(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    driver = make_driver("simulated", tmp_path, journal)
    assert isinstance(driver, SimulatedDriver)
    await driver.setup()
    await driver.create(volume(driver), image(tmp_path), "op")
    driver.knobs.hold("replace")
    replacing = asyncio.create_task(driver.replace("v1", other(tmp_path), "op2"))
    await driver.knobs.held("replace")
    await driver.export("v1", "a1", HERE)
    driver.knobs.release("replace")
    with pytest.raises(Conflict, match="is exported"):
        await replacing
    assert driver.content("v1") == "i1"
    await driver.close()
    await journal.close()


def other(directory: Path) -> SourceImage:
    file = directory / "other"
    file.write_bytes(b"OTHER" * 4096)
    return SourceImage("i2", FileSource(str(file), "raw"), file.stat().st_size)


FILES = [pytest.param(kind, marks=pytest.mark.hosts) for kind in ("raw", "qcow2")]


@pytest.mark.parametrize("driver", FILES, indirect=True)
async def test_a_copy_that_fails_leaves_what_was_there(
    driver: VolumeDriver, tmp_path: Path
) -> None:
    await driver.create(volume(driver), image(tmp_path), "op")
    broken = tmp_path / "broken"
    broken.write_bytes(b"no qcow2 at all" * 4096)
    with pytest.raises(MooringError):
        await driver.replace("v1", SourceImage("i3", FileSource(str(broken), "qcow2"), GIB), "op2")
    assert await read_all(driver, tmp_path) == b"MOORING"
    assert await driver.leftovers() == []
    assert await driver.copied_percent("v1") is None
