"""Where the locks of other hosts are not seen, no lock says nothing of who has a file open."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.agent.drivers.base import VolumeDriver
from mooring.agent.drivers.remote_files import RemoteFiles
from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.errors import Conflict
from mooring.fence.journal import Journal
from tests.agent.remote_pools import remote_pool
from tests.contract.holders import held_by_qemu
from tests.contract.test_volume_driver import HERE, make_driver, volume

pytestmark = pytest.mark.anyio
_REAL = [pytest.param(kind, marks=pytest.mark.hosts) for kind in ("nfs", "quobyte")]


@pytest.fixture(params=["simulated", *_REAL])
async def driver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[VolumeDriver]:
    journal = Journal(tmp_path / "journal.sqlite")
    if request.param == "simulated":
        made = make_driver("simulated", tmp_path, journal)
        assert isinstance(made, SimulatedDriver)
        made.shows_locks = False
        await made.setup()
        await made.create(volume(made), None, "op")
        yield made
        await made.close()
    else:
        support = {"nfs_snapshot_support": True} if request.param == "nfs" else {}
        async with remote_pool(request.param, "raw", tmp_path, journal, **support) as remote:
            if request.param == "nfs":
                remote.shares.set_options("rw,vers=3,nolock")
            await remote.driver.setup()
            await remote.driver.create(volume(remote.driver), None, "op")
            yield remote.driver
    await journal.close()


async def held(driver: VolumeDriver) -> str:
    found = await driver.snapshot("v1", "s1")
    assert found is not None
    return found.held


async def test_what_a_guest_may_write_to_is_not_removed(driver: VolumeDriver) -> None:
    await driver.export("v1", "a1", HERE)
    assert (await driver.prepare_snapshot("v1", "s1", "op")).held == "unknown"
    assert (await driver.holders("v1")).held is None
    assert [one.attachment_id for one in (await driver.holders("v1")).holders] == ["a1"]
    for _ in range(2):
        with pytest.raises(Conflict, match="may write to the overlay"):
            await driver.delete_snapshot("v1", "s1", "op")
    assert await held(driver) == "unknown"
    # Whoever has let the guest go knows better.
    for _ in range(2):
        await driver.delete_snapshot("v1", "s1", "op", released=True)
    assert await driver.snapshot("v1", "s1") is None
    assert await driver.leftovers() == []


async def test_what_no_guest_can_reach_is_held_by_nobody(driver: VolumeDriver) -> None:
    await driver.export("v1", "a1", HERE)
    await driver.prepare_snapshot("v1", "s1", "op")
    await driver.unexport("v1", "a1")
    assert await held(driver) == "nobody"
    for _ in range(2):
        await driver.delete_snapshot("v1", "s1", "op")
    assert await driver.leftovers() == []


@pytest.mark.hosts
async def test_a_lock_that_is_seen_counts_all_the_same(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    async with remote_pool("quobyte", "raw", tmp_path, journal) as remote:
        driver: RemoteFiles = remote.driver
        await driver.setup()
        await driver.create(volume(driver), None, "op")
        await driver.export("v1", "a1", HERE)
        prepared = await driver.prepare_snapshot("v1", "s1", "op")
        async with held_by_qemu(driver.path("v1"), "raw", read_only=False):
            assert await held(driver) == "below"
            assert (await driver.holders("v1")).held is True
        async with held_by_qemu(driver.directory / prepared.file, "qcow2", read_only=False):
            assert await held(driver) == "overlay"
            with pytest.raises(Conflict, match="already"):
                await driver.delete_snapshot("v1", "s1", "op", released=True)
    await journal.close()
