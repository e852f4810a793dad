"""Snapshots that are copies, of volumes that stay one file: on the simulated pool, and real files.

The real ones lie on file systems with reflinks and without; of the latter no copy is taken while a
guest may write.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from mooring.agent import files, reflinks, simulated_pool
from mooring.agent.drivers.base import VolumeDriver
from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.drivers.file_snapshots import FileSnapshots
from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent.qemu_img import GIB, QemuImg
from mooring.agent.run import Runner
from mooring.agent.settings import PoolSettings
from mooring.agent.world import SimulatedDisk, SimulatedGuest, World
from mooring.agent_api.snapshots import SnapshotFile
from mooring.errors import Conflict, NoCapacity, NotFound
from mooring.fence.journal import Journal
from tests.agent.places import place
from tests.agent.remote_pools import HOST, KINDS, remote_pool
from tests.agent.test_allocation import small_file_system
from tests.contract.holders import held_by_qemu
from tests.contract.test_volume_driver import HERE, make_driver, volume
from tests.contract.test_volume_snapshots import holds, reads, write

pytestmark = pytest.mark.anyio
REFLINKS, PLAIN = ("btrfs", "xfs"), ("raw", "qcow2")
REMOTE = ("nfs/raw", "quobyte/qcow2")
_MIB = {"btrfs": 256, "xfs": 400}
_BASE, _COPY = "volume-v1", "volume-v1.s1"
_OPTIONS: dict[str, dict[str, Any]] = {"nfs": {"nfs_snapshot_support": True}}
_REAL = [pytest.param(kind, marks=pytest.mark.hosts) for kind in (*REFLINKS, *PLAIN, *REMOTE)]


class Pool(Struct):
    """A pool with a raw volume `v1`, and whether its storage copies a file at once."""

    driver: VolumeDriver
    has_reflinks: bool
    directory: Path

    async def found(self) -> SnapshotFile | None:
        return await self.driver.snapshot("v1", "s1")

    async def copy(self, snapshot_id: str = "s1") -> SnapshotFile:
        return await self.driver.copy_snapshot("v1", snapshot_id, "op")

    async def write(self, pattern: int) -> None:
        if isinstance(self.driver, FileSnapshots):
            await write(self.driver, pattern)

    async def holds(self, pattern: int) -> None:
        if isinstance(self.driver, FileSnapshots):
            await holds(self.driver, pattern)

    async def holds_copy(self, pattern: int, snapshot_id: str = "s1") -> None:
        """See that a snapshot reads back a pattern, at most in its own first bytes."""
        if isinstance(self.driver, FileSnapshots):
            path, kind = (await self.driver.snapshot_source("v1", snapshot_id)).file()
            await reads(path, kind, pattern, "0", "1M")

    @asynccontextmanager
    async def opened_by_guest(self) -> AsyncGenerator[None]:
        """Have a guest open the volume to write to."""
        driver = self.driver
        if isinstance(driver, FileSnapshots):
            async with held_by_qemu(driver.active_path("v1"), "raw", read_only=False):
                yield
            return
        assert isinstance(driver, SimulatedDriver)
        guests, path = World(self.directory / "world.sqlite"), driver.device_path("v1")
        simulated_pool.note_opener(path, guests.path)
        disk = SimulatedDisk(
            volume_id="v1",
            attachment_id="a1",
            device="/dev/vdb",
            path=path,
            format="raw",
            size_bytes=GIB,
            shareable=True,
            live=True,
        )
        guests.save(SimulatedGuest(server_id="s", name="x", vcpus=1, memory_mib=1, disks=[disk]))
        yield
        guests.remove("s")
        guests.close()


@asynccontextmanager
async def open_pool(kind: str, directory: Path, patch: pytest.MonkeyPatch) -> AsyncGenerator[Pool]:
    journal = Journal(directory / "journal.sqlite")
    name, _, disk_format = kind.partition("/")
    if name in (*PLAIN, *KINDS):
        # Whatever the file system under the tests can.
        patch.setattr(reflinks, "clone", _no_reflinks)
    async with AsyncExitStack() as stack:
        if name in KINDS:
            options = _OPTIONS.get(name, {})
            remote = remote_pool(name, disk_format, directory, journal, **options)
            made: VolumeDriver = (await stack.enter_async_context(remote)).driver
        elif name in REFLINKS:
            mounted = stack.enter_context(small_file_system(directory, name, _MIB[name]))
            where = place(mounted / "volumes", HOST)
            settings = PoolSettings(name="pool", format="qcow2")
            made = DirectoryDriver(settings, where, QemuImg(Runner(journal)))
        else:
            made = make_driver(name.partition("-")[0], directory, journal)
        if name == "simulated-plain":
            assert isinstance(made, SimulatedDriver)
            made.reflinks = False
        await made.setup()
        await made.create(replace(volume(made), format="raw"), None, "op")
        yield Pool(made, name in ("simulated", *REFLINKS), directory)
        await made.close()
    await journal.close()


def _no_reflinks(source: Path, target: Path) -> bool:
    del source
    target.touch()
    return False


@pytest.fixture(params=["simulated", "simulated-plain", *_REAL])
async def pool(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Pool]:
    async with open_pool(request.param, tmp_path, monkeypatch) as opened:
        yield opened


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.hosts) for kind in ("xfs", "raw")])
async def real(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[FileSnapshots]:
    async with open_pool(request.param, tmp_path, monkeypatch) as opened:
        assert isinstance(opened.driver, FileSnapshots)
        yield opened.driver


async def test_a_copy_is_made_found_and_removed_and_the_volume_stays_one_file(pool: Pool) -> None:
    driver = pool.driver
    await pool.write(0xAA)
    made = await pool.copy()
    assert (made.state, made.file, made.merge) == ("copied", _COPY, None)
    assert made.size_bytes == GIB
    await pool.write(0xBB)
    assert await pool.copy() == await pool.found() == made
    await pool.holds_copy(0xAA)
    await pool.holds(0xBB)
    known = await driver.find("v1")
    assert known is not None
    assert (known.snapshots, known.format) == (["s1"], "raw")
    info = await driver.export("v1", "a1", HERE)
    place_of = info["data"].get("device_path") or info["data"]["name"]
    assert place_of.endswith(_BASE)
    assert info["data"]["format"] == "raw"
    assert await driver.leftovers() == []
    # It goes whoever has the volume: nothing of that stands on it.
    async with pool.opened_by_guest():
        for _ in range(2):
            await driver.delete_snapshot("v1", "s1", "op")
    assert await pool.found() is None
    await pool.holds(0xBB)
    assert await driver.leftovers() == []
    assert (await driver.stats()).provisioned_gib == 1


async def test_a_copy_under_a_guest_takes_reflinks(pool: Pool) -> None:
    await pool.write(0xAA)
    await pool.driver.export("v1", "a1", HERE)
    async with pool.opened_by_guest():
        if pool.has_reflinks:
            assert (await pool.copy()).state == "copied"
        else:
            for _ in range(2):
                with pytest.raises(Conflict, match=r"open in a guest.*no reflinks.*servers off"):
                    await pool.copy()
            assert await pool.found() is None
        assert await pool.driver.leftovers() == []
    # A server that is off has the volume, too, and writes nothing.
    if isinstance(pool.driver, FileSnapshots) and not await pool.driver.shows_locks():
        with pytest.raises(Conflict, match="may be open"):
            await pool.copy()
        await pool.driver.unexport("v1", "a1")
    assert (await pool.copy()).state == "copied"
    await pool.holds_copy(0xAA)


async def test_a_volume_goes_back_to_its_newest_copy_and_stays_raw(pool: Pool) -> None:
    driver = pool.driver
    await pool.write(0xAA)
    await pool.copy()
    await pool.write(0xBB)
    await pool.copy("s2")
    await pool.write(0xCC)
    with pytest.raises(Conflict, match="not the newest"):
        await driver.revert("v1", "s1", "op")
    for _ in range(2):
        found = await driver.revert("v1", "s2", "op")
        assert (found.snapshots, found.format) == (["s1", "s2"], "raw")
        await pool.holds(0xBB)
    await pool.write(0xCC)
    await pool.holds_copy(0xBB, "s2")
    await driver.delete_snapshot("v1", "s2", "op")
    await driver.revert("v1", "s1", "op")
    await pool.holds(0xAA)
    with pytest.raises(NotFound):
        await driver.revert("v1", "s2", "op")
    await driver.export("v1", "a1", HERE)
    with pytest.raises(Conflict, match="a1"):
        await driver.revert("v1", "s1", "op")
    assert await driver.leftovers() == []


async def test_what_is_made_of_a_copy_has_its_content(pool: Pool, tmp_path: Path) -> None:
    driver = pool.driver
    await pool.write(0xAA)
    await pool.copy()
    await pool.write(0xBB)
    await driver.extend("v1", 2, "op")
    source = await driver.snapshot_source("v1", "s1")
    assert source.virtual_bytes == GIB
    made = replace(volume(driver, 2, "v2"), format="raw")
    assert await driver.create(made, source, "op") == made
    await driver.capture("v1", (tmp_path / "captured", "raw"), "op", "s1")
    if isinstance(driver, FileSnapshots):
        await reads(driver.path("v2"), "raw", 0xAA, "0", "1M")
        await reads(tmp_path / "captured", "raw", 0xAA, "0", "1M")
        await reads(tmp_path / "captured", "raw", 0, "1M", "1M")
    # One that grew since keeps its size when it goes back.
    assert (await driver.revert("v1", "s1", "op")).size_gib == 2
    await pool.holds(0xAA)
    assert await driver.leftovers() == []


async def test_a_volume_is_removed_with_its_copies_and_keeps_its_id_till_then(pool: Pool) -> None:
    await pool.copy()
    await pool.copy("s2")
    with pytest.raises(Conflict, match="s1, s2"):
        await pool.driver.rename("v1", "v2")
    for _ in range(2):
        await pool.driver.delete("v1")
    assert await pool.driver.find("v1") is None
    assert await pool.driver.leftovers() == []


async def test_overlays_come_above_copies_and_none_of_those_above_them(pool: Pool) -> None:
    driver = pool.driver
    await pool.write(0xAA)
    await pool.copy()
    await pool.write(0xBB)
    await driver.take_snapshot("v1", "s2", "op")
    await pool.write(0xCC)
    with pytest.raises(Conflict, match="overlays"):
        await pool.copy("s3")
    known = await driver.find("v1")
    assert known is not None
    assert (known.snapshots, known.format) == (["s1", "s2"], "qcow2")
    with pytest.raises(Conflict, match="not the newest"):
        await driver.revert("v1", "s1", "op")
    await driver.revert("v1", "s2", "op")
    await pool.holds(0xBB)
    await driver.delete_snapshot("v1", "s2", "op")
    await pool.holds(0xBB)
    await driver.revert("v1", "s1", "op")
    await pool.holds(0xAA)
    await driver.delete_snapshot("v1", "s1", "op")
    assert await driver.leftovers() == []


async def test_what_is_not_there_is_not_copied(pool: Pool) -> None:
    with pytest.raises(NotFound):
        await pool.driver.copy_snapshot("v2", "s1", "op")
    await pool.driver.delete_snapshot("v1", "s1", "op")
    with pytest.raises(NotFound):
        await pool.driver.snapshot_source("v1", "s1")


async def test_a_copy_that_was_cut_short_counts_for_nothing(real: FileSnapshots) -> None:
    await write(real, 0xAA)
    begun = files.partial(real.directory / _COPY, "other", HOST)
    begun.write_bytes(b"half")
    (real.directory / _COPY).write_bytes(b"whole, and not yet written down")
    assert await real.snapshot("v1", "s1") is None
    await real.delete_snapshot("v1", "s1", "op")
    assert await real.leftovers() == []
    (real.directory / _COPY).write_bytes(b"whole, and not yet written down")
    await real.copy_snapshot("v1", "s1", "op")
    path, _ = (await real.snapshot_source("v1", "s1")).file()
    await reads(path, "raw", 0xAA, "0", "1M")
    assert path.stat().st_size == GIB
    assert path.stat().st_blocks * 512 <= 2 << 20


class _Writing(QemuImg):
    """Copies a disk, and writes to it meanwhile."""

    async def convert(
        self, source: tuple[Path, str], target: tuple[Path, str], *, operation_key: str = ""
    ) -> None:
        await super().convert(source, target, operation_key=operation_key)
        with source[0].open("r+b") as file:
            file.write(b"later")


@pytest.mark.hosts
async def test_what_was_written_to_meanwhile_is_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflinks, "clone", _no_reflinks)
    journal = Journal(tmp_path / "journal.sqlite")
    settings, where = PoolSettings(name="pool", format="raw"), place(tmp_path / "volumes", HOST)
    driver = DirectoryDriver(settings, where, _Writing(Runner(journal)))
    await driver.setup()
    await driver.create(volume(driver), None, "op")
    with pytest.raises(Conflict, match="was written to while it was copied"):
        await driver.copy_snapshot("v1", "s1", "op")
    assert await driver.snapshot("v1", "s1") is None
    assert await driver.leftovers() == []
    await driver.close()
    await journal.close()


@pytest.mark.hosts
@pytest.mark.parametrize("kind", ["ext4", *REFLINKS])
async def test_a_full_file_system_refuses_what_takes_room(tmp_path: Path, kind: str) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    with small_file_system(tmp_path, kind, _MIB.get(kind, 128)) as mounted:
        where = place(mounted / "volumes", HOST)
        settings = PoolSettings(name="pool", format="raw", oversubscription=100, reserved_percent=0)
        driver = DirectoryDriver(settings, where, QemuImg(Runner(journal)))
        await driver.setup()
        await driver.create(volume(driver), None, "op")
        await write(driver, 0xAA, "0", f"{_MIB.get(kind, 128) * 5 // 8}M")
        if kind in REFLINKS:
            await driver.copy_snapshot("v1", "s1", "op")
        else:
            with pytest.raises(NoCapacity, match="no room"):
                await driver.copy_snapshot("v1", "s1", "op")
            assert await driver.snapshot("v1", "s1") is None
        assert await driver.leftovers() == []
        await driver.close()
    await journal.close()


async def test_a_copy_that_ends_late_takes_no_other_one_out_of_the_record(
    real: FileSnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def dress_file(path: Path) -> None:
        if ".s1." in path.name:
            begun.set()
            assert goes_on.wait(60)

    monkeypatch.setattr(real, "dress_file", dress_file)
    late = asyncio.create_task(real.copy_snapshot("v1", "s1", "op1"))
    await asyncio.to_thread(begun.wait, 60)
    # Whoever made that one was given up by a reset, while its host could not be asked.
    await real.copy_snapshot("v1", "s2", "op2")
    goes_on.set()
    await late
    known = await real.find("v1")
    assert known is not None
    assert sorted(known.snapshots) == ["s1", "s2"]
    assert await real.leftovers() == []
