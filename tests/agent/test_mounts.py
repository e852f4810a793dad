"""Shares are mounted when first used, unmounted by their last user, and what hangs is ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.brick.requests import MODULE, MountRequest
from mooring.agent.connections import Connections
from mooring.agent.fitting import Fitting
from mooring.agent.mounts import Mounts, mount_point, read_mount_flags, read_mount_points
from mooring.agent.qemu_img import QemuImg
from mooring.agent.run import Budget, Output, Runner
from mooring.agent.sources import FileSource
from mooring.agent.waiting import until, until_told
from mooring.agent.worker import Worker
from mooring.errors import Invalid, NotFound, Unavailable
from mooring.fence.journal import Journal
from tests.agent.shares import EXPORT, Shares, info, processes_of

pytestmark = pytest.mark.anyio


def request(mounts: Mounts, export: str = EXPORT) -> MountRequest:
    return MountRequest(kind="nfs", export=export, base=str(mounts.base))


async def test_a_volume_on_a_share_is_reached_through_a_mount_of_it(
    connections: Connections, mounts: Mounts, shares: Shares
) -> None:
    options = "-o rw,vers=4.2"
    connected = await connections.connect("a1", "v1", info(options=options))
    assert await connections.connect("a1", "v1", info(options=options)) == connected
    path = mount_point(mounts.base, EXPORT) / "volume-v1"
    assert connected == FileSource(str(path), "raw")
    assert path.read_bytes() == b"data"
    assert shares.calls() == [
        f"mount -t nfs -o vers=4,minorversion=2 -o rw,vers=4.2 {EXPORT} {path.parent}"
    ]


async def test_the_last_to_leave_a_share_unmounts_it(
    connections: Connections, mounts: Mounts, shares: Shares
) -> None:
    path = mount_point(mounts.base, EXPORT)
    await connections.connect("a1", "v1", info())
    await connections.connect("a2", "v2", info("volume-v2"))
    await connections.disconnect("a1")
    assert set(await mounts.mounted()) == {path}
    for _ in range(2):
        await connections.disconnect("a2")
    assert await mounts.mounted() == {}
    assert not path.exists()
    assert shares.calls()[1:] == [f"umount {path}"]


async def test_a_share_that_is_used_by_a_pool_stays_mounted(
    connections: Connections, mounts: Mounts
) -> None:
    path = mount_point(mounts.base, EXPORT)
    mounts.add_users(lambda: [path])
    await connections.connect("a1", "v1", info())
    await connections.disconnect("a1")
    assert set(await mounts.mounted()) == {path}


async def test_a_busy_mount_is_told_of_and_goes_with_the_next_start(
    connections: Connections, mounts: Mounts, shares: Shares
) -> None:
    path = mount_point(mounts.base, EXPORT)
    await connections.connect("a1", "v1", info())
    shares.tell("busy")
    await connections.disconnect("a1")
    assert await mounts.unused() == [str(path)]
    shares.tell("busy", on=False)
    await mounts.release_unused(mounts.base)
    assert await mounts.mounted() == {}


async def test_an_agent_finds_the_mounts_of_the_one_before_it(
    connections: Connections, mounts: Mounts, shares: Shares, journal: Journal, tmp_path: Path
) -> None:
    other = "192.0.2.7:/other"
    (shares.export(other) / "volume-v3").touch()
    await connections.connect("a1", "v1", info())
    async with mounts.held(request(mounts, other)):
        assert len(await mounts.mounted()) == 2
    later = shares.mounts(journal)
    again = Connections(
        tmp_path / "connections", later, Fitting(QemuImg(Runner(journal))), simulated=False
    )
    await later.release_unused(later.base)
    assert set(await later.mounted()) == {mount_point(mounts.base, EXPORT)}
    await again.disconnect("a1")
    assert await later.mounted() == {}
    await later.close()


async def test_a_refused_mount_leaves_nothing_connected(
    connections: Connections, mounts: Mounts, shares: Shares
) -> None:
    shares.tell("refuse")
    with pytest.raises(Unavailable, match="could not be mounted") as caught:
        await connections.connect("a1", "v1", info())
    assert "access denied by server" in caught.value.private
    assert connections.connected() == []
    assert await mounts.mounted() == {}


async def test_a_volume_that_is_not_on_its_share_leaves_nothing_mounted(
    connections: Connections, mounts: Mounts, shares: Shares
) -> None:
    path = mount_point(mounts.base, EXPORT)
    with pytest.raises(NotFound, match="is missing"):
        await connections.connect("a1", "v3", info("volume-v3"))
    assert await mounts.mounted() == {}
    assert shares.calls()[1:] == [f"umount {path}"]
    await connections.connect("a2", "v1", info())
    async with mounts.held(request(mounts)):
        with pytest.raises(NotFound, match="is missing"):
            await connections.connect("a1", "v3", info("volume-v3"))
    with pytest.raises(NotFound, match="is missing"):
        await connections.connect("a1", "v3", info("volume-v3"))
    assert set(await mounts.mounted()) == {path}


@pytest.mark.parametrize("used", [False, True])
async def test_a_share_that_is_mounted_and_does_not_answer_stays_for_its_users_alone(
    connections: Connections, mounts: Mounts, monkeypatch: pytest.MonkeyPatch, used: bool
) -> None:
    path, run = mount_point(mounts.base, EXPORT), Runner.run
    if used:
        mounts.add_users(lambda: [path])

    async def say_nothing(
        self: Runner, argv: Sequence[str], *budget: Budget, **more: Any
    ) -> Output:
        if argv[0] == "stat":
            raise Unavailable("It took too long.")
        return await run(self, argv, *budget, **more)

    monkeypatch.setattr(Runner, "run", say_nothing)
    with pytest.raises(Unavailable, match="does not answer"):
        await connections.connect("a1", "v1", info())
    assert connections.connected() == []
    assert set(await mounts.mounted()) == ({path} if used else set())


async def test_a_mount_that_hangs_ends_in_its_time_and_leaves_no_process(
    shares: Shares, journal: Journal
) -> None:
    mounts = shares.mounts(journal, timeout_s=12.0)
    shares.tell("hang")
    with pytest.raises(Unavailable, match=r"mount of a helper process took longer than 12 s"):
        async with mounts.held(request(mounts)):
            pass
    assert shares.calls() != []
    assert mounts.helpers == []
    assert processes_of(shares.directory) == []
    shares.tell("hang", on=False)
    async with mounts.held(request(mounts)) as path:
        assert (path / "volume-v1").exists()
    await mounts.close()


async def test_a_share_that_hangs_holds_up_no_other(shares: Shares, journal: Journal) -> None:
    mounts = shares.mounts(journal, timeout_s=60.0)
    other = "192.0.2.7:/other"
    shares.export(other)
    shares.tell("hang")
    async with AsyncExitStack() as stack:
        hanging = asyncio.ensure_future(stack.enter_async_context(mounts.held(request(mounts))))
        assert await until(lambda: shares.calls() != [], 30)
        shares.tell("hang", on=False)
        async with mounts.held(request(mounts, other)):
            assert len(mounts.helpers) == 2
            assert not hanging.done()
        hanging.cancel()
        await asyncio.wait({hanging})
    await mounts.close()
    assert processes_of(shares.directory) == []


async def test_a_killed_helper_is_told_of_and_the_next_call_starts_another(
    shares: Shares, journal: Journal
) -> None:
    mounts = shares.mounts(journal)
    async with mounts.held(request(mounts)):
        [first] = mounts.helpers
    os.kill(first, signal.SIGKILL)
    (shares.export("192.0.2.7:/other") / "volume-v3").touch()
    other = request(mounts, "192.0.2.7:/other")
    said = ""
    try:
        async with mounts.held(other):
            pass
    except Unavailable as error:
        said = error.public
    # Or its end was seen before the call, and another one has started for it.
    assert not said or "ended in the middle" in said
    async with mounts.held(other):
        [second] = mounts.helpers
        assert second != first
    await mounts.close()


async def test_an_idle_helper_ends(shares: Shares, journal: Journal) -> None:
    mounts = shares.mounts(journal)
    worker = Worker(
        Runner(journal),
        MODULE,
        [str(shares.directory)],
        program_path=mounts.settings.program_path,
        idle_s=0.1,
    )
    await worker.ask("mount", request(mounts), timeout_s=30)

    async def has_ended() -> bool:
        return worker.pid is None and await journal.processes() == []

    assert await until_told(has_ended, 10)
    await worker.close()


def test_the_agent_itself_imports_neither_os_brick_nor_eventlet() -> None:
    words = ("os_brick", "eventlet", "oslo_privsep", "netapp_ontap", "PyPowerStore")
    code = f"import sys, mooring.agent.app; print([w for w in {words} if w in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


@pytest.mark.parametrize(
    "data",
    [
        {"export": "-o,suid"},
        {"export": "host"},
        {"export": "host:/a b"},
        {"name": "../volume-v1"},
        {"name": "-x"},
        {"name": None},
        {"format": "vmdk"},
        {"options": "--bind"},
        {"options": "-o"},
        {"options": "-t ext4"},
    ],
)
async def test_a_connection_that_names_something_else_is_refused(
    connections: Connections, shares: Shares, data: dict[str, Any]
) -> None:
    with pytest.raises(Invalid):
        await connections.connect("a1", "v1", info(**data))
    assert shares.calls() == []


async def test_a_link_on_a_share_is_no_volume(connections: Connections, shares: Shares) -> None:
    (shares.export() / "volume-v3").symlink_to("/etc/hostname")
    with pytest.raises(NotFound, match="is missing on this host"):
        await connections.connect("a1", "v3", info("volume-v3"))


async def test_quobyte_is_mounted_by_its_own_program(
    shares: Shares, journal: Journal, tmp_path: Path
) -> None:
    export = "registry.example.com/volumes"
    (shares.export(export) / "volume-v1").touch()
    mounts = shares.mounts(journal, quobyte_client_cfg="/etc/quobyte.cfg")
    connections = Connections(
        tmp_path / "connections", mounts, Fitting(QemuImg(Runner(journal))), simulated=False
    )
    connections.prepare()
    wanted = {"driver_volume_type": "quobyte", "data": info()["data"] | {"export": export}}
    connected = await connections.connect("a1", "v1", wanted)
    path = mount_point(mounts.base, export)
    assert connected == FileSource(str(path / "volume-v1"), "raw")
    assert shares.calls() == [f"mount.quobyte --disable-xattrs {export} {path} -c /etc/quobyte.cfg"]
    await mounts.close()


def test_mount_options_are_read_as_upstream_writes_them() -> None:
    assert read_mount_flags(None) == ()
    assert read_mount_flags("-o rw,nolock") == ("-o", "rw,nolock")


def test_the_kernels_table_is_read_with_its_escapes(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text("31 1 0:30 / /mnt/with\\040blank rw shared:1 - nfs4 host:/x rw,nolock\n\n")
    options = frozenset({"nfs4", "rw", "nolock"})
    assert read_mount_points(table) == {Path("/mnt/with blank"): options}


async def test_locks_of_other_hosts_are_seen_unless_the_mount_keeps_them_to_itself(
    mounts: Mounts, shares: Shares
) -> None:
    async with mounts.held(request(mounts)) as path:
        assert await mounts.shows_locks(path)
    await mounts.release(path)
    shares.set_options("rw,vers=3,nolock")
    async with mounts.held(request(mounts)) as path:
        assert not await mounts.shows_locks(path)
