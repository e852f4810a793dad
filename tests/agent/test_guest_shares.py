"""What a host keeps of shares for its guests: behind hanging servers, reboots, and lost records."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent.app import RunningAgent, open_agent
from mooring.agent.settings import (
    AgentSettings,
    GuestShareSettings,
    MountSettings,
    SharePoolSettings,
)
from mooring.agent.share_mounts.simulated import BASE, SimulatedMounts
from mooring.agent.waiting import until
from mooring.agent_api.client import Agents
from mooring.agent_api.guest_shares import GuestShare, MountRequest, ShareClient
from mooring.agent_api.servers import PowerRequest
from mooring.agent_api.shares import AccessRule, Protocol, ShareSpec
from mooring.errors import Conflict, Forbidden, Invalid, Unavailable
from tests.agent.hosts import Share, TestHost, new_id, operation

pytestmark = pytest.mark.anyio
OFF, ON = PowerRequest(state="off"), PowerRequest(state="on")
POOLS = (
    SharePoolSettings(name="shared", driver="simulated"),
    SharePoolSettings(name="ceph", driver="simulated", protocol="CEPHFS"),
)
Simulated = tuple[TestHost, RunningAgent]


def settings(state_dir: Path) -> AgentSettings:
    return AgentSettings(
        name="host-1",
        state_dir=state_dir,
        hypervisor="simulated",
        roles=("compute", "volume", "share"),
        share_pools=POOLS,
    )


@asynccontextmanager
async def opened(wanted: AgentSettings) -> AsyncGenerator[Simulated]:
    """A simulated host, with pools of both protocols."""
    async with open_agent(wanted) as running:
        yield TestHost(Agents().in_process(wanted.name, running.app), real=False), running


def mounts_of(running: RunningAgent, protocol: Protocol = "NFS") -> SimulatedMounts:
    found = running.agent.guest_shares.mounters[protocol]
    assert isinstance(found, SimulatedMounts)
    return found


async def test_the_settings_say_where_and_as_whom_a_host_mounts(tmp_path: Path) -> None:
    async with opened(settings(tmp_path / "usual")) as (host, _):
        shown = await host.client.host()
        bases: dict[Protocol, str] = {"NFS": f"{BASE}/nfs", "CEPHFS": f"{BASE}/cephfs"}
        assert shown.shares == ShareClient(address="127.0.0.1", mount_bases=bases)
    bases = {"NFS": "/mnt/n", "CEPHFS": "/mnt/c"}
    shares = GuestShareSettings(
        share_address="192.0.2.5",
        nfs_mount_point_base=bases["NFS"],
        cephfs_mount_point_base=bases["CEPHFS"],
    )
    other = replace(
        settings(tmp_path / "other"),
        mounts=MountSettings(shares=shares),
        hidden_traits=frozenset({"COMPUTE_MEM_BACKING_FILE"}),
        version=74,
    )
    async with opened(other) as (host, _):
        shown = await host.client.host()
        assert shown.shares == ShareClient(address="192.0.2.5", mount_bases=bases)
        assert shown.version == 74
        assert "COMPUTE_MEM_BACKING_FILE" not in shown.traits
        assert "COMPUTE_STORAGE_VIRTIO_FS" in shown.traits


@pytest.mark.parametrize(
    ("base", "words"), [("/simulated/shares/cephfs", "both to be mounted"), ("x", "not absolute")]
)
async def test_bases_that_cannot_be_are_refused(tmp_path: Path, base: str, words: str) -> None:
    shares = GuestShareSettings(nfs_mount_point_base=base)
    wanted = replace(settings(tmp_path), mounts=MountSettings(shares=shares))
    with pytest.raises(Invalid, match=words):
        async with opened(wanted):
            pass


async def test_a_host_without_guests_mounts_nothing(tmp_path: Path) -> None:
    async with opened(replace(settings(tmp_path), roles=("share",))) as (host, _):
        assert (await host.client.host()).shares == ShareClient()
        assert (await host.client.inventory()).share_mounts == []
        share = Share(new_id(), new_id(), "shared", "192.0.2.7:/x")
        with pytest.raises(Forbidden, match="runs no guests"):
            await host.mount(new_id(), share)
        with pytest.raises(Forbidden, match="runs no guests"):
            await host.unmount(new_id(), share)


async def test_a_mount_that_hangs_is_ended_by_its_undo(tmp_path: Path) -> None:
    async with opened(settings(tmp_path)) as (host, running):
        server_id, share, named = new_id(), await host.make_share(), operation()
        knobs = mounts_of(running).knobs
        knobs.hold("mount_share")
        request = MountRequest(export=share.export, protocol="NFS")
        hanging = asyncio.ensure_future(
            host.client.mount_share(server_id, share.share_id, request, operation=named)
        )
        assert await until(lambda: knobs.passed.get("mount_share", 0) == 1, 30)
        await host.client.unmount_share(server_id, share.share_id, operation=named)
        with pytest.raises(Conflict, match="undone"):
            await hanging
        knobs.release("mount_share")
        assert await left(host) == ([], [])


async def test_a_mount_that_fails_leaves_those_of_others(tmp_path: Path) -> None:
    async with opened(settings(tmp_path)) as (host, running):
        first, second, share = new_id(), new_id(), await host.make_share()
        mounts_of(running).knobs.fail("mount_share", Unavailable("no answer"))
        with pytest.raises(Unavailable, match="no answer"):
            await host.mount(first, share)
        assert await left(host) == ([], [])
        given = await host.mount(first, share)
        mounts_of(running).knobs.fail("mount_share", Unavailable("no answer"))
        with pytest.raises(Unavailable, match="no answer"):
            await host.mount(second, share)
        assert await left(host) == ([first], [])
        assert Path(given.path) in await mounts_of(running).mounted()


async def test_what_cannot_be_unmounted_stays_noted_until_it_is(tmp_path: Path) -> None:
    async with opened(settings(tmp_path)) as (host, running):
        server_id, share = new_id(), await host.make_share()
        await host.mount(server_id, share)
        mounts_of(running).knobs.fail("unmount_share", Unavailable("it is open"))
        with pytest.raises(Unavailable, match="it is open"):
            await host.unmount(server_id, share)
        assert await left(host) == ([server_id], [])
        await host.unmount(server_id, share)
        assert await left(host) == ([], [])


async def test_after_a_reboot_a_share_is_mounted_anew_before_its_guest_starts(
    tmp_path: Path,
) -> None:
    async with opened(settings(tmp_path)) as (host, running):
        server_id, share = new_id(), await host.make_share()
        given = await host.mount(server_id, share)
        await host.boot(server_id, shares=[given])
        await host.client.set_power(server_id, OFF, operation=operation())
        mounts_of(running).start_anew()
    async with opened(settings(tmp_path)) as (host, _):
        [use] = (await host.client.inventory()).share_mounts
        assert (use.server_id, use.mounted) == (server_id, False)
        with pytest.raises(Conflict, match="is not mounted at"):
            await host.client.set_power(server_id, ON, operation=operation())
        assert await host.mount(server_id, share) == given
        guest = await host.client.set_power(server_id, ON, operation=operation())
        assert guest.shares == [given]


async def test_a_host_that_lost_its_records_knows_its_guests_mounts_again(tmp_path: Path) -> None:
    async with opened(settings(tmp_path)) as (host, _):
        server_id, stray_id = new_id(), new_id()
        share, stray = await host.make_share(), await host.make_share()
        given, lost = await host.mount(server_id, share), await host.mount(stray_id, stray)
        await host.boot(server_id, shares=[given])
    shutil.rmtree(tmp_path / "share-users")
    async with opened(settings(tmp_path)) as (host, running):
        # What no guest has and no record names belongs to nobody.
        assert await left(host) == ([server_id], [])
        assert await mounts_of(running).mounted() == {Path(given.path)}
        assert given.path != lost.path
        with pytest.raises(Conflict, match="Stop the server first"):
            await host.unmount(server_id, share)
        await host.client.set_power(server_id, OFF, operation=operation())
        await host.unmount(server_id, share)
        assert await left(host) == ([], [])
        assert await mounts_of(running).mounted() == frozenset()


async def test_a_mount_stays_for_a_guest_whose_record_is_gone(tmp_path: Path) -> None:
    async with opened(settings(tmp_path)) as (host, running):
        server_id, other_id, share = new_id(), new_id(), await host.make_share()
        given = await host.mount(server_id, share)
        await host.mount(other_id, share)
        await host.boot(server_id, shares=[given])
        (tmp_path / "share-users" / f"{server_id}.{share.share_id}.json").unlink()
        await host.unmount(other_id, share)
        assert await mounts_of(running).mounted() == {Path(given.path)}


@pytest.mark.parametrize("content", [b"", b'{"server_id":'])
async def test_a_damaged_record_keeps_its_mount_and_no_other_share(
    tmp_path: Path, content: bytes
) -> None:
    async with opened(settings(tmp_path)) as (host, _):
        server_id, other_id = new_id(), new_id()
        share, other = await host.make_share(), await host.make_share()
        given, second = await host.mount(server_id, share), await host.mount(other_id, other)
    record = tmp_path / "share-users" / f"{server_id}.{share.share_id}.json"
    record.write_bytes(content)
    async with opened(settings(tmp_path)) as (host, running):
        mounts = mounts_of(running)
        assert await mounts.mounted() == {Path(given.path), Path(second.path)}
        assert await left(host) == ([other_id], [])
        for asked in (host.unmount, host.mount):
            with pytest.raises(Unavailable, match=f"{record.name} is damaged"):
                await asked(server_id, share)
        await host.mount(other_id, share)
        await host.unmount(other_id, share)
        assert Path(given.path) in await mounts.mounted()
        record.unlink()
        await host.mount(server_id, share)
        await host.unmount(server_id, share)
        assert await mounts.mounted() == {Path(second.path)}


async def test_a_record_that_the_disk_does_not_give_hides_nothing_else_of_its_host(
    tmp_path: Path,
) -> None:
    async with opened(settings(tmp_path)) as (host, _):
        server_id, other_id = new_id(), new_id()
        share, other = await host.make_share(), await host.make_share()
        given, second = await host.mount(server_id, share), await host.mount(other_id, other)
        await host.boot(server_id, shares=[given])
    record = tmp_path / "share-users" / f"{server_id}.{share.share_id}.json"
    whole = record.read_bytes()
    record.unlink()
    # The memory of this process, of which nothing is at its beginning: who reads it gets EIO.
    record.symlink_to("/proc/self/mem")
    async with opened(settings(tmp_path)) as (host, running):
        assert await left(host) == ([other_id], [])
        inventory = await host.client.inventory()
        assert [guest.server_id for guest in inventory.guests] == [server_id]
        [unread] = inventory.unread_share_mounts
        assert (unread.server_id, unread.share_id) == (server_id, share.share_id)
        assert f"{record.name} cannot be read: Input/output error" in unread.why
        listed = await host.client.share_mounts()
        assert [one.server_id for one in listed] == [other_id]
        # What is asked about the one alone is not answered as if it were not there.
        with pytest.raises(Unavailable):
            await host.unmount(server_id, share)
        # Nobody can tell that this mount is not the unread one's as well.
        await host.unmount(other_id, other)
        mounts = mounts_of(running)
        assert await mounts.mounted() == {Path(given.path), Path(second.path)}
        assert record.is_symlink()
    record.unlink()
    record.write_bytes(whole)
    async with opened(settings(tmp_path)) as (host, running):
        assert await left(host) == ([server_id], [])
        assert await mounts_of(running).mounted() == {Path(given.path)}


async def test_a_guest_tells_what_a_damaged_record_does_not(tmp_path: Path) -> None:
    async with opened(settings(tmp_path)) as (host, _):
        server_id, share = new_id(), await host.make_share()
        given = await host.mount(server_id, share)
        await host.boot(server_id, shares=[given])
    (tmp_path / "share-users" / f"{server_id}.{share.share_id}.json").write_bytes(b"")
    async with opened(settings(tmp_path)) as (host, running):
        assert await left(host) == ([server_id], [])
        assert await mounts_of(running).mounted() == {Path(given.path)}


async def test_a_lost_mount_is_made_anew_unless_a_guest_runs_with_it(tmp_path: Path) -> None:
    async with opened(settings(tmp_path)) as (host, running):
        server_id, share = new_id(), await host.make_share()
        given = await host.mount(server_id, share)
        mounts = mounts_of(running)
        mounts.silent.add(Path(given.path))
        with pytest.raises(Unavailable, match="does not answer"):
            await host.boot(server_id, shares=[given])
        await host.mount(server_id, share)
        assert mounts.silent == set()
        await host.boot(server_id, shares=[given])
        mounts.silent.add(Path(given.path))
        with pytest.raises(Unavailable, match="does not answer"):
            await host.mount(server_id, share)
        reboot = PowerRequest(state="reboot")
        with pytest.raises(Unavailable, match="does not answer"):
            await host.client.set_power(server_id, reboot, operation=operation())
        guest = await host.client.show_server(server_id)
        assert guest is not None
        assert (guest.state, guest.shares) == ("running", [given])


async def test_cephfs_is_mounted_with_a_key_that_nothing_keeps(tmp_path: Path) -> None:
    async with opened(settings(tmp_path)) as (host, _):
        server_id, other_id = new_id(), new_id()
        share_id, request = await make_ceph_share(host, "alice")
        given = await mount_ceph(host, server_id, share_id, request)
        assert given.path.startswith(f"{BASE}/cephfs/")
        bob = replace(request, access_to="bob")
        with pytest.raises(Conflict, match="cephx id alice"):
            await mount_ceph(host, other_id, share_id, bob)
        wrong = replace(request, access_key="d3Jvbmc=")
        second_id, second = await make_ceph_share(host, "alice")
        with pytest.raises(Forbidden, match="does not let alice in"):
            await mount_ceph(host, server_id, second_id, replace(wrong, export=second.export))
        await mount_ceph(host, other_id, share_id, request)
        assert await left(host) == (sorted([server_id, other_id]), [])
    assert files_with(tmp_path, request.access_key) == {"shares-ceph.sqlite"}


def files_with(directory: Path, text: str) -> set[str]:
    """Return the names of files that have a text, whatever SQLite adds to them."""
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path.name.split("-wal")[0] for path in found if text.encode() in path.read_bytes()}


async def make_ceph_share(host: TestHost, client: str) -> tuple[str, MountRequest]:
    """Make a share of CephFS that lets a cephx id in; returns how it is mounted."""
    share_id, rule_id = new_id(), new_id()
    spec = ShareSpec(pool="ceph", protocol="CEPHFS", size_gb=1)
    made = await host.client.put_share(share_id, spec, operation=operation())
    rule = AccessRule(pool="ceph", type="cephx", to=client, project_id="p1")
    granted = await host.client.grant_access(share_id, rule_id, rule, operation=operation())
    assert granted.access_key
    return share_id, MountRequest(
        export=made.exports[0].path,
        protocol="CEPHFS",
        access_to=client,
        access_key=granted.access_key,
    )


async def mount_ceph(
    host: TestHost, server_id: str, share_id: str, request: MountRequest
) -> GuestShare:
    mounted = await host.client.mount_share(server_id, share_id, request, operation=operation())
    return GuestShare(share_id=share_id, tag="papers", path=mounted.path)


async def left(host: TestHost) -> tuple[list[str], list[str]]:
    """Return the servers that a host has shares for, and what belongs to nobody."""
    found = await host.client.inventory()
    return sorted(use.server_id for use in found.share_mounts), found.leftovers
