"""What the driver nfs does after a start, beside its host's work, and with what is damaged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.agent.limits import AGENT_COPY_S
from mooring.agent.pool_threads import PoolThreads
from mooring.agent.share_drivers import restoring
from mooring.agent.share_drivers.btrfs_images import BtrfsImages
from mooring.agent.share_drivers.nfs import NfsShares
from mooring.agent.share_drivers.records import Record
from mooring.agent.waiting import until
from mooring.errors import Conflict, Unavailable
from tests.agent.nfs_machine import Machine
from tests.agent.nfs_shares import is_restoring

pytestmark = pytest.mark.anyio
DAMAGED = [b"", b"{", b'{"size_gb": "one"}']


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restoring, "AGENT_SHARE_RETRY_S", 0.02)


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncGenerator[Machine]:
    """A machine with the shares s1 and s2; what was opened on it is to be closed."""
    made = Machine(tmp_path / "shares")
    made.lay("s1", 1000)
    made.lay("s2", 1001)
    yield made
    assert not is_restoring()


async def are_given(machine: Machine, *share_ids: str) -> bool:
    return await until(lambda: set(machine.given) == set(share_ids), 5, pause_s=0.01)


async def problems(driver: NfsShares) -> dict[str, str]:
    return {share.share_id: share.problem for share in await driver.shares()}


async def test_a_host_serves_while_its_nfs_server_hangs(machine: Machine) -> None:
    machine.answers.clear()
    driver = machine.open()
    await asyncio.wait_for(driver.setup(), 5)
    told = await problems(driver)
    assert all("given away again" in problem for problem in told.values())
    assert list(told) == ["s1", "s2"]
    machine.answers.set()
    assert await are_given(machine, "s1", "s2")
    assert await until(lambda: "10.9.0.1" in machine.given["s1"], 1)
    await driver.close()
    assert await problems(driver) == {"s1": "", "s2": ""}


async def test_an_end_in_the_middle_leaves_nothing_at_work(machine: Machine) -> None:
    machine.answers.clear()
    driver = machine.open()
    await driver.setup()
    assert await until(lambda: bool(machine.asked), 5)
    await driver.close()
    await driver.close()
    await driver.setup()
    await driver.setup()
    machine.answers.set()
    assert await are_given(machine, "s1", "s2")
    await driver.close()


async def test_shares_are_tried_again_until_they_are_given_away(machine: Machine) -> None:
    machine.is_silent = True
    driver = machine.open()
    await driver.setup()
    assert await until(lambda: len(machine.asked) > 3, 5)
    # Nobody waits for each share while the server says nothing.
    assert not [words for words in machine.asked if "UpdateExport" in words]
    told = await problems(driver)
    assert all("see that Ganesha runs" in problem for problem in told.values())
    machine.is_silent = False
    assert await are_given(machine, "s1", "s2")
    await driver.close()
    assert await problems(driver) == {"s1": "", "s2": ""}


async def test_a_share_that_is_not_taken_in_keeps_no_other(machine: Machine) -> None:
    machine.refused.add("s1")
    driver = machine.open()
    await driver.setup()
    assert await are_given(machine, "s2")
    told = await problems(driver)
    assert (bool(told["s1"]), bool(told["s2"])) == (True, False)
    machine.refused.clear()
    assert await are_given(machine, "s1", "s2")
    await driver.close()


async def test_what_a_verb_has_given_away_is_not_given_away_by_an_older_word(
    machine: Machine,
) -> None:
    machine.is_silent = True
    driver = machine.open()
    await driver.setup()
    with pytest.raises(Unavailable):
        await driver.revoke("s1", "r1")
    machine.is_silent = False
    assert await are_given(machine, "s1", "s2")
    assert "CLIENT" not in machine.given["s1"]
    await driver.close()


async def test_a_verb_waits_for_what_is_being_given_away_again(machine: Machine) -> None:
    driver = machine.open()
    machine.holds.clear()
    await driver.setup()
    assert await until(lambda: any("UpdateExport" in words for words in machine.asked), 5)
    revoked = asyncio.ensure_future(driver.revoke("s1", "r1"))
    deleted = asyncio.ensure_future(driver.delete("s2"))
    assert await until(lambda: any("RemoveExport" in words for words in machine.asked), 5)
    machine.holds.set()
    await asyncio.gather(revoked, deleted)
    assert await until(lambda: not is_restoring(), 5)
    assert list(machine.given) == ["s1"]
    assert "CLIENT" not in machine.given["s1"]
    await driver.close()


@pytest.mark.parametrize("content", DAMAGED)
async def test_a_damaged_record_concerns_its_share_alone(machine: Machine, content: bytes) -> None:
    machine.lay("s1", 1000, gib=3)
    record = machine.record("s1")
    record.write_bytes(content)
    driver = machine.open()
    await driver.setup()
    assert await are_given(machine, "s2")
    told = await problems(driver)
    assert told["s2"] == ""
    assert f"{record} is damaged" in told["s1"]
    with pytest.raises(Unavailable, match="restore the file from a backup"):
        await driver.find("s1")
    stats = await driver.stats()
    assert (stats.shares, stats.provisioned_gib, stats.problem) == (2, 4, "")
    # It may be given away still: nobody else gets its number.
    await driver.create("s3", 1, None, "op")
    kept = machine.records.find("s3")
    assert kept is not None
    assert kept.number == 1002
    await driver.close()


@pytest.mark.parametrize("content", DAMAGED)
async def test_a_share_with_a_damaged_record_is_deleted(machine: Machine, content: bytes) -> None:
    machine.record("s1").write_bytes(content)
    machine.is_silent = True
    driver = machine.open()
    await driver.setup()
    for _ in range(2):
        with pytest.raises(Unavailable, match="see that Ganesha runs"):
            await driver.delete("s1")
    machine.is_silent = False
    for _ in range(2):
        await driver.delete("s1")
    assert [words for words in machine.asked if "RemoveExport uint16:1000" in words]
    assert await driver.find("s1") is None
    assert await driver.leftovers() == []
    assert not machine.record("s1").exists()
    assert await are_given(machine, "s2")
    await driver.close()


async def test_a_record_that_is_mended_brings_its_share_back(machine: Machine) -> None:
    whole = machine.record("s1").read_bytes()
    machine.record("s1").write_bytes(b"{")
    driver = machine.open()
    await driver.setup()
    assert await are_given(machine, "s2")
    machine.record("s1").write_bytes(whole)
    assert await are_given(machine, "s1", "s2")
    await driver.close()


async def test_a_damaged_file_concerns_its_share_alone(machine: Machine) -> None:
    machine.damaged.add("s1")
    driver = machine.open()
    await driver.setup()
    assert await are_given(machine, "s2")
    told = await problems(driver)
    assert told["s2"] == ""
    assert f"repair the file {machine.directory / 'images' / 'share-s1'}" in told["s1"]
    await driver.delete("s1")
    assert list(await problems(driver)) == ["s2"]
    assert await driver.leftovers() == []
    await driver.close()


async def test_a_share_is_deleted_without_being_mounted(machine: Machine) -> None:
    driver = machine.open()
    await driver.delete("s1")
    assert not [words for words in machine.asked if words.startswith(("mount", "btrfs"))]
    assert await driver.find("s1") is None


async def test_a_damaged_file_with_snapshots_stays_until_it_is_moved_away(
    machine: Machine,
) -> None:
    machine.records.keep("s1", Record(1, number=1000, snapshots={"n1": 1}))
    machine.damaged.add("s1")
    driver = machine.open()
    await driver.setup()
    with pytest.raises(Unavailable, match="move it away"):
        await driver.delete("s1")
    (machine.directory / "images" / "share-s1").rename(machine.directory / "kept")
    await driver.delete("s1")
    assert await driver.find("s1") is None
    assert not machine.record("s1").exists()
    await driver.close()


async def test_a_share_with_snapshots_and_no_record_is_not_deleted(machine: Machine) -> None:
    machine.record("s1").unlink()
    driver = machine.open()
    await driver.setup()
    machine.snapshots["s1"] = "ID 258 gen 9 top level 5 path snapshots/n1\n"
    with pytest.raises(Conflict, match="n1"):
        await driver.delete("s1")
    # That nothing can be mounted now is no damage.
    machine.mounted.clear()
    machine.without_loops = True
    with pytest.raises(Unavailable, match="mount failed"):
        await driver.delete("s1")
    machine.without_loops = False
    machine.snapshots.clear()
    await driver.delete("s1")
    assert await driver.leftovers() == []
    await driver.close()


async def test_a_mount_that_hangs_is_ended_within_a_minute(machine: Machine) -> None:
    driver = machine.open()
    await driver.setup()
    assert await are_given(machine, "s1", "s2")
    await driver.create("s3", 1, None, "op")
    await driver.delete("s3")
    mounts = [seconds for program, seconds in machine.times if program in {"mount", "umount"}]
    # Of what is made, of what is given away, and back.
    assert len(mounts) == 6
    assert max(mounts) <= 60
    await driver.close()


async def test_a_copy_has_the_time_that_copies_have(machine: Machine) -> None:
    threads = PoolThreads("pool")
    images = BtrfsImages(machine.directory, machine, threads)
    await images.prepare()
    await images.make("s3", 1, ("s1", "n1"), "op")
    # What was copied may be written when it is unmounted.
    assert ("cp", AGENT_COPY_S) in machine.times
    assert [seconds for program, seconds in machine.times if program == "umount"] == [AGENT_COPY_S]
    assert [seconds for program, seconds in machine.times if program == "mount"] == [60, 60]
    threads.close()
