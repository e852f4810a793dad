"""An agent that is killed in the middle of a mount or an unmount: the next one ends it right."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from mooring.agent.run import Runner, find_processes
from mooring.agent.share_mounts.keeping import GuestShares
from mooring.agent_api.guest_shares import MountRequest
from mooring.fence.journal import Journal
from tests.agent.ceph_cluster import CephCluster
from tests.agent.hosts import CHECKOUT, new_id
from tests.agent.killed_mount import Orders, open_shares
from tests.agent.share_mounts import ADDRESS, PoolAtWork, cephfs_mounts, mounts_at_work, why_not

pytestmark = [pytest.mark.anyio, pytest.mark.kill, pytest.mark.hosts]
MOST_POINTS = 60


@pytest.fixture(params=["directory", "cephfs"])
async def orders(
    request: pytest.FixtureRequest, tmp_path: Path, journal: Journal
) -> AsyncGenerator[Orders]:
    """What is to be mounted: a share of this host's own, or one of a real Ceph."""
    if reason := why_not("directory"):
        pytest.skip(reason)
    if request.param == "cephfs":
        cluster: CephCluster = request.getfixturevalue("ceph_cluster")
        opening = cephfs_mounts(cluster, tmp_path / "pool", journal)
    else:
        opening = mounts_at_work(request.param, tmp_path / "pool", journal)
    (tmp_path / "pool").mkdir()
    async with opening as at_work:
        assert isinstance(at_work, PoolAtWork)
        wanted = await at_work.share()
        mount = MountRequest(export=wanted.export.text, protocol=wanted.export.protocol)
        if wanted.key:
            mount = replace(mount, access_to=wanted.client, access_key=wanted.key)
        directory = tmp_path / "host"
        directory.mkdir()
        yield Orders(str(directory), ADDRESS, new_id(), new_id(), mount, mounts=True, at=-1)


def act(orders: Orders) -> bool:
    """Carry out orders in a process of its own; return whether it was killed on the way."""
    file = Path(orders.directory) / "orders"
    file.write_bytes(msgspec.json.encode(orders))
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}"}
    module = "tests.agent.killed_mount"
    command = [sys.executable, "-m", module, str(file)]
    ended = subprocess.run(command, cwd=CHECKOUT, env=environment, check=False).returncode
    file.unlink()
    assert ended in {0, -signal.SIGKILL}
    return ended != 0


@asynccontextmanager
async def next_agent(orders: Orders) -> AsyncGenerator[GuestShares]:
    """The agent that comes after the one that was killed."""
    directory = Path(orders.directory)
    journal = Journal(directory / "killed.sqlite")
    await Runner(journal, str(directory)).end_leftovers()
    shares = open_shares(directory, journal, orders.address)
    await shares.setup()
    yield shares
    await journal.close()


def table(orders: Orders) -> list[str]:
    """Return the lines of the kernel's table of mounts that are the host's."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if f" {Path(orders.directory).resolve()}/mounted/" in line]


async def take_back(orders: Orders) -> None:
    """Undo it, and see that nothing at all is left."""
    async with next_agent(orders) as shares:
        await shares.unmount(orders.server_id, orders.share_id)
        assert await shares.mounted() == ([], [])
        assert await shares.leftovers() == []
    directory = Path(orders.directory)
    assert table(orders) == []
    assert find_processes(f"--pid_file={directory}") == []
    left = [*(directory / "mounted").glob("*/*"), *(directory / "clients").glob("*")]
    assert left == []


async def go_on(orders: Orders) -> None:
    """Do it again to its end, and see that it was done once."""
    async with next_agent(orders) as shares:
        path = await shares.mount(orders.server_id, orders.share_id, orders.request, "op")
        [use], unread = await shares.mounted()
        assert unread == []
        assert (use.server_id, use.path, use.mounted) == (orders.server_id, str(path), True)
        (path / "file").write_text("data")
    assert len(table(orders)) == 1
    assert len(find_processes(f"--pid_file={orders.directory}")) <= 1


async def test_a_mount_is_ended_or_undone_wherever_its_agent_was_killed(orders: Orders) -> None:
    for at in range(MOST_POINTS):
        point = msgspec.structs.replace(orders, at=at)
        if not await asyncio.to_thread(act, point):
            break
        await take_back(orders)
        assert await asyncio.to_thread(act, point)
        await go_on(orders)
        await take_back(orders)
    else:
        raise AssertionError("a mount has more points than were tried")
    assert at >= 6
    await take_back(orders)


async def test_an_unmount_is_ended_or_undone_wherever_its_agent_was_killed(
    orders: Orders,
) -> None:
    for at in range(MOST_POINTS):
        assert not await asyncio.to_thread(act, orders)
        point = msgspec.structs.replace(orders, at=at, mounts=False)
        if not await asyncio.to_thread(act, point):
            break
        await take_back(orders)
        assert not await asyncio.to_thread(act, orders)
        assert await asyncio.to_thread(act, point)
        await go_on(orders)
        await take_back(orders)
    else:
        raise AssertionError("an unmount has more points than were tried")
    assert at >= 4
    await take_back(orders)
