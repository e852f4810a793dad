"""What holds for every way of mounting shares: the same tests on all, and what some do besides."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent.run import Runner, find_processes
from mooring.agent.settings import GuestShareSettings, MountSettings
from mooring.agent.share_mounts import cephfs
from mooring.agent.share_mounts.base import Wanted
from mooring.agent.share_mounts.cephfs import read_options
from mooring.agent.share_mounts.exports import Export
from mooring.errors import Forbidden, Invalid, MooringError, NotFound, Unavailable
from mooring.fence.journal import Journal
from tests.agent.ceph_cluster import CephCluster, why_no_ceph
from tests.agent.share_mounts import (
    KINDS,
    MountsAtWork,
    PoolAtWork,
    StandInAtWork,
    base_in,
    cephfs_mounts,
    mounts_at_work,
    stand_in,
    why_not,
)
from tests.agent.shares import processes_of

pytestmark = pytest.mark.anyio
CEPH = pytest.param("cephfs", marks=pytest.mark.hosts)


@pytest.fixture(params=[*KINDS, CEPH])
async def at_work(
    request: pytest.FixtureRequest, tmp_path: Path, journal: Journal
) -> AsyncGenerator[MountsAtWork]:
    if request.param == "cephfs":
        cluster: CephCluster = request.getfixturevalue("ceph_cluster")
        async with cephfs_mounts(cluster, tmp_path, journal) as ceph:
            yield ceph
        return
    if reason := why_not(request.param):
        pytest.skip(reason)
    async with mounts_at_work(request.param, tmp_path, journal) as found:
        yield found


@pytest.fixture
async def ceph(
    ceph_cluster: CephCluster, tmp_path: Path, journal: Journal
) -> AsyncGenerator[PoolAtWork]:
    async with cephfs_mounts(ceph_cluster, tmp_path, journal) as found:
        yield found


@pytest.fixture
def nfs(tmp_path: Path, journal: Journal) -> StandInAtWork:
    made = stand_in(tmp_path, journal)
    made.mounter.base.mkdir()
    return made


async def test_a_share_is_mounted_and_unmounted_as_often_as_asked(at_work: MountsAtWork) -> None:
    mounter, first, second = at_work.mounter, await at_work.share(), await at_work.share()
    for _ in range(2):
        await mounter.mount(first, "op")
    await mounter.mount(second, "op")
    assert await mounter.mounted() == {first.path, second.path}
    await mounter.check(first.path)
    assert at_work.is_read(first)
    for _ in range(2):
        await mounter.unmount(first.path)
    assert await mounter.mounted() == {second.path}
    assert not first.path.exists()
    await mounter.check(second.path)
    await mounter.mount(first, "op")
    assert at_work.is_read(first)
    for one in (first, second):
        await mounter.unmount(one.path)
    assert await mounter.mounted() == frozenset()


async def test_who_is_not_let_in_mounts_nothing(at_work: MountsAtWork) -> None:
    mounter, wanted = at_work.mounter, await at_work.share()
    await at_work.deny(wanted)
    # Ceph forgets the key of an id that has no share any more: then nobody answers its client.
    with pytest.raises((Forbidden, Unavailable)) as caught:
        await mounter.mount(wanted, "op")
    assert "Nothing was mounted" in caught.value.public
    assert await mounter.mounted() == frozenset()
    assert not wanted.path.exists()
    assert not wanted.key or wanted.key not in str(caught.value)


async def test_what_is_not_there_is_not_mounted(at_work: MountsAtWork) -> None:
    mounter, known = at_work.mounter, await at_work.share()
    export = Export(known.export.protocol, known.export.servers, f"{known.export.path}x")
    wanted = replace(known, export=export)
    with pytest.raises(MooringError) as caught:
        await mounter.mount(wanted, "op")
    assert isinstance(caught.value, Invalid | Forbidden | NotFound | Unavailable)
    assert "Nothing was mounted" in caught.value.public
    assert await mounter.mounted() == frozenset()
    assert not wanted.path.exists()


async def test_a_mount_is_found_by_the_next_agent(at_work: MountsAtWork) -> None:
    mounter, wanted = at_work.mounter, await at_work.share()
    await mounter.mount(wanted, "op")
    await mounter.prepare()
    assert await mounter.mounted() == {wanted.path}
    assert at_work.is_read(wanted)
    await mounter.unmount(wanted.path)


# -- NFS, with stand-ins ------------------------------------------------------------------------


async def test_nfs_is_mounted_safely_and_does_not_try_for_minutes(nfs: StandInAtWork) -> None:
    wanted = await nfs.share()
    await nfs.mounter.mount(wanted, "op")
    assert nfs.shares.calls() == [
        f"mount -t nfs -o nosuid,nodev,retry=0 {wanted.export.text} {wanted.path}"
    ]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("mount.nfs: access denied by server while mounting x", Forbidden),
        ("mount.nfs: Operation not permitted", Forbidden),
        (
            "mount.nfs: mounting x failed, reason given by server: No such file or directory",
            NotFound,
        ),
        ("mount.nfs: No such device", Invalid),
        ("mount: unknown filesystem type 'nfs'", Invalid),
        ("mount.nfs: Connection timed out", Unavailable),
        ("mount.nfs: Connection refused", Unavailable),
        ("something else", Unavailable),
    ],
)
async def test_what_mount_says_tells_whether_to_try_again(
    nfs: StandInAtWork, said: str, kind: type[MooringError]
) -> None:
    wanted = await nfs.share()
    nfs.shares.add_program("mount", f'#!/bin/sh\necho "{said}" >&2\nexit 32\n')
    with pytest.raises(kind) as caught:
        await nfs.mounter.mount(wanted, "op")
    assert "Nothing was mounted" in caught.value.public
    assert said in caught.value.private
    assert not wanted.path.exists()


async def test_a_mount_that_hangs_ends_in_its_time_and_leaves_nothing(
    nfs: StandInAtWork, tmp_path: Path, journal: Journal
) -> None:
    wanted, hurried = await nfs.share(), stand_in(tmp_path, journal, timeout_s=2.0)
    nfs.shares.tell("hang")
    with pytest.raises(Unavailable, match="took longer than 2 s"):
        await hurried.mounter.mount(wanted, "op")
    assert processes_of(nfs.shares.directory) == []
    assert not wanted.path.exists()
    nfs.shares.tell("hang", on=False)
    await nfs.mounter.mount(wanted, "op")
    assert await nfs.mounter.mounted() == {wanted.path}


async def test_what_is_open_stays_mounted(nfs: StandInAtWork) -> None:
    wanted = await nfs.share()
    await nfs.mounter.mount(wanted, "op")
    nfs.shares.tell("busy")
    with pytest.raises(Unavailable, match="has it open"):
        await nfs.mounter.unmount(wanted.path)
    assert await nfs.mounter.mounted() == {wanted.path}
    nfs.shares.tell("busy", on=False)
    await nfs.mounter.unmount(wanted.path)
    assert await nfs.mounter.mounted() == frozenset()


async def test_a_server_that_keeps_an_unmount_waiting_loses_its_name(
    nfs: StandInAtWork, tmp_path: Path, journal: Journal
) -> None:
    wanted, hurried = await nfs.share(), stand_in(tmp_path, journal, timeout_s=5.0)
    await nfs.mounter.mount(wanted, "op")
    nfs.shares.tell("slow")
    await hurried.mounter.unmount(wanted.path)
    assert nfs.shares.calls()[-1] == f"umount --lazy --force -- {wanted.path}"
    assert await nfs.mounter.mounted() == frozenset()


@pytest.mark.hosts
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
async def test_a_bound_directory_gives_the_host_no_powers(tmp_path: Path, journal: Journal) -> None:
    async with mounts_at_work("directory", tmp_path, journal) as found:
        wanted = await found.share()
        await found.mounter.mount(wanted, "op")
        # As a killed agent leaves it, between the two calls that a bound directory takes.
        await asyncio.to_thread(
            lambda: subprocess.run(
                ["mount", "-o", "remount,bind,suid,dev", str(wanted.path)], check=True
            )
        )
        await found.mounter.mount(wanted, "op")
        assert {"rw", "nosuid", "nodev"} <= options_of(wanted.path)


# -- CephFS, with a real Ceph -------------------------------------------------------------------


@pytest.mark.hosts
async def test_no_secret_of_cephfs_is_left_anywhere(ceph: PoolAtWork, tmp_path: Path) -> None:
    wanted = await ceph.share()
    await ceph.mounter.mount(wanted, "op")
    [pid] = find_processes(f"--pid_file={tmp_path}/clients/{wanted.path.name}.pid")
    assert wanted.key.encode() not in told_of(pid)
    assert kept_by(tmp_path) == [".pid"]
    assert wanted.key not in repr(wanted)
    await ceph.mounter.unmount(wanted.path)
    assert find_processes(f"--pid_file={tmp_path}") == []


@pytest.mark.hosts
async def test_a_client_of_cephfs_outlives_the_agent(
    ceph: PoolAtWork, tmp_path: Path, journal: Journal
) -> None:
    wanted = await ceph.share()
    await ceph.mounter.mount(wanted, "op")
    assert ceph.is_read(wanted)
    await Runner(journal, str(tmp_path)).end_leftovers()
    await ceph.mounter.check(wanted.path)
    assert ceph.is_read(wanted)


@pytest.mark.hosts
async def test_a_client_that_ceph_has_thrown_out_is_seen_to_be_lost(ceph: PoolAtWork) -> None:
    wanted = await ceph.share()
    await ceph.mounter.mount(wanted, "op")
    await ceph.deny(wanted)
    with pytest.raises(Unavailable, match="does not answer"):
        await ceph.mounter.check(wanted.path)
    await ceph.mounter.unmount(wanted.path)
    assert await ceph.mounter.mounted() == frozenset()


@pytest.mark.hosts
async def test_monitors_that_are_silent_are_not_waited_for_long(ceph: PoolAtWork) -> None:
    if reason := why_no_ceph():
        pytest.skip(reason)
    known = await ceph.share()
    export = Export("CEPHFS", "192.0.2.1:6789", known.export.path)
    wanted = replace(known, export=export)
    with pytest.raises(Unavailable, match="monitors of"):
        await ceph.mounter.mount(wanted, "op")
    assert not wanted.path.exists()


async def test_a_client_of_cephfs_has_the_options_of_the_settings(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    fuse, told = tmp_path / "fuse", tmp_path / "told"
    fuse.touch()
    monkeypatch.setattr(cephfs, "_FUSE", fuse)
    program = tmp_path / "ceph-fuse"
    program.write_text(f'#!/bin/sh\necho "$@" > {told}\nexit 1\n')
    program.chmod(0o755)
    shares = GuestShareSettings(cephfs_options="client_oc_size=1000")
    settings = MountSettings(program_path=str(tmp_path), shares=shares)
    base = base_in(tmp_path)
    mounter = cephfs.CephfsMounts(base, settings, Runner(journal), tmp_path / "clients")
    await mounter.prepare()
    export = Export("CEPHFS", "192.0.2.1:6789", "/volumes/x")
    wanted = Wanted(export=export, path=base / "x", client="alice", key="k")
    with pytest.raises(Unavailable):
        await mounter.mount(wanted, "op")
    assert "--client_oc_size=1000" in told.read_text().split()


def kept_by(directory: Path) -> list[str]:
    """What is kept of clients of CephFS, by the suffixes of the files."""
    return [path.suffix for path in (directory / "clients").iterdir()]


def told_of(pid: int) -> bytes:
    """What anybody may read of a process."""
    return b"".join(Path(f"/proc/{pid}/{one}").read_bytes() for one in ("cmdline", "environ"))


def options_of(path: Path) -> set[str]:
    """The options of one mount, as the kernel's table has them."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    [options] = [line.split()[5] for line in lines if f" {path} " in line]
    return set(options.split(","))


def test_options_of_cephfs_are_names_and_values(tmp_path: Path) -> None:
    assert read_options("client_oc_size=1000,fuse_big_writes=true") == (
        "--client_oc_size=1000",
        "--fuse_big_writes=true",
    )
    for bad in ("--keyring=/x", "a b=c", "client_oc_size"):
        with pytest.raises(Invalid, match="no NAME=VALUE"):
            read_options(bad)
