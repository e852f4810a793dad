"""A volume that cannot be read, in every pool of files: it alone has a part in that.

Its record is damaged, or the storage does not give one of its files.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest

from mooring.agent.drivers.file_snapshots import FileSnapshots
from mooring.errors import Conflict, Unavailable
from mooring.fence.journal import Journal
from tests.agent.remote_pools import remote_pool
from tests.contract.holders import held_by_qemu
from tests.contract.test_volume_driver import HERE, make_driver, volume

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]
DAMAGED = [b"", b"{", b'{"format": 1}']


@pytest.fixture(params=["raw", "qcow2", "nfs"])
async def driver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[FileSnapshots]:
    """A pool with the volumes v1, of 2 GiB, and v2, whose names begin alike with that of v."""
    journal = Journal(tmp_path / "journal.sqlite")
    async with AsyncExitStack() as stack:
        if request.param == "nfs":
            options = {"nfs_snapshot_support": True}
            remote = remote_pool("nfs", "raw", tmp_path, journal, **options)
            made = (await stack.enter_async_context(remote)).driver
        else:
            local = make_driver(request.param, tmp_path, journal)
            assert isinstance(local, FileSnapshots)
            made = local
        await made.setup()
        await made.create(volume(made, 2), None, "op")
        await made.create(volume(made, 1, "v2"), None, "op")
        yield made
        await made.close()
    await journal.close()


def damage(driver: FileSnapshots, content: bytes = b"", volume_id: str = "v1") -> Path:
    record = driver.record_path(volume_id)
    record.write_bytes(content)
    return record


@contextmanager
def unreadable(path: Path, aside: Path, to: str = "/proc/self/mem") -> Generator[None]:
    """Have the storage not give a file in the body: who reads it gets EIO.

    It leads to the memory of this process, of which nothing is at its beginning. Who opens one that
    leads `to` itself gets ELOOP.
    """
    path.rename(aside)
    path.symlink_to(to)
    yield
    path.unlink()
    aside.rename(path)


@pytest.mark.parametrize("content", DAMAGED)
async def test_it_hides_no_other_volume_and_says_what_is_damaged(
    driver: FileSnapshots, content: bytes
) -> None:
    record = damage(driver, content)
    first, second = await driver.volumes()
    assert (first.volume_id, f"{record} is damaged" in first.problem) == ("v1", True)
    assert second == await driver.find("v2") == volume(driver, 1, "v2")
    stats = await driver.stats()
    raw = driver.pool.format == "raw"
    # A qcow2 file without content is small, whatever it promises: that stands in it alone.
    assert (stats.volumes, stats.provisioned_gib) == (2, 3 if raw else 2)
    assert await driver.leftovers() == []
    await driver.create(volume(driver, 1, "v3"), None, "op")


async def test_every_verb_about_it_says_what_to_do(driver: FileSnapshots) -> None:
    record = damage(driver)
    asked = [
        lambda: driver.find("v1"),
        lambda: driver.create(volume(driver, 2), None, "op"),
        lambda: driver.extend("v1", 3, "op"),
        lambda: driver.export("v1", "a1", HERE),
        lambda: driver.unexport("v1", "a1"),
        lambda: driver.holders("v1"),
        lambda: driver.rename("v1", "v9"),
        lambda: driver.snapshot("v1", "s1"),
        lambda: driver.take_snapshot("v1", "s1", "op"),
        lambda: driver.delete_snapshot("v1", "s1", "op"),
        lambda: driver.volume_source("v1"),
    ]
    for ask in asked:
        with pytest.raises(Unavailable, match=f"{record} is damaged.* restore the file"):
            await ask()
    assert record.read_bytes() == b""
    assert driver.path("v1").exists()


async def test_a_deletion_takes_all_that_has_its_name_along_and_nothing_else(
    driver: FileSnapshots,
) -> None:
    await driver.take_snapshot("v1", "s1", "op")
    await driver.create(volume(driver, 1, "v1x"), None, "op")
    await driver.take_snapshot("v1x", "s2", "op")
    damage(driver)
    assert await driver.leftovers() == []
    for _ in range(2):
        await driver.delete("v1")
        assert [one.volume_id for one in await driver.volumes()] == ["v1x", "v2"]
        assert await driver.leftovers() == []
    assert not list(driver.directory.glob("volume-v1.*"))
    assert (await driver.snapshot("v1x", "s2")) is not None


async def test_what_a_guest_has_open_is_not_removed(driver: FileSnapshots) -> None:
    record, path = damage(driver), driver.path("v1")
    async with held_by_qemu(path, driver.pool.format, read_only=False):
        with pytest.raises(Conflict, match=f"whose record {record} is damaged"):
            await driver.delete("v1")
        assert record.exists()
        assert path.exists()
    await driver.delete("v1")
    assert not path.exists()


async def test_a_file_that_another_volumes_record_names_is_left(driver: FileSnapshots) -> None:
    copy = volume(driver, 1, "copy")
    await driver.create(copy, None, "op", becomes="v9")
    damage(driver, volume_id="v9")
    await driver.delete("v9")
    assert driver.path("v9").exists()
    await driver.rename("copy", "v9")
    assert await driver.find("v9") == volume(driver, 1, "v9")


async def test_the_file_of_a_damaged_copy_is_not_called_a_leftover(driver: FileSnapshots) -> None:
    await driver.create(volume(driver, 1, "copy"), None, "op", becomes="v9")
    damage(driver, volume_id="copy")
    assert await driver.leftovers() == []
    # Its record alone said whose the file is.
    await driver.delete("copy")
    assert await driver.leftovers() == [str(driver.path("v9"))]


async def test_where_no_lock_is_seen_it_is_kept_for_who_can_look(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    async with remote_pool("nfs", "raw", tmp_path, journal) as remote:
        remote.shares.set_options("rw,vers=3,nolock")
        driver = remote.driver
        await driver.setup()
        await driver.create(volume(driver), None, "op")
        record = damage(driver)
        with pytest.raises(Conflict, match="does not show whether a guest has it open"):
            await driver.delete("v1")
        assert driver.path("v1").exists()
        record.unlink()
        await driver.delete("v1")
        assert await driver.leftovers() == []
    await journal.close()


@pytest.mark.parametrize("part", ["record", "data"])
async def test_what_the_storage_does_not_give_hides_no_other_volume_and_is_not_gone(
    driver: FileSnapshots, tmp_path: Path, part: str
) -> None:
    known = await driver.volumes()
    path = driver.record_path("v1") if part == "record" else driver.path("v1")
    # Of a raw file nothing is read.
    to = path.name if part == "data" and driver.pool.format == "raw" else "/proc/self/mem"
    with unreadable(path, tmp_path / "aside", to):
        first, second = await driver.volumes()
        assert (first.volume_id, second) == ("v1", known[1])
        named = path if to == path.name else f"{driver.path('v1')}, or its record"
        assert first.problem.startswith(f"{named}, cannot be read: ")
        assert (await driver.stats()).volumes == 2
        assert await driver.leftovers() == []
        for ask in (driver.find, driver.delete):
            with pytest.raises(Unavailable, match=r"storage of pool .* failed"):
                await ask("v1")
        await driver.create(volume(driver, 1, "v3"), None, "op")
    assert (await driver.volumes())[:2] == known
    await driver.delete("v1")


async def test_no_file_goes_that_a_record_may_name_which_the_storage_does_not_give(
    driver: FileSnapshots, tmp_path: Path
) -> None:
    copy = volume(driver, 1, "copy")
    await driver.create(copy, None, "op", becomes="v9")
    damage(driver, volume_id="v9")
    with unreadable(driver.record_path("copy"), tmp_path / "aside"):
        with pytest.raises(Unavailable, match=r"storage of pool .* failed"):
            await driver.delete("v9")
        assert await driver.leftovers() == []
    assert driver.path("v9").exists()
