"""Clients of CephFS that outlive a mount, or its agent: which is ended, and which is waited for."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.agent.run import Runner, find_processes
from mooring.agent.settings import MountSettings
from mooring.agent.share_mounts import cephfs
from mooring.agent.share_mounts.base import Wanted
from mooring.agent.share_mounts.exports import Export
from mooring.errors import Unavailable
from mooring.fence.journal import Journal
from tests.agent.share_mounts import base_in
from tests.waiting import until

pytestmark = pytest.mark.anyio


class FuseAtWork:
    """Clients of CephFS that only say in the table that they have mounted, and live on."""

    def __init__(self, directory: Path, journal: Journal) -> None:
        self._directory, self._table = directory, directory / "table"
        self._table.touch()
        self._add("umount", f": > {self._table}")
        base = base_in(directory)
        export = Export("CEPHFS", "192.0.2.1:6789", "/volumes/x")
        self.wanted = Wanted(export=export, path=base / "x", client="alice", key="k")
        settings = MountSettings(program_path=str(directory), table=str(self._table), timeout_s=3.0)
        self.mounter = cephfs.CephfsMounts(base, settings, Runner(journal), directory / "clients")

    def let_clients(self, what: str) -> None:
        """Let each client from now on `mount` its share, or `hang` before that."""
        line = f"1 1 0:1 / {self.wanted.path} rw - fuse.ceph-fuse x rw"
        last = "sleep 60" if what == "hang" else f"echo '{line}' > {self._table}"
        began = self._directory / "began"
        lasts = f"touch {began}; while :; do sleep 1; done"
        client = f"""setsid sh -c '{lasts}' client "$@" < /dev/null > /dev/null 2>&1 &"""
        # It is not to end with what has started it: it has a session of its own by then.
        self._add(
            "ceph-fuse",
            f"rm -f {began}\n{client}\nwhile [ ! -e {began} ]; do sleep 0.05; done\n{last}",
        )

    def clients(self) -> list[int]:
        """Return the clients that run, and not what has started them."""
        there = find_processes(f"{self._directory}/clients/")
        return [pid for pid in there if pid in find_processes("done client --conf")]

    def end_clients(self) -> None:
        """Let all they had be with Ceph."""
        for pid in self.clients():
            os.kill(pid, signal.SIGKILL)

    async def until_it_lasts(self) -> None:
        """Return once a client runs that does not end with what has started it."""

        async def lasts() -> bool:
            return (self._directory / "began").exists()

        await until(lasts, "a client runs")

    def _add(self, name: str, script: str) -> None:
        program = self._directory / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)


@pytest.fixture
async def fuse(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[FuseAtWork]:
    monkeypatch.setattr(cephfs, "_FUSE", tmp_path)
    made = FuseAtWork(tmp_path, journal)
    await made.mounter.prepare()
    yield made
    made.end_clients()


@pytest.mark.parametrize("prepared", [False, True])
async def test_a_client_that_still_has_guests_data_is_not_ended_by_the_next_mount(
    fuse: FuseAtWork, *, prepared: bool
) -> None:
    fuse.let_clients("mount")
    await fuse.mounter.mount(fuse.wanted, "op")
    clients = fuse.clients()
    assert len(clients) == 1
    with pytest.raises(Unavailable, match="still has data for Ceph"):
        await fuse.mounter.unmount(fuse.wanted.path)
    if prepared:
        await fuse.mounter.prepare()
    with pytest.raises(Unavailable, match="still has data for Ceph"):
        await fuse.mounter.mount(fuse.wanted, "op")
    assert (fuse.clients(), await fuse.mounter.mounted()) == (clients, frozenset())
    fuse.end_clients()
    await fuse.mounter.mount(fuse.wanted, "op")
    assert await fuse.mounter.mounted() == {fuse.wanted.path}


async def test_a_client_that_was_only_begun_is_ended_by_the_next_mount(fuse: FuseAtWork) -> None:
    """Its agent was killed: nobody has written to what it may still mount."""
    fuse.let_clients("hang")
    begun = asyncio.ensure_future(fuse.mounter.mount(fuse.wanted, "op"))
    await fuse.until_it_lasts()
    begun.cancel()
    with pytest.raises(asyncio.CancelledError):
        await begun
    clients = fuse.clients()
    assert len(clients) == 1
    fuse.let_clients("mount")
    await fuse.mounter.mount(fuse.wanted, "op")
    assert len(fuse.clients()) == 1
    assert fuse.clients() != clients
    # It is of use from then on, and waited for as any other is.
    with pytest.raises(Unavailable, match="still has data for Ceph"):
        await fuse.mounter.unmount(fuse.wanted.path)
    with pytest.raises(Unavailable, match="still has data for Ceph"):
        await fuse.mounter.mount(fuse.wanted, "op")
