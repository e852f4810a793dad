"""What a pool keeps free for everybody else, databases among them, is promised to no volume."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.agent.drivers.base import VolumeDriver
from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent.qemu_img import QemuImg
from mooring.agent.run import Runner
from mooring.agent.settings import PoolSettings
from mooring.agent_api.volumes import VolumeFile
from mooring.errors import NoCapacity
from mooring.fence.journal import Journal
from tests.agent.places import place

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "kind",
    ["simulated", *(pytest.param(each, marks=pytest.mark.hosts) for each in ("raw", "qcow2"))],
)
async def test_nothing_is_promised_from_the_reserve_of_a_pool(kind: str, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    for reserved, room in ((5, True), (100, False)):
        pool = PoolSettings(
            name="pool",
            driver="simulated" if kind == "simulated" else "directory",
            format="raw" if kind == "raw" else "qcow2",
            total_gib=100,
            reserved_percent=reserved,
        )
        driver = make(pool, tmp_path, journal)
        await driver.setup()
        try:
            stats = await driver.stats()
            assert (stats.free_gib > 0, stats.reserved_percent) == (room, reserved)
            if room:
                await driver.create(volume("v1"), None, "op")
                continue
            with pytest.raises(NoCapacity):
                await driver.create(volume("v2"), None, "op")
            with pytest.raises(NoCapacity):
                await driver.extend("v1", 2, "op")
            assert [one.volume_id for one in await driver.volumes()] == ["v1"]
        finally:
            await driver.close()
    await journal.close()


def make(pool: PoolSettings, directory: Path, journal: Journal) -> VolumeDriver:
    if pool.driver == "simulated":
        return SimulatedDriver(pool, directory / "pool.sqlite")
    return DirectoryDriver(pool, place(directory / "volumes"), QemuImg(Runner(journal)))


def volume(volume_id: str) -> VolumeFile:
    return VolumeFile(volume_id=volume_id, pool="pool", size_gib=1, format="raw", virtual_bytes=0)
