"""A real guest that writes to a share moves cold between two real hosts, is taken back, and moves.

Each host is let in by a rule of its own and mounts below a base of its own, and each start of the
guest leaves a line in the share. Source: facts/shared_file_systems.md 7 and storage_hosts.md 8.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from mooring.agent_api.disks import DiskSpec
from mooring.agent_api.guest_shares import GuestShare, MountRequest
from mooring.agent_api.servers import PowerRequest, ServerSpec
from mooring.agent_api.shares import AccessRule, ShareSpec
from mooring.errors import Conflict, Forbidden, Unavailable
from mooring.lab.real_hosts import RealHost, RealHosts
from tests.agent.ceph_cluster import FILE_SYSTEM, POOL_CLIENT, open_cluster
from tests.agent.hosts import GUEST_IMAGE, new_id, operation
from tests.agent.processes import AgentProcess, agent_behind
from tests.hosts.conftest import require_guests

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]
Pool = Literal["shared", "ceph"]
ON, OFF = PowerRequest(state="on"), PowerRequest(state="off")
SHARES, STORAGE = "/run/mooring-shares", "storage.toml"
_MOUNTS = f"""
[mounts.shares]
share_address = "{{address}}"
nfs_mount_point_base = "{SHARES}/nfs"
cephfs_mount_point_base = "{SHARES}/cephfs"
[[share_pools]]
name = "shared"
"""
_CEPH = f"""
[[share_pools]]
name = "ceph"
driver = "cephfs"
[share_pools.cephfs]
conf = "{{conf}}"
client = "{POOL_CLIENT}"
filesystem = "{FILE_SYSTEM}"
"""


class Host:
    """One host with its agent."""

    def __init__(self, place: RealHost, agent: AgentProcess) -> None:
        self.place, self.agent, self.client = place, agent, agent.client

    @property
    def address(self) -> str:
        """The one that rules are made for."""
        return self.place.namespace.address

    def mounted(self) -> list[str]:
        """What is mounted for guests, as the host itself sees it."""
        lines = Path(f"/proc/{self.agent.process.pid}/mountinfo").read_text().splitlines()
        points = (line.split()[4] for line in lines)
        return [point for point in points if point.startswith((f"{SHARES}/nfs/", f"{SHARES}/ceph"))]

    def lines(self, share: GuestShare) -> list[str]:
        """What the guest's starts have left in a share, as it is seen here."""
        return Path(f"/proc/{self.agent.process.pid}/root{share.path}/lines").read_text().split()


class Moving:
    """A server with a share, the rules of it, and two hosts."""

    def __init__(self, hosts: tuple[Host, Host], pool: Pool, image: Path) -> None:
        self.hosts, self.pool, self._image = hosts, pool, image
        self.server_id, self.share_id, self.volume_id = new_id(), new_id(), new_id()
        self._rules: dict[str, str] = {}
        self.requests: dict[str, MountRequest] = {}
        self._export = ""

    async def make_share(self) -> None:
        """Make the share, at the first host."""
        protocol = "CEPHFS" if self.pool == "ceph" else "NFS"
        spec = ShareSpec(pool=self.pool, protocol=protocol, size_gb=1)
        made = await self.hosts[0].client.put_share(self.share_id, spec, operation=operation())
        self._export = made.exports[0].path

    async def allow(self, host: Host) -> None:
        """Let a host in."""
        rule_id, is_ceph = new_id(), self.pool == "ceph"
        rule = AccessRule(
            pool=self.pool,
            type="cephx" if is_ceph else "ip",
            to=host.place.name if is_ceph else host.address,
            project_id="p1" if is_ceph else "",
        )
        granted = await self.hosts[0].client.grant_access(
            self.share_id, rule_id, rule, operation=operation()
        )
        request = MountRequest(export=self._export, protocol="CEPHFS" if is_ceph else "NFS")
        if is_ceph:
            assert granted.access_key
            request = replace(request, access_to=rule.to, access_key=granted.access_key)
        self._rules[host.place.name], self.requests[host.place.name] = rule_id, request

    async def deny(self, host: Host) -> None:
        """Let a host in no more, and see that it is refused."""
        rule_id = self._rules.pop(host.place.name)
        await self.hosts[0].client.revoke_access(
            self.share_id, rule_id, self.pool, operation=operation()
        )
        with pytest.raises((Forbidden, Unavailable)):
            await self.mount(host)
        assert host.mounted() == []

    async def mount(self, host: Host) -> GuestShare:
        """Mount the share at a host."""
        request = self.requests[host.place.name]
        mounted = await host.client.mount_share(
            self.server_id, self.share_id, request, operation=operation()
        )
        return GuestShare(share_id=self.share_id, tag="papers", path=mounted.path)

    async def unmount(self, host: Host) -> None:
        """Have a host need the share no more."""
        await host.client.unmount_share(self.server_id, self.share_id, operation=operation())

    async def start(self, host: Host, share: GuestShare) -> None:
        """Define and start the guest at a host."""
        data = {"device_path": str(self._image), "format": "qcow2"}
        disk = DiskSpec(
            volume_id=self.volume_id,
            attachment_id=new_id(),
            connection={"driver_volume_type": "local", "data": data},
            boot_index=0,
        )
        spec = ServerSpec(
            name="guest", vcpus=1, memory_mib=128, disks=[disk], shares=[share], network="none"
        )
        await host.client.put_server(self.server_id, spec, operation=operation())

    async def hears(self, host: Host, lines: int) -> None:
        """Wait until the guest says how many lines there are."""
        await host.agent.host.hears(self.server_id, f"share papers has {lines} lines")

    async def power(self, host: Host, request: PowerRequest) -> None:
        """Start or stop the guest."""
        await host.client.set_power(self.server_id, request, operation=operation())

    async def forget(self, host: Host) -> None:
        """End the guest at a host."""
        await host.client.delete_server(self.server_id, operation=operation())


@asynccontextmanager
async def two_hosts(directory: Path, pool: Pool) -> AsyncGenerator[tuple[Host, Host]]:
    """Two hosts with a daemon each; the first one has the share, and Ceph if it takes that."""
    lab = RealHosts(directory, ("moor-a", "moor-b"))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(lab.close, guests=True)
        await lab.open()
        storage = ["".join([_MOUNTS.format(address=one.namespace.address)]) for one in lab.hosts]
        if pool == "ceph":
            keeper = lab.hosts[0].namespace
            cluster = stack.enter_context(open_cluster(keeper.address, str(keeper.file)))
            storage[0] += _CEPH.format(conf=cluster.config)
        found: list[Host] = []
        for place, text in zip(lab.hosts, storage, strict=True):
            found.append(Host(place, await stack.enter_async_context(agent_of(place, text))))
        yield found[0], found[1]


@asynccontextmanager
async def agent_of(place: RealHost, storage: str) -> AsyncGenerator[AgentProcess]:
    """Start the agent of a host."""
    place.directory.mkdir(parents=True, exist_ok=True)
    file = place.directory / STORAGE
    file.write_text(storage)
    more = ("", str(file), place.name, place.namespace.address)
    async with agent_behind(place.before(), place.directory / "state", "libvirt", *more) as agent:
        yield agent


async def moves(moving: Moving, share: GuestShare, lines: int) -> None:
    """Move the guest: the source keeps its mount and its rule until somebody confirms."""
    here, there = moving.hosts
    await moving.power(here, OFF)
    await moving.allow(there)
    assert await moving.mount(there) == share
    await moving.start(there, share)
    await moving.hears(there, lines)
    assert (here.mounted(), there.mounted()) == ([share.path], [share.path])


async def is_taken_back(moving: Moving, share: GuestShare, lines: int) -> None:
    """The destination's mount and rule go, the source's were never touched."""
    here, there = moving.hosts
    await moving.forget(there)
    await moving.unmount(there)
    await moving.deny(there)
    assert (here.mounted(), there.mounted()) == ([share.path], [])
    await moving.power(here, ON)
    await moving.hears(here, lines)


async def is_confirmed(moving: Moving, share: GuestShare, lines: int) -> None:
    """The source's mount and rule go, and the share has a line of each start."""
    here, there = moving.hosts
    await moving.forget(here)
    await moving.unmount(here)
    await moving.deny(here)
    assert (here.mounted(), there.mounted()) == ([], [share.path])
    assert there.lines(share) == [moving.server_id] * lines


async def outlives_its_agent(moving: Moving, share: GuestShare, lines: int) -> None:
    """An agent that is killed is followed by one that sees the mounts of the daemon."""
    there = moving.hosts[1]
    await there.agent.kill()
    storage = await asyncio.to_thread((there.place.directory / STORAGE).read_text)
    async with agent_of(there.place, storage) as agent:
        again = Host(there.place, agent)
        [use] = (await again.client.inventory()).share_mounts
        assert (use.path, use.mounted) == (share.path, True)
        await moving.power(again, PowerRequest(state="reboot"))
        await moving.hears(again, lines)
        await moving.forget(again)
        await moving.unmount(again)
        assert again.mounted() == []
        left = await again.client.inventory()
        assert (left.share_mounts, left.leftovers) == ([], [])


@pytest.mark.parametrize("pool", ["shared", pytest.param("ceph", marks=pytest.mark.long)])
async def test_a_guest_moves_cold_with_its_share(
    tmp_path: Path, several_hosts: None, pool: Pool
) -> None:
    del several_hosts
    require_guests()
    image = tmp_path / "volume.qcow2"
    shutil.copyfile(GUEST_IMAGE, image)
    async with two_hosts(tmp_path, pool) as hosts:
        moving, here = Moving(hosts, pool, image), hosts[0]
        await moving.make_share()
        await moving.allow(here)
        share = await moving.mount(here)
        await moving.start(here, share)
        await moving.hears(here, 1)
        with pytest.raises(Conflict, match="Stop the server first"):
            await moving.unmount(here)
        await moving.power(here, PowerRequest(state="reboot"))
        await moving.hears(here, 2)
        await moves(moving, share, 3)
        await is_taken_back(moving, share, 4)
        await moves(moving, share, 5)
        await is_confirmed(moving, share, 5)
        await outlives_its_agent(moving, share, 6)
