"""Replacing a volume's content, on every driver: all of it, or nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.agent.drivers.base import SourceImage, VolumeDriver
from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent.qemu_img import GIB
from mooring.agent.sources import FileSource
from mooring.errors import Conflict, Invalid, MooringError, NotFound
from mooring.fence.journal import Journal
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
    convert = ["qemu-img", "convert", "-f", driver.pool.format, "-O", "raw"]
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
    assert driver.copied_percent("v1") is None
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
    assert driver.copied_percent("v1") is None
