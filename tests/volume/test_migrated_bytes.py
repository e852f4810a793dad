"""What a volume has comes along to another pool: on real files, and both databases."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.settings import PoolSettings
from mooring.agent_api.captures import DiskFormat
from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Unavailable
from mooring.limits import CAPTURE_PIECE_BYTES
from tests.cloud import SimulatedCloud
from tests.volume.movers import VOLUMES

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]
MIB = 1024**2
POOLS = {"h1": ("raw", "qcow2"), "h2": ("far",)}
FORMATS: dict[str, DiskFormat] = {"raw": "raw", "qcow2": "qcow2", "far": "qcow2"}


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    made = SimulatedCloud(tmp_path, database=database, hosts=POOLS)
    for host, names in POOLS.items():
        pools = tuple(
            PoolSettings(name=name, driver="directory", format=FORMATS[name], path=name)
            for name in names
        )
        made.hosts[host] = replace(made.hosts[host], pools=pools)
    async with made as opened:
        yield opened


def pool(cloud: SimulatedCloud, name: str) -> DirectoryDriver:
    host = next(host for host, names in POOLS.items() if name in names)
    driver = cloud.agents[host].agent.drivers[name]
    assert isinstance(driver, DirectoryDriver)
    return driver


def file_of(cloud: SimulatedCloud, name: str, volume_id: str) -> tuple[str, str]:
    """Return format and path of a volume's file."""
    driver = pool(cloud, name)
    return driver.pool.format, str(driver.active_path(volume_id))


async def run(*argv: str) -> None:
    process = await asyncio.create_subprocess_exec(*argv)
    assert await process.wait() == 0


async def make(cloud: SimulatedCloud) -> tuple[str, str]:
    """Make a volume, and return its id and its pool."""
    made = await cloud.ask("POST", VOLUMES, {"volume": {"size": 1}})
    await cloud.settle()
    volume_id: str = made.key("volume")["id"]
    shown = await cloud.ask("GET", f"{VOLUMES}/{volume_id}", user="admin")
    return volume_id, shown.key("volume")["os-vol-host-attr:host"].rpartition("#")[2]


async def make_filled(cloud: SimulatedCloud, file: Path, data: bytes) -> tuple[str, str]:
    """Make a volume that begins with data, and return its id and its pool."""
    await asyncio.to_thread(file.write_bytes, data)
    volume_id, at = await make(cloud)
    disk_format, path = file_of(cloud, at, volume_id)
    await run("qemu-img", "convert", "-n", "-f", "raw", "-O", disk_format, str(file), path)
    return volume_id, at


async def migrate(cloud: SimulatedCloud, volume_id: str, host: str, name: str) -> None:
    """Migrate a volume to a pool, and let everything come to rest."""
    value: dict[str, Any] = {"host": f"{host}@directory#{name}"}
    where = f"{VOLUMES}/{volume_id}/action"
    answer = await cloud.do("POST", where, {"os-migrate_volume": value}, user="admin")
    assert answer is not None
    assert answer.status == 202, answer.content
    await cloud.settle()


async def read_back(cloud: SimulatedCloud, file: Path, volume_id: str, name: str) -> Path:
    """Write the content of a volume into a file, and return that."""
    disk_format, path = file_of(cloud, name, volume_id)
    await run("qemu-img", "convert", "-f", disk_format, "-O", "raw", path, str(file))
    return file


async def test_the_bytes_of_a_volume_come_along(cloud: SimulatedCloud, tmp_path: Path) -> None:
    data = random.Random(11).randbytes(3 * MIB)
    volume_id, at = await make_filled(cloud, tmp_path / "data", data)
    for host, name in (*_around(at), *_around(at)):
        await migrate(cloud, volume_id, host, name)
        back = await read_back(cloud, tmp_path / "back", volume_id, name)
        assert back.stat().st_size == 1 << 30
        with back.open("rb") as file:
            assert file.read(4 * MIB) == data + bytes(MIB)
        for other in FORMATS:
            held = [one.volume_id for one in await pool(cloud, other).volumes()]
            assert held == ([volume_id] if other == name else [])
            assert await pool(cloud, other).leftovers() == []


async def test_what_was_broken_off_on_the_way_goes_on_where_it_was(
    cloud: SimulatedCloud, tmp_path: Path
) -> None:
    data = random.Random(12).randbytes(15 * MIB)
    volume_id, at = await make_filled(cloud, tmp_path / "data", data)
    offsets: list[int] = []

    async def break_off(request: Request, forward: Forward) -> Response:
        place = urlsplit(request.target)
        if request.method == "GET" and place.path.endswith("/data"):
            offsets.append(int(parse_qs(place.query)["offset"][0]))
            if len(offsets) == 3:
                raise Unavailable("The host is out of breath.")
        return await forward(request)

    cloud.deliver_to_host = break_off
    host, name = next((host, names[0]) for host, names in POOLS.items() if at not in names)
    await migrate(cloud, volume_id, host, name)
    assert offsets[:3] == [0, CAPTURE_PIECE_BYTES, 2 * CAPTURE_PIECE_BYTES]
    # What was still between the two when the one fell silent comes again, and nothing else.
    assert min(offsets[3:]) > 0
    back = await read_back(cloud, tmp_path / "back", volume_id, name)
    with back.open("rb") as file:
        assert file.read(16 * MIB) == data + bytes(MIB)
    assert await cloud.complaints() == []


def _around(at: str) -> list[tuple[str, str]]:
    """Return all pools, that of the name last."""
    every = [(host, name) for host, names in POOLS.items() for name in names]
    return sorted(every, key=lambda place: place[1] == at)
