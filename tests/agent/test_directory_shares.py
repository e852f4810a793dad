"""What the driver directory has beside the contract: what is left in its directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.agent.run import Runner
from mooring.agent.settings import AgentSettings, SharePoolSettings
from mooring.agent.share_drivers.directory import DirectoryShares
from mooring.agent.share_drivers.opening import open_share_pools
from mooring.errors import Invalid, Unavailable
from mooring.fence.journal import Journal
from tests.agent.places import place

pytestmark = pytest.mark.anyio


def open_pool(directory: Path, journal: Journal, ip: str = "127.0.0.1") -> DirectoryShares:
    return DirectoryShares(SharePoolSettings(), place(directory), ip, Runner(journal))


async def test_a_directory_has_shares_of_nfs_alone(tmp_path: Path, journal: Journal) -> None:
    pools = (SharePoolSettings(protocol="CEPHFS"),)
    settings = AgentSettings(name="h", state_dir=tmp_path, roles=("share",), share_pools=pools)
    with pytest.raises(Invalid, match="leave `protocol` out"):
        open_share_pools(settings, Runner(journal), simulated=False)


async def test_a_host_gives_an_address_that_clients_can_write(
    tmp_path: Path, journal: Journal
) -> None:
    driver = open_pool(tmp_path / "pool", journal, "2001:db8::1")
    await driver.setup()
    [export] = await driver.create("s1", 1, None, "op")
    assert export.path == f"[2001:db8::1]:{driver.path('s1')}"


async def test_a_removal_that_was_cut_short_is_ended(tmp_path: Path, journal: Journal) -> None:
    driver = open_pool(tmp_path / "pool", journal)
    await driver.setup()
    await driver.create("s1", 1, None, "op")
    (driver.path("s1") / "file").write_text("kept by nobody")
    # As far as one that is killed comes before anything is removed.
    hidden = driver.path("s1").rename(tmp_path / "pool" / "removed-s1")
    assert await driver.find("s1") is None
    assert await driver.leftovers() == []
    await driver.create("s1", 2, None, "anew")
    (driver.path("s1") / "file").write_text("of another share")
    await driver.delete("s1")
    assert not hidden.exists()
    assert await driver.find("s1") is None
    hidden.mkdir()
    assert await driver.leftovers() == [str(hidden)]
    await driver.setup()
    assert await driver.leftovers() == []


async def test_what_belongs_to_no_share_is_told(tmp_path: Path, journal: Journal) -> None:
    driver = open_pool(tmp_path / "pool", journal)
    await driver.setup()
    await driver.create("s1", 1, None, "op")
    stray = driver.path("s2")
    stray.mkdir()
    assert await driver.leftovers() == [str(stray)]
    assert [share.share_id for share in await driver.shares()] == ["s1"]


async def test_a_directory_that_cannot_be_used_is_told(tmp_path: Path, journal: Journal) -> None:
    (tmp_path / "pool").write_text("no directory")
    with pytest.raises(Unavailable, match="cannot use"):
        await open_pool(tmp_path / "pool", journal).setup()


@pytest.mark.parametrize("content", [b"", b"{"])
async def test_a_damaged_record_concerns_its_share_alone(
    tmp_path: Path, journal: Journal, content: bytes
) -> None:
    driver = open_pool(tmp_path / "pool", journal)
    await driver.setup()
    for share_id in ("s1", "s2"):
        await driver.create(share_id, 1, None, "op")
    record = tmp_path / "pool" / ".mooring" / "share-s1.json"
    record.write_bytes(content)
    await driver.setup()
    problems = {share.share_id: share.problem for share in await driver.shares()}
    assert f"{record} is damaged" in problems["s1"]
    assert problems["s2"] == ""
    assert (await driver.stats()).shares == 2
    with pytest.raises(Unavailable, match="is damaged"):
        await driver.find("s1")
    await driver.delete("s1")
    assert [share.share_id for share in await driver.shares()] == ["s2"]
    assert await driver.leftovers() == []
