"""The share service over a real NFS server: what a user asks for holds for clients."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent.run import Runner
from mooring.agent.settings import SharePoolSettings
from mooring.agent.share_drivers.nfs import NfsShares
from mooring.agent.share_drivers.options import NfsShareOptions
from mooring.fence.journal import Journal
from tests.agent.nfs_server import ADDRESS, NfsServer, nfs_server, why_no_nfs_server
from tests.agent.nfs_shares import NfsAtWork, unmount
from tests.share.cloud import ShareCloud

NO_SERVER = why_no_nfs_server()
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.hosts,
    pytest.mark.skipif(bool(NO_SERVER), reason=NO_SERVER),
]


class RealCloud(ShareCloud):
    """The share service, whose host has one pool behind a server that stands."""

    def __init__(self, directory: Path, server: NfsServer, shares: Path, runner: Runner) -> None:
        super().__init__(directory)
        self._net, self._runner = server.net, runner
        options = NfsShareOptions(address=ADDRESS, bus=server.bus)
        pool = SharePoolSettings(name="nfs", driver="nfs", path=str(shares), nfs=options)
        self.hosts["host1"] = replace(self.hosts["host1"], share_pools=(pool,))

    @property
    def work(self) -> NfsAtWork:
        driver = self.agents["host1"].agent.share_drivers["nfs"]
        assert isinstance(driver, NfsShares)
        return NfsAtWork(driver, self._runner, self._net)


@pytest.fixture
async def real(tmp_path: Path) -> AsyncGenerator[RealCloud]:
    shares, journal = tmp_path / "shares", Journal(tmp_path / "clients.sqlite")
    runner = Runner(journal)
    async with (
        nfs_server(shares / "exports" / "index.conf") as server,
        RealCloud(tmp_path / "cloud", server, shares, runner) as cloud,
    ):
        try:
            yield cloud
        finally:
            # A server that runs keeps what it gives away.
            await server.stop()
            await unmount(cloud.work, runner)
    await journal.close()


async def test_a_rule_that_is_allowed_lets_its_client_in_and_denied_keeps_it_out(
    real: RealCloud,
) -> None:
    share_id = await real.make()
    assert await real.status(share_id) == "available"
    assert await real.work.level(share_id) == ""
    rule_id = await real.allow(share_id, "10.9.0.1")
    assert await real.work.level(share_id) == "rw"
    assert await real.work.level(share_id, number=2) == ""
    await real.allow(share_id, "10.9.0.0/24", access_level="ro")
    assert await real.work.level(share_id, number=2) == "ro"
    assert (await real.act(share_id, "deny_access", {"access_id": rule_id})).status == 202
    await real.settle()
    assert await real.work.level(share_id) == "ro"
    assert await real.rules(share_id) == {"10.9.0.0/24": "active"}


async def test_a_share_is_made_larger_and_never_smaller_than_its_content(real: RealCloud) -> None:
    share_id = await real.make(size=1)
    assert (await real.act(share_id, "extend", {"new_size": 2})).status == 202
    await real.settle()
    await real.work.write(share_id, 1_200_000_000)
    assert (await real.act(share_id, "shrink", {"new_size": 1})).status == 202
    await real.settle()
    shown = await real.show(share_id)
    assert (shown["status"], shown["size"]) == ("available", 2)
    assert len(await real.messages(share_id)) == 1


async def test_a_share_from_a_snapshot_has_what_was_in_it_and_all_goes_again(
    real: RealCloud,
) -> None:
    share_id = await real.make()
    await real.work.write(share_id, 5 * 1024**2)
    snapshot_id = await real.snapshot(share_id)
    other_id = await real.make(snapshot_id=snapshot_id)
    assert await real.status(other_id) == "available"
    assert (real.work.nfs.data(other_id) / "content").stat().st_size == 5 * 1024**2
    await real.ask("DELETE", f"/snapshots/{snapshot_id}")
    await real.settle()
    for each in (share_id, other_id):
        assert (await real.ask("DELETE", f"/shares/{each}")).status == 202
    await real.settle()
    assert await real.work.driver.shares() == []
    assert await real.work.driver.leftovers() == []
    assert await real.complaints() == []
