"""What becomes of the files of snapshots that a guest has merged, on every volume driver."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent import simulated_headers as headers
from mooring.agent.drivers.base import VolumeDriver
from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.errors import Conflict, Unavailable
from mooring.fence.journal import Journal
from tests.contract.test_volume_driver import HERE, make_driver, volume
from tests.contract.test_volume_snapshots import holds, qemu, reads, write

pytestmark = pytest.mark.anyio
_REAL = [pytest.param(kind, marks=pytest.mark.hosts) for kind in ("raw", "qcow2")]
_BASE = "volume-v1"
_MOVE = ("qemu-img", "rebase", "-q", "-f", "qcow2")


@pytest.fixture(params=["simulated", *_REAL])
async def driver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[VolumeDriver]:
    journal = Journal(tmp_path / "journal.sqlite")
    made = make_driver(request.param, tmp_path, journal)
    await made.setup()
    await made.create(volume(made), None, "op")
    yield made
    await made.close()
    await journal.close()


async def test_a_snapshot_that_has_the_file_of_a_later_one_goes_with_it(
    driver: VolumeDriver,
) -> None:
    await merge_the_newest(driver)
    if isinstance(driver, DirectoryDriver):
        assert driver.active_path("v1").name == f"{_BASE}.s2"
    await driver.unexport("v1", "a1")
    for _ in range(2):
        await driver.delete_snapshot("v1", "s1", "op")
    found = await driver.find("v1")
    assert found is not None
    assert found.snapshots == []
    if isinstance(driver, DirectoryDriver):
        assert files_in(driver) == [_BASE]
        for offset, pattern in enumerate((0x10, 0x11, 0x12)):
            await holds(driver, pattern, f"{offset}M")
    assert await driver.leftovers() == []


async def test_a_file_that_has_another_snapshots_name_stays_while_it_is_needed(
    driver: VolumeDriver,
) -> None:
    await merge_the_newest(driver)
    await driver.unexport("v1", "a1")
    for _ in range(2):
        # Its name is on the file that the other one stands for.
        await driver.delete_snapshot("v1", "s2", "op")
        await driver.record_merge("v1", "s2")
    await driver.take_snapshot("v1", "s3", "op")
    found = await driver.find("v1")
    assert found is not None
    assert found.snapshots == ["s1", "s3"]
    if isinstance(driver, DirectoryDriver):
        assert files_in(driver) == [_BASE, f"{_BASE}.s2", f"{_BASE}.s3"]
        for offset, pattern in enumerate((0x10, 0x11, 0x12)):
            await holds(driver, pattern, f"{offset}M")
        path, kind = (await driver.snapshot_source("v1", "s1")).file()
        await reads(path, kind, 0x10, "1M", "2M")
    assert await driver.leftovers() == []


@pytest.mark.parametrize("verb", ["record_merge", "delete_snapshot", "delete"])
async def test_a_file_that_a_dead_agent_left_of_a_merge_goes_with_the_next_call(
    driver: VolumeDriver, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    if not isinstance(driver, DirectoryDriver):
        return

    unlink = Path.unlink

    def die(path: Path, **how: bool) -> None:
        if path.name == f"{_BASE}.s1":
            raise InterruptedError(f"the agent died before it removed {path}")
        unlink(path, **how)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", die)
        with pytest.raises(Unavailable):
            await merge_the_newest(driver)
    assert f"{_BASE}.s1" in files_in(driver)
    await driver.setup()
    if verb == "record_merge":
        await driver.record_merge("v1", "s2")
        assert files_in(driver) == [_BASE, f"{_BASE}.s2"]
    await driver.unexport("v1", "a1")
    if verb == "delete_snapshot":
        await driver.delete_snapshot("v1", "s1", "op")
        assert files_in(driver) == [_BASE]
    await driver.delete("v1")
    assert files_in(driver) == []
    assert await driver.leftovers() == []


@pytest.mark.parametrize("by_guest", [False, True])
async def test_a_volume_whose_snapshot_is_gone_gets_another_id_with_all_its_data(
    driver: VolumeDriver, *, by_guest: bool
) -> None:
    if isinstance(driver, DirectoryDriver):
        await write(driver, 0x10, "0", "3M")
    await driver.take_snapshot("v1", "s1", "op")
    with pytest.raises(Conflict, match="has the snapshots s1"):
        await driver.rename("v1", "v2")
    if isinstance(driver, DirectoryDriver):
        await write(driver, 0x11, "1M")
    if by_guest:
        await stands_on(driver, ".s1", None)
        await driver.record_merge("v1", "s1")
    else:
        await driver.delete_snapshot("v1", "s1", "op")
    before = await driver.find("v1")
    assert before is not None
    for _ in range(2):
        await driver.rename("v1", "v2")
        assert await driver.volumes() == [replace(before, volume_id="v2")]
        assert await driver.leftovers() == []
    if isinstance(driver, DirectoryDriver):
        for offset, pattern in enumerate((0x10, 0x11, 0x10)):
            await reads(driver.active_path("v2"), before.format, pattern, f"{offset}M", "1M")
    assert (await driver.export("v2", "a1", HERE))["data"]["device_path"].endswith("/volume-v2")
    await driver.unexport("v2", "a1")
    await driver.delete("v2")
    assert (await driver.volumes(), await driver.leftovers()) == ([], [])


async def test_what_no_guest_has_merged_is_not_recorded(driver: VolumeDriver) -> None:
    for number in (1, 2, 3):
        await driver.take_snapshot("v1", f"s{number}", "op")
    await driver.export("v1", "a1", HERE)
    for snapshot_id in ("s2", "s3", "s1"):
        with pytest.raises(Conflict, match=f"files of snapshot {snapshot_id} are not merged"):
            await driver.record_merge("v1", snapshot_id)
        found = await driver.snapshot("v1", snapshot_id)
        assert found is not None
        assert found.merged is False
    # The middle one went down, and that is all.
    await stands_on(driver, ".s3", ".s1")
    with pytest.raises(Conflict, match="files of snapshot s1 are not merged"):
        await driver.record_merge("v1", "s1")
    await driver.record_merge("v1", "s2")
    await driver.record_merge("v1", "never-seen")
    known = await driver.find("v1")
    assert known is not None
    assert known.snapshots == ["s1", "s3"]
    await driver.unexport("v1", "a1")
    for snapshot_id in ("s1", "s3"):
        await driver.delete_snapshot("v1", snapshot_id, "op")
    # What is taken anew stands on what there is.
    await driver.take_snapshot("v1", "s3", "op")
    with pytest.raises(Conflict, match="files of snapshot s3 are not merged"):
        await driver.record_merge("v1", "s3")


async def stands_on(driver: VolumeDriver, upper: str, lower: str | None) -> None:
    """Let an overlay of the volume stand on another file of it, or alone, as a guest's merge does.

    They are named by what their names end with.
    """
    file = f"{_BASE}{upper}"
    backing = None if lower is None else f"{_BASE}{lower}"
    if isinstance(driver, DirectoryDriver):
        kind = "qcow2" if lower else driver.pool.format
        named = ("-b", "") if backing is None else ("-F", kind, "-b", backing)
        await qemu(*_MOVE, *named, str(driver.directory / file))
        return
    assert isinstance(driver, SimulatedDriver)
    on = None if backing is None else (backing, "qcow2" if lower else driver.pool.format)
    headers.put_below(driver.device_path("v1"), file, on)


async def merge_the_newest(driver: VolumeDriver) -> None:
    """Take two snapshots, and let a guest merge the newer one into the file that it writes to."""
    if isinstance(driver, DirectoryDriver):
        await write(driver, 0x10, "0", "3M")
    for number in (1, 2):
        await driver.take_snapshot("v1", f"s{number}", "op")
        if isinstance(driver, DirectoryDriver):
            await write(driver, 0x10 + number, f"{number}M")
    await driver.export("v1", "a1", HERE)
    await stands_on(driver, ".s2", "")
    await driver.record_merge("v1", "s2")


def files_in(driver: DirectoryDriver) -> list[str]:
    """Return the names of all files of volumes in a pool."""
    return sorted(path.name for path in driver.directory.glob("volume-*"))
