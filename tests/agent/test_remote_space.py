"""The space that volumes on a share take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mooring.agent import files
from mooring.agent.drivers.records import RECORDS
from mooring.agent.drivers.remote_cache import CACHED
from mooring.agent.qemu_img import GIB, QemuImg
from mooring.agent.run import Budget, Output, Runner
from mooring.fence.journal import Journal
from tests.agent.remote_pools import HOST, RemotePool, remote_pool, volume

RUN = Runner.run
pytestmark = [pytest.mark.anyio, pytest.mark.hosts]


async def make_hollow(remote: RemotePool) -> Path:
    """Make volume v1 of 1 GiB, take its space away again, and return its file."""
    await remote.driver.setup()
    await remote.driver.create(volume(remote), None, "op")
    path = remote.driver.path("v1")
    os.truncate(path, 0)
    os.truncate(path, GIB)
    return path


async def test_a_thick_volume_takes_the_space_that_it_grows_by_and_nothing_else(
    tmp_path: Path, journal: Journal
) -> None:
    async with remote_pool("nfs", "raw", tmp_path, journal, nfs_sparsed_volumes=False) as remote:
        path = await make_hollow(remote)
        assert (await remote.driver.extend("v1", 2, "op")).virtual_bytes == 2 * GIB
        assert GIB <= path.stat().st_blocks * 512 < 1.5 * GIB


class DeadError(Exception):
    """The agent died here."""


@pytest.mark.parametrize("size_gib", [2, 3])
async def test_the_space_that_a_dead_agent_did_not_take_is_taken_by_the_next_extension(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch, size_gib: int
) -> None:
    run = Runner.run

    async def die(self: Runner, argv: Sequence[str], *budget: Budget, **more: Any) -> Output:
        if argv[0] == "fallocate":
            raise DeadError
        return await run(self, argv, *budget, **more)

    async with remote_pool("nfs", "raw", tmp_path, journal, nfs_sparsed_volumes=False) as remote:
        path = await make_hollow(remote)
        monkeypatch.setattr(Runner, "run", die)
        with pytest.raises(DeadError):
            await remote.driver.extend("v1", 2, "op")
        monkeypatch.undo()
        assert path.stat().st_size == 2 * GIB
        assert path.stat().st_blocks * 512 < GIB
        grown = await remote.driver.extend("v1", size_gib, "op")
        assert grown.virtual_bytes == size_gib * GIB
        taken = (size_gib - 1) * GIB
        assert taken <= path.stat().st_blocks * 512 < taken + GIB / 2


async def cannot_take(self: Runner, argv: Sequence[str], *budget: Budget, **more: Any) -> Output:
    """Run a program on NFS below 4.2: there each block is written back (test_allocation.py)."""
    if argv[0] == "fallocate":
        said = "fallocate: fallocate failed: Operation not supported"
        return Output(code=1, out="", err=said)
    return await RUN(self, argv, *budget, **more)


async def test_what_a_guest_may_write_to_is_not_written_over_to_take_its_space(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with remote_pool("nfs", "raw", tmp_path, journal, nfs_sparsed_volumes=False) as remote:
        path = await make_hollow(remote)
        monkeypatch.setattr(Runner, "run", cannot_take)
        await remote.driver.export("v1", "a1", {"host": HOST})
        assert (await remote.driver.extend("v1", 2, "op")).virtual_bytes == 2 * GIB
        assert (await remote.driver.extend("v1", 2, "op")).virtual_bytes == 2 * GIB
        assert path.stat().st_blocks * 512 < GIB / 2
        assert [one.untaken_bytes for one in await remote.driver.volumes()] == [GIB]
        await remote.driver.unexport("v1", "a1")
        await remote.driver.extend("v1", 2, "op")
        assert [one.untaken_bytes for one in await remote.driver.volumes()] == [0]
        assert GIB <= path.stat().st_blocks * 512 < 1.5 * GIB


async def test_a_snapshot_keeps_its_size_when_its_volume_grows_and_gets_its_space(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    thick = {"nfs_sparsed_volumes": False, "nfs_snapshot_support": True}
    async with remote_pool("nfs", "raw", tmp_path, journal, **thick) as remote:
        driver, path = remote.driver, await make_hollow(remote)
        monkeypatch.setattr(Runner, "run", cannot_take)
        await driver.export("v1", "a1", {"host": HOST})
        await driver.extend("v1", 2, "op")
        monkeypatch.undo()
        await driver.unexport("v1", "a1")
        await driver.take_snapshot("v1", "s1", "op")
        for _ in range(2):
            assert (await driver.extend("v1", 3, "op")).virtual_bytes == 3 * GIB
        assert path.stat().st_size == 2 * GIB
        assert GIB <= path.stat().st_blocks * 512 < 1.5 * GIB
        source = await driver.snapshot_source("v1", "s1")
        copied = await driver.create(volume(remote, "v2", 2), source, "op")
        assert copied.virtual_bytes == 2 * GIB


async def test_a_file_that_went_into_its_overlay_gets_no_space(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    thick = {"nfs_sparsed_volumes": False, "nfs_snapshot_support": True}
    async with remote_pool("nfs", "raw", tmp_path, journal, **thick) as remote:
        driver, path = remote.driver, await make_hollow(remote)
        monkeypatch.setattr(Runner, "run", cannot_take)
        await driver.export("v1", "a1", {"host": HOST})
        await driver.extend("v1", 2, "op")
        monkeypatch.undo()
        await driver.unexport("v1", "a1")
        await driver.take_snapshot("v1", "s1", "op")
        await QemuImg(Runner(journal)).rebase(driver.active_path("v1"), None)
        await driver.record_merge("v1", "s1")
        await driver.extend("v1", 2, "op")
        assert [one.untaken_bytes for one in await driver.volumes()] == [0]
        assert not path.exists()
        assert await driver.leftovers() == []


async def test_what_another_host_is_writing_to_the_share_is_left_alone(
    tmp_path: Path, journal: Journal
) -> None:
    async with remote_pool("nfs", "raw", tmp_path, journal) as remote:
        share = remote.shares.export()
        (share / RECORDS).mkdir()
        path, cached = share / "volume-v1", share / f"{CACHED}i1.raw"
        record = share / RECORDS / "volume-v1.json"
        ours, theirs = (
            [files.partial(one, "op", host) for one in (path, cached, record)]
            for host in (HOST, "host-2")
        )
        for left in (*ours, *theirs):
            left.touch()
        await remote.driver.setup()
        assert [left.exists() for left in ours] == [False] * 3
        await remote.driver.create(volume(remote), None, "op")
        await remote.driver.delete("v1")
        assert [left.exists() for left in theirs] == [True] * 3
        told = {Path(left).name for left in await remote.driver.leftovers()}
        assert told == {left.name for left in theirs}
