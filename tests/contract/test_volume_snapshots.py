"""What holds for the snapshots of every volume driver: on the simulated one and on real files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.agent.drivers.base import VolumeDriver
from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.drivers.file_snapshots import FileSnapshots
from mooring.agent.qemu_img import FORMATS, read_virtual_bytes
from mooring.agent_api.captures import DiskFormat
from mooring.agent_api.snapshots import Merge
from mooring.errors import Conflict, Invalid, NotFound
from mooring.fence.journal import Journal
from mooring.fence.threads import run_to_end
from mooring.limits import VOLUME_CHAIN_FILES
from tests.contract.holders import held_by_qemu
from tests.contract.test_volume_driver import HERE, make_driver, volume

pytestmark = pytest.mark.anyio
_REAL = [pytest.param(kind, marks=pytest.mark.hosts) for kind in ("raw", "qcow2")]
_BASE = "volume-v1"


@pytest.fixture(params=["simulated", *_REAL])
async def driver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[VolumeDriver]:
    journal = Journal(tmp_path / "journal.sqlite")
    made = make_driver(request.param, tmp_path, journal)
    await made.setup()
    await made.create(volume(made), None, "op")
    yield made
    await made.close()
    await journal.close()


@pytest.fixture(params=_REAL)
async def files(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[DirectoryDriver]:
    journal = Journal(tmp_path / "journal.sqlite")
    made = make_driver(request.param, tmp_path, journal)
    assert isinstance(made, DirectoryDriver)
    await made.setup()
    await made.create(volume(made), None, "op")
    yield made
    await journal.close()


async def qemu(*argv: str) -> str:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, stdout=pipe, stderr=pipe)
    out, err = await process.communicate()
    said = out.decode() + err.decode()
    assert process.returncode == 0, said
    return said


async def write(driver: FileSnapshots, pattern: int, offset: str = "0", size: str = "1M") -> None:
    """Write a pattern as a guest would."""
    known = await driver.find("v1")
    assert known is not None
    path = str(driver.active_path("v1"))
    said = await qemu(
        "qemu-io", "-f", known.format, "-c", f"write -P {pattern} {offset} {size}", path
    )
    assert "wrote" in said


async def holds(driver: FileSnapshots, pattern: int, offset: str = "0", size: str = "1M") -> None:
    """See that the volume reads back a pattern."""
    known = await driver.find("v1")
    assert known is not None
    await reads(driver.active_path("v1"), known.format, pattern, offset, size)


async def reads(path: Path, disk_format: str, pattern: int, offset: str, size: str) -> None:
    command = f"read -P {pattern} {offset} {size}"
    said = await qemu("qemu-io", "-r", "-f", disk_format, "-c", command, str(path))
    assert "verification failed" not in said, said


async def test_a_snapshot_is_taken_found_and_deleted(driver: VolumeDriver) -> None:
    for _ in range(2):
        made = await driver.take_snapshot("v1", "s1", "op")
        assert (made.state, made.file) == ("taken", f"{_BASE}.s1")
        assert made.merge == Merge(None, None)
    found = await driver.find("v1")
    assert found is not None
    assert (found.snapshots, found.format) == (["s1"], "qcow2")
    info = await driver.export("v1", "a1", HERE)
    assert info["data"]["device_path"].endswith(f"/{_BASE}.s1")
    assert info["data"]["format"] == "qcow2"
    await driver.unexport("v1", "a1")
    for _ in range(2):
        await driver.delete_snapshot("v1", "s1", "op")
    assert await driver.snapshot("v1", "s1") is None
    assert await driver.leftovers() == []
    info = await driver.export("v1", "a1", HERE)
    assert info["data"]["device_path"].endswith(f"/{_BASE}")
    assert info["data"]["format"] == driver.pool.format


async def test_while_exported_only_a_hypervisor_changes_the_files(driver: VolumeDriver) -> None:
    await driver.take_snapshot("v1", "s1", "op")
    await driver.export("v1", "a1", HERE)
    with pytest.raises(Conflict, match="is exported"):
        await driver.take_snapshot("v1", "s2", "op")
    with pytest.raises(Conflict, match="is exported"):
        await driver.delete_snapshot("v1", "s1", "op")
    for _ in range(2):
        prepared = await driver.prepare_snapshot("v1", "s2", "op")
        assert (prepared.state, prepared.held, prepared.merge) == ("prepared", "nobody", None)
    before = await driver.export("v1", "a1", HERE)
    assert before["data"]["device_path"].endswith(f"/{_BASE}.s1")
    with pytest.raises(Conflict, match="has not ended"):
        await driver.prepare_snapshot("v1", "s3", "op")
    for _ in range(2):
        taken = await driver.take_snapshot("v1", "s2", "op")
        assert taken.state == "taken"
    after = await driver.export("v1", "a1", HERE)
    assert after["data"]["device_path"].endswith(f"/{_BASE}.s2")


async def test_what_was_only_prepared_is_taken_back(driver: VolumeDriver) -> None:
    await driver.export("v1", "a1", HERE)
    await driver.prepare_snapshot("v1", "s1", "op")
    for _ in range(2):
        await driver.delete_snapshot("v1", "s1", "op")
    assert await driver.snapshot("v1", "s1") is None
    assert await driver.leftovers() == []
    await driver.prepare_snapshot("v1", "s2", "op")


async def test_what_is_not_there_has_no_snapshots(driver: VolumeDriver) -> None:
    assert await driver.snapshot("v1", "s1") is None
    assert await driver.snapshot("v2", "s1") is None
    await driver.delete_snapshot("v1", "s1", "op")
    await driver.delete_snapshot("v2", "s1", "op")
    for act in (driver.take_snapshot, driver.prepare_snapshot):
        with pytest.raises(NotFound):
            await act("v2", "s1", "op")
    with pytest.raises(NotFound):
        await driver.snapshot_source("v1", "s1")


async def test_a_volume_is_removed_with_all_its_files(driver: VolumeDriver) -> None:
    await driver.take_snapshot("v1", "s1", "op")
    await driver.prepare_snapshot("v1", "s2", "op")
    for _ in range(2):
        await driver.delete("v1")
    assert await driver.find("v1") is None
    assert await driver.leftovers() == []


async def test_a_chain_has_an_end(driver: VolumeDriver) -> None:
    if isinstance(driver, DirectoryDriver):
        pytest.skip("the rule is the same, and files take their time")
    for number in range(VOLUME_CHAIN_FILES):
        await driver.take_snapshot("v1", f"s{number}", "op")
    with pytest.raises(Invalid, match="64 snapshots"):
        await driver.take_snapshot("v1", "more", "op")


async def test_a_new_volume_holds_what_the_snapshot_does(driver: VolumeDriver) -> None:
    if isinstance(driver, DirectoryDriver):
        await write(driver, 0xAA)
    await driver.take_snapshot("v1", "s1", "op")
    if isinstance(driver, DirectoryDriver):
        await write(driver, 0xBB)
    source = await driver.snapshot_source("v1", "s1")
    await driver.create(volume(driver, 2, "v2"), source, "op")
    if isinstance(driver, DirectoryDriver):
        await reads(driver.path("v2"), driver.pool.format, 0xAA, "0", "1M")
        await holds(driver, 0xBB)


async def test_a_new_volume_holds_what_another_one_does(driver: VolumeDriver) -> None:
    if isinstance(driver, DirectoryDriver):
        await write(driver, 0xAA)
    await driver.take_snapshot("v1", "s1", "op")
    if isinstance(driver, DirectoryDriver):
        await write(driver, 0xBB)
    source = await driver.volume_source("v1")
    await driver.create(volume(driver, 2, "v2"), source, "op")
    if isinstance(driver, DirectoryDriver):
        await reads(driver.path("v2"), driver.pool.format, 0xBB, "0", "1M")


@pytest.mark.parametrize("disk_format", FORMATS)
async def test_a_capture_holds_what_the_volume_does_and_stands_alone(
    driver: VolumeDriver, tmp_path: Path, disk_format: DiskFormat
) -> None:
    captured = tmp_path / "captured"
    if isinstance(driver, DirectoryDriver):
        await write(driver, 0xAA, "0", "2M")
    await driver.take_snapshot("v1", "s1", "op")
    if isinstance(driver, DirectoryDriver):
        await write(driver, 0xBB, "1M")
    for _ in range(2):
        await driver.capture("v1", (captured, disk_format), "op")
        assert read_virtual_bytes(captured, disk_format) == 1024**3
    assert await driver.copied_percent("v1") is None
    if isinstance(driver, DirectoryDriver):
        await write(driver, 0xCC, "0", "2M")
        await reads(captured, disk_format, 0xAA, "0", "1M")
        await reads(captured, disk_format, 0xBB, "1M", "1M")
    assert await driver.leftovers() == []


async def test_a_volume_that_somebody_has_is_not_captured(
    driver: VolumeDriver, tmp_path: Path
) -> None:
    target: tuple[Path, DiskFormat] = (tmp_path / "captured", "raw")
    with pytest.raises(NotFound):
        await driver.capture("v2", target, "op")
    await driver.export("v1", "a1", HERE)
    with pytest.raises(Conflict, match="a1"):
        await driver.capture("v1", target, "op")
    assert not target[0].exists()


async def test_a_volume_goes_back_to_its_newest_snapshot(driver: VolumeDriver) -> None:
    if isinstance(driver, DirectoryDriver):
        await write(driver, 0xAA)
    await driver.take_snapshot("v1", "s1", "op")
    if isinstance(driver, DirectoryDriver):
        await write(driver, 0xBB)
    for _ in range(2):
        found = await driver.revert("v1", "s1", "op")
        assert (found.volume_id, found.snapshots) == ("v1", ["s1"])
    if isinstance(driver, DirectoryDriver):
        await holds(driver, 0xAA)
        await write(driver, 0xCC)
    await driver.delete_snapshot("v1", "s1", "op")
    if isinstance(driver, DirectoryDriver):
        await holds(driver, 0xCC)
    assert await driver.leftovers() == []


async def test_a_volume_goes_back_to_no_other_snapshot(driver: VolumeDriver) -> None:
    await driver.take_snapshot("v1", "s1", "op")
    await driver.take_snapshot("v1", "s2", "op")
    with pytest.raises(Conflict, match="not the newest"):
        await driver.revert("v1", "s1", "op")
    with pytest.raises(NotFound):
        await driver.revert("v1", "s3", "op")
    await driver.export("v1", "a1", HERE)
    with pytest.raises(Conflict, match="a1"):
        await driver.revert("v1", "s2", "op")


async def test_a_volume_that_somebody_has_is_not_copied(driver: VolumeDriver) -> None:
    with pytest.raises(NotFound):
        await driver.volume_source("v2")
    await driver.export("v1", "a1", HERE)
    with pytest.raises(Conflict, match="a1"):
        await driver.volume_source("v1")
    await driver.unexport("v1", "a1")
    assert (await driver.volume_source("v1")).virtual_bytes == 1024**3


@pytest.mark.hosts
@pytest.mark.parametrize("order", ["123", "132", "213", "231", "312", "321"])
async def test_deleting_snapshots_in_any_order_keeps_the_data(
    files: DirectoryDriver, order: str
) -> None:
    await write(files, 0x10, "0", "4M")
    for number in (1, 2, 3):
        await files.take_snapshot("v1", f"s{number}", "op")
        await write(files, 0x10 + number, f"{number}M", "1M")
    left = {1, 2, 3}
    for number in map(int, order):
        await files.delete_snapshot("v1", f"s{number}", "op")
        left.discard(number)
        for offset, pattern in enumerate((0x10, 0x11, 0x12, 0x13)):
            await holds(files, pattern, f"{offset}M")
        for other in left:
            path, kind = (await files.snapshot_source("v1", f"s{other}")).file()
            await reads(path, kind, 0x10, f"{other}M", "1M")
            await reads(path, kind, 0x10 + other - 1, f"{other - 1}M", "1M")
    assert files.active_path("v1").name == _BASE
    assert await files.leftovers() == []


@pytest.mark.hosts
async def test_a_volume_that_grew_since_keeps_its_size(files: DirectoryDriver) -> None:
    await files.take_snapshot("v1", "s1", "op")
    await files.extend("v1", 2, "op")
    await write(files, 0x77, "1500M")
    source = await files.snapshot_source("v1", "s1")
    assert source.virtual_bytes == 1024**3
    await files.delete_snapshot("v1", "s1", "op")
    found = await files.find("v1")
    assert found is not None
    assert found.size_gib == 2
    await holds(files, 0x77, "1500M")


@pytest.mark.hosts
async def test_a_merge_that_was_cut_short_is_done_again(files: DirectoryDriver) -> None:
    await write(files, 0x10, "0", "4M")
    for number in (1, 2):
        await files.take_snapshot("v1", f"s{number}", "op")
        await write(files, 0x10 + number, f"{number}M", "1M")
    base, first, second = (files.directory / f"{_BASE}{end}" for end in ("", ".s1", ".s2"))
    # A dead agent had committed the first overlay and put the second on the base.
    await qemu("qemu-img", "commit", "-q", "-d", "-f", "qcow2", str(first))
    move = ["qemu-img", "rebase", "-q", "-u", "-f", "qcow2", "-F", files.pool.format]
    await qemu(*move, "-b", base.name, str(second))
    await files.setup()
    await files.delete_snapshot("v1", "s1", "op")
    assert not first.exists()
    for offset, pattern in enumerate((0x10, 0x11, 0x12, 0x10)):
        await holds(files, pattern, f"{offset}M")
    assert await files.leftovers() == []


@pytest.mark.hosts
async def test_a_file_that_stands_on_a_foreign_one_is_not_read(
    files: DirectoryDriver, tmp_path: Path
) -> None:
    await files.take_snapshot("v1", "s1", "op")
    await files.take_snapshot("v1", "s2", "op")
    secret = tmp_path / "secret"
    secret.write_bytes(b"x" * 1024**2)
    overlay = files.directory / f"{_BASE}.s1"
    move = ["qemu-img", "rebase", "-q", "-u", "-f", "qcow2", "-F", "raw"]
    await qemu(*move, "-b", str(secret), str(overlay))
    with pytest.raises(Conflict, match="does not stand on"):
        await files.snapshot_source("v1", "s2")
    with pytest.raises(Conflict, match="does not stand on"):
        await files.delete_snapshot("v1", "s1", "op")


@pytest.mark.hosts
async def test_the_locks_tell_which_file_a_guest_writes_to(files: DirectoryDriver) -> None:
    base = files.path("v1")
    async with held_by_qemu(base, files.pool.format, read_only=False):
        prepared = await files.prepare_snapshot("v1", "s1", "op")
        assert prepared.held == "below"
    overlay = files.directory / prepared.file
    async with held_by_qemu(overlay, "qcow2", read_only=False):
        found = await files.snapshot("v1", "s1")
        assert found is not None
        assert found.held == "overlay"
        with pytest.raises(Conflict, match="writes to the overlay"):
            await files.delete_snapshot("v1", "s1", "op")
    await files.take_snapshot("v1", "s1", "op")
    async with held_by_qemu(overlay, "qcow2", read_only=False):
        with pytest.raises(Conflict, match="open in another program"):
            await files.delete_snapshot("v1", "s1", "op")
    await files.delete_snapshot("v1", "s1", "op")


@pytest.mark.hosts
async def test_what_a_hypervisor_merged_is_recorded(files: DirectoryDriver) -> None:
    await write(files, 0x10, "0", "4M")
    for number in (1, 2, 3):
        await files.take_snapshot("v1", f"s{number}", "op")
        await write(files, 0x10 + number, f"{number}M", "1M")
    base, first, second, third = (
        files.directory / f"{_BASE}{end}" for end in ("", ".s1", ".s2", ".s3")
    )
    await files.export("v1", "a1", HERE)
    with pytest.raises(Conflict, match="are not merged"):
        await files.record_merge("v1", "s2")
    move = ("qemu-img", "rebase", "-q", "-f", "qcow2")
    # The middle one goes down into the one below it.
    await qemu("qemu-img", "commit", "-q", "-d", "-f", "qcow2", str(second))
    await qemu(*move, "-u", "-F", "qcow2", "-b", first.name, str(third))
    await is_recorded(files, "s2", Merge(second.name, first.name), gone=second)
    # The active file takes in what lies below it, but not the base; then all of it.
    await qemu(*move, "-F", files.pool.format, "-b", base.name, str(third))
    await is_recorded(files, "s3", Merge(base.name, None), gone=first)
    await qemu(*move, "-b", "", str(third))
    await is_recorded(files, "s1", Merge(None, None), gone=base)
    await files.unexport("v1", "a1")
    await files.take_snapshot("v1", "s4", "op")
    await files.delete_snapshot("v1", "s4", "op")
    assert files.active_path("v1") == third
    await files.delete("v1")
    assert await files.leftovers() == []
    assert await files.volumes() == []


async def is_recorded(
    driver: DirectoryDriver, snapshot_id: str, merge: Merge, *, gone: Path
) -> None:
    """See that a merge was planned so, is noticed, and recorded without a loss."""
    found = await driver.snapshot("v1", snapshot_id)
    assert found is not None
    assert (found.merge, found.merged) == (merge, True)
    for _ in range(2):
        await driver.record_merge("v1", snapshot_id)
    assert not await run_to_end(gone.exists)
    assert await driver.leftovers() == []
    for offset, pattern in enumerate((0x10, 0x11, 0x12, 0x13)):
        await holds(driver, pattern, f"{offset}M")
