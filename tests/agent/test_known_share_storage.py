"""A pool of shares in a directory is the storage that it was once, or it is not used."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.agent.pools import Pools, look_at_shares
from mooring.agent.run import Runner
from mooring.agent.settings import SharePoolSettings
from mooring.agent.share_drivers.base import Grant, ShareDriver
from mooring.agent.share_drivers.directory import DirectoryShares
from mooring.agent.waiting import until
from mooring.agent_api.shares import GrantedRule
from mooring.errors import Unavailable
from mooring.fence.journal import Journal
from tests.agent.nfs_machine import Machine
from tests.agent.places import Disk

pytestmark = pytest.mark.anyio
GONE = "is not the storage that it was"
RULE = Grant(rule=GrantedRule(rule_id="r2", type="ip", to="10.9.0.2/32", level="ro"))


class Shares(Disk):
    """A disk with a pool and a share on it. Of NFS-Ganesha, what a machine is asked."""

    def __init__(self, kind: str, directory: Path, journal: Journal) -> None:
        super().__init__(directory)
        self._kind, self._runner = kind, Runner(journal)
        self.machine = Machine(self.point)
        self.driver = self.open()

    def open(self) -> ShareDriver:
        """Return the driver of an agent that starts, not yet set up."""
        if self._kind == "nfs":
            return self.machine.open()
        return DirectoryShares(SharePoolSettings(), self.place, "127.0.0.1", self._runner)

    async def restart(self) -> None:
        """Have another agent."""
        await self.driver.close()
        self.driver = self.open()
        await self.driver.setup()

    async def refuses_all(self) -> None:
        """See that nothing is found, made or removed."""
        driver = self.driver
        for asked in (
            driver.stats(),
            driver.find("s1"),
            driver.shares(),
            driver.create("s1", 1, None, "op"),
            driver.resize("s1", 2, "op"),
            driver.grant("s1", RULE),
            driver.revoke("s1", "r1"),
            driver.delete("s1"),
            driver.leftovers(),
        ):
            with pytest.raises(Unavailable, match=GONE):
                await asked
        [told] = await Pools().share_pools([driver])
        assert GONE in told.problem
        assert self.place.known.name in told.problem
        assert (await look_at_shares({"shares": driver})).unread == ["shares"]


@pytest.fixture(params=["directory", "nfs"])
async def disk(
    request: pytest.FixtureRequest, tmp_path: Path, journal: Journal
) -> AsyncGenerator[Shares]:
    made = Shares(request.param, tmp_path, journal)
    await made.driver.setup()
    await made.driver.create("s1", 1, None, "op")
    yield made
    await made.driver.close()


@pytest.mark.parametrize("restarts", [True, False])
async def test_a_pool_whose_disk_is_not_mounted_takes_and_finds_nothing_until_it_is(
    disk: Shares, restarts: bool
) -> None:
    disk.unmount()
    if restarts:
        await disk.restart()
    await disk.refuses_all()
    assert list(disk.point.iterdir()) == []
    disk.mount()
    assert [share.share_id for share in await disk.driver.shares()] == ["s1"]
    assert (await disk.driver.stats()).problem == ""
    await disk.driver.delete("s1")
    assert await disk.driver.shares() == []


async def test_another_storage_is_taken_only_once_an_operator_says_so(disk: Shares) -> None:
    disk.replace()
    await disk.restart()
    await disk.refuses_all()
    disk.place.known.unlink()
    await disk.restart()
    assert await disk.driver.shares() == []
    await disk.driver.create("s1", 1, None, "op")
    assert disk.place.known.read_text() == "another"


@pytest.mark.parametrize("disk", ["nfs"], indirect=True)
async def test_shares_on_a_disk_that_is_mounted_late_are_given_away_again(disk: Shares) -> None:
    disk.unmount()
    await disk.restart()
    disk.machine.given.clear()
    disk.mount()
    await disk.driver.stats()
    assert await until(lambda: set(disk.machine.given) == {"s1"}, 5, pause_s=0.01)
