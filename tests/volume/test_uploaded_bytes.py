"""What goes up with a volume comes down with the next one: on real files, and both databases."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.settings import PoolSettings
from tests.cloud import SimulatedCloud
from tests.volume.test_uploading import IMAGES, VOLUMES, begun, captures, make_volume, show, status

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]
MIB = 1024**2


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    pool = PoolSettings(name="files", driver="directory", format="raw")
    made = SimulatedCloud(tmp_path, database=database)
    made.hosts["h1"] = replace(made.hosts["h1"], pools=(pool,))
    async with made as opened:
        yield opened


async def run(*argv: str) -> None:
    process = await asyncio.create_subprocess_exec(*argv)
    assert await process.wait() == 0


def files(cloud: SimulatedCloud) -> DirectoryDriver:
    [driver] = cloud.agents["h1"].agent.drivers.values()
    assert isinstance(driver, DirectoryDriver)
    return driver


async def content(cloud: SimulatedCloud, volume_id: str, to: Path) -> bytes:
    """Return the first bytes of a volume, as a guest would read them."""
    known = await files(cloud).find(volume_id)
    assert known is not None
    path = str(files(cloud).active_path(volume_id))
    await run("qemu-img", "convert", "-f", known.format, "-O", "raw", path, str(to))
    with to.open("rb") as file:
        return file.read(4 * MIB)


@pytest.mark.parametrize("disk_format", ["raw", "qcow2"])
async def test_a_volume_from_the_image_of_another_has_its_bytes(
    cloud: SimulatedCloud, tmp_path: Path, disk_format: str
) -> None:
    data = random.Random(7).randbytes(3 * MIB)
    base: dict[str, Any] = {"name": "b", "disk_format": "raw", "container_format": "bare"}
    image_id = (await cloud.ask("POST", IMAGES, base)).key("id")
    await cloud.ask("PUT", f"{IMAGES}/{image_id}/file", data)
    first = await make_volume(cloud, imageRef=image_id)
    taken = await cloud.do(
        "POST", "/volume/v3/snapshots", {"snapshot": {"volume_id": first}}, version="3.66"
    )
    assert taken is not None
    assert taken.status == 202
    await cloud.settle()
    # What was written since the snapshot is in another file than the rest.
    overlay = str(files(cloud).active_path(first))
    await run("qemu-io", "-f", "qcow2", "-c", "write -q -P 0x5a 1M 64k", overlay)
    wanted = await content(cloud, first, tmp_path / "first")
    assert wanted[:MIB] == data[:MIB]
    assert wanted[MIB : MIB + 4] == b"\x5a" * 4
    uploaded = await begun(cloud, first, disk_format=disk_format)
    await cloud.settle()
    assert (await show(cloud, uploaded)).key("status") == "active"
    assert captures(cloud) == []
    second = await make_volume(cloud, imageRef=uploaded)
    assert await status(cloud, second) == "available"
    assert await content(cloud, second, tmp_path / "second") == wanted
    assert (await cloud.ask("GET", f"{VOLUMES}/{second}")).key("volume")["size"] == 1
    assert await cloud.complaints() == []
