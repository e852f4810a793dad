"""Ways of mounting shares to test with, each with shares that it can be let in to."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from mooring.agent.mounts import mount_point
from mooring.agent.run import Runner
from mooring.agent.settings import MountSettings, SharePoolSettings
from mooring.agent.share_drivers.base import Grant, ShareDriver
from mooring.agent.share_drivers.directory import DirectoryShares
from mooring.agent.share_drivers.simulated import SimulatedShares
from mooring.agent.share_mounts.base import ShareMounter, Wanted
from mooring.agent.share_mounts.cephfs import CephfsMounts
from mooring.agent.share_mounts.exports import read_export
from mooring.agent.share_mounts.nfs import LinkedShares, NfsMounts
from mooring.agent.share_mounts.simulated import SimulatedMounts
from mooring.agent_api.shares import GrantedRule, Protocol
from mooring.fence.journal import Journal
from tests.agent.ceph_cluster import CephCluster
from tests.agent.cephfs_shares import real_cephfs
from tests.agent.hosts import new_id
from tests.agent.places import place
from tests.agent.shares import Shares

KINDS = ("simulated NFS", "simulated CEPHFS", "directory", "links", "stand-in")
"""Those that need nothing of the machine but, for one of them, root."""
ADDRESS, CLIENT, PROJECT = "10.9.0.1", "alice", "p1"


class MountsAtWork(ABC):
    """A way of mounting, and shares for it."""

    def __init__(self, mounter: ShareMounter) -> None:
        self.mounter = mounter

    @abstractmethod
    async def share(self) -> Wanted:
        """Make a share, let this host in, and return how it is mounted."""

    @abstractmethod
    async def deny(self, wanted: Wanted) -> None:
        """Let this host in to a share no more."""

    def is_read(self, wanted: Wanted) -> bool:
        """Whether what is written to the mount is in the share; True where nothing is written."""
        del wanted
        return True

    def _want(self, protocol: Protocol, location: str, client: str, key: str = "") -> Wanted:
        path = mount_point(self.mounter.base, location)
        export = read_export(protocol, location)
        return Wanted(export=export, path=path, client=client, key=key)


class PoolAtWork(MountsAtWork):
    """Shares of a driver on this machine."""

    def __init__(self, mounter: ShareMounter, driver: ShareDriver) -> None:
        super().__init__(mounter)
        self._driver = driver
        self._rules: dict[Path, tuple[str, str]] = {}

    async def share(self) -> Wanted:
        share_id, rule_id = new_id(), new_id()
        exports = await self._driver.create(share_id, 1, None, "op")
        is_ceph = self._driver.protocol == "CEPHFS"
        kind, to = ("cephx", CLIENT) if is_ceph else ("ip", f"{ADDRESS}/32")
        rule = GrantedRule(
            rule_id=rule_id, type="cephx" if kind == "cephx" else "ip", to=to, level="rw"
        )
        key = await self._driver.grant(
            share_id, Grant(rule=rule, project_id=PROJECT if is_ceph else "")
        )
        client = CLIENT if is_ceph else ADDRESS
        wanted = self._want(self._driver.protocol, exports[0].path, client, key or "")
        self._rules[wanted.path] = share_id, rule_id
        return wanted

    async def deny(self, wanted: Wanted) -> None:
        await self._driver.revoke(*self._rules[wanted.path])

    def is_read(self, wanted: Wanted) -> bool:
        if isinstance(self._driver, SimulatedShares):
            return True
        (wanted.path / "file").write_text("data")
        if isinstance(self._driver, DirectoryShares):
            return (Path(wanted.export.path) / "file").read_text() == "data"
        return (wanted.path / "file").read_text() == "data"


class StandInAtWork(MountsAtWork):
    """NFS, with stand-ins for mount and its server."""

    def __init__(self, mounter: ShareMounter, shares: Shares) -> None:
        super().__init__(mounter)
        self.shares = shares

    async def share(self) -> Wanted:
        location = f"192.0.2.7:/{new_id()}"
        self.shares.export(location)
        return self._want("NFS", location, ADDRESS)

    async def deny(self, wanted: Wanted) -> None:
        del wanted
        self.shares.tell("refuse")


def stand_in(directory: Path, journal: Journal, timeout_s: float = 30.0) -> StandInAtWork:
    """Return NFS with stand-ins."""
    shares = Shares(directory)
    shares.add_program("mount.nfs", "#!/bin/sh\n")
    settings = replace(shares.settings(timeout_s))
    base = base_in(directory)
    return StandInAtWork(NfsMounts(base, settings, Runner(journal)), shares)


def base_in(directory: Path) -> Path:
    """Return below which directory shares are mounted, as the kernel's table has it."""
    return directory.resolve() / "mounted"


def why_not(kind: str) -> str:
    """Return what keeps this machine from a way of mounting, "" when nothing does."""
    return "mounting takes root" if kind == "directory" and os.geteuid() != 0 else ""


@asynccontextmanager
async def mounts_at_work(
    kind: str, directory: Path, journal: Journal
) -> AsyncGenerator[MountsAtWork]:
    """Open a way of mounting; nothing of it may be left mounted."""
    base = base_in(directory)
    runner = Runner(journal, str(directory))
    if kind == "stand-in":
        at_work: MountsAtWork = stand_in(directory, journal)
        await at_work.mounter.prepare()
        yield at_work
        return
    if kind.startswith("simulated"):
        protocol: Protocol = "CEPHFS" if kind.endswith("CEPHFS") else "NFS"
        pool = SharePoolSettings(driver="simulated", protocol=protocol)
        driver: ShareDriver = SimulatedShares(pool, directory / "pool.sqlite", ADDRESS)
        mounter: ShareMounter = SimulatedMounts(base, directory / "mounts.json")
    else:
        driver = DirectoryShares(SharePoolSettings(), place(directory / "shares"), ADDRESS, runner)
        mounter = LinkedShares(base)
        if kind == "directory":
            mounter = NfsMounts(base, MountSettings(), runner)
    await driver.setup()
    await mounter.prepare()
    try:
        yield PoolAtWork(mounter, driver)
    finally:
        for path in await mounter.mounted():
            await mounter.unmount(path)
        await driver.close()


@asynccontextmanager
async def cephfs_mounts(
    cluster: CephCluster, directory: Path, journal: Journal
) -> AsyncGenerator[PoolAtWork]:
    """Mounts by ceph-fuse, of a real Ceph."""
    runner = Runner(journal, str(directory))
    base = base_in(directory)
    mounter = CephfsMounts(base, MountSettings(timeout_s=30.0), runner, directory / "clients")
    await mounter.prepare()
    async with real_cephfs(SharePoolSettings(), directory, journal, cluster) as pool:
        try:
            yield PoolAtWork(mounter, pool.driver)
        finally:
            for path in await mounter.mounted():
                await mounter.unmount(path)
