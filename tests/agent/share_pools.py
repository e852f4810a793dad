"""Pools of shares to test with, and the clients of their shares."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from mooring.agent import simulated_share_pool
from mooring.agent.qemu_img import GIB
from mooring.agent.run import Runner
from mooring.agent.settings import AgentSettings, SharePoolSettings
from mooring.agent.share_drivers.base import Grant, ShareDriver
from mooring.agent.share_drivers.directory import DirectoryShares
from mooring.agent.share_drivers.opening import open_share_pools
from mooring.agent.share_drivers.simulated import SimulatedShares
from mooring.agent_api.shares import AccessLevel, GrantedRule
from mooring.errors import Forbidden
from mooring.fence.journal import Journal

KINDS = ("simulated NFS", "simulated CEPHFS", "directory")
PROJECT = "p1"


class SharesAtWork(ABC):
    """A pool, and what clients can do with its shares."""

    def __init__(self, driver: ShareDriver) -> None:
        self.driver = driver

    @property
    def is_cephfs(self) -> bool:
        """Whether clients are known by cephx ids."""
        return self.driver.protocol == "CEPHFS"

    def client(self, number: int = 1) -> str:
        """Return one of some clients, as a rule names it."""
        return f"client{number}" if self.is_cephfs else f"10.9.0.{number}/32"

    def grant(self, rule_id: str = "r1", number: int = 1, level: AccessLevel = "rw") -> Grant:
        """Return a rule that lets a client in."""
        kind, to = "cephx" if self.is_cephfs else "ip", self.client(number)
        rule = GrantedRule(rule_id=rule_id, type=kind, to=to, level=level)
        return Grant(rule=rule, project_id=PROJECT if self.is_cephfs else "")

    @abstractmethod
    async def level(self, share_id: str, number: int = 1, key: str | None = None) -> str:
        """Return how a client gets in when it tries: rw, ro, or "" when it is refused."""

    @abstractmethod
    async def write(self, share_id: str, size_bytes: int) -> None:
        """Let a client that may write fill a share with so much."""

    async def settle(self) -> None:
        """Wait until a pool that was set up has done what it does beside all else."""
        return

    async def used(self, share_id: str) -> int:
        """Return how much is in a share."""
        found = await self.driver.find(share_id)
        assert found is not None
        assert found.used_bytes is not None
        return found.used_bytes


class SimulatedAtWork(SharesAtWork):
    """A simulated pool."""

    def __init__(self, driver: SimulatedShares) -> None:
        super().__init__(driver)
        self.simulated = driver

    async def level(self, share_id: str, number: int = 1, key: str | None = None) -> str:
        found = await self.driver.find(share_id)
        if found is None:
            return ""
        client = self.client(number).removesuffix("/32")
        try:
            return simulated_share_pool.mount(found.exports[0].path, client, key or "")
        except Forbidden:
            return ""

    async def write(self, share_id: str, size_bytes: int) -> None:
        self.simulated.write(share_id, size_bytes)


class DirectoryAtWork(SharesAtWork):
    """A pool of directories, whose clients are this machine's hosts: they ask the rules."""

    def __init__(self, driver: DirectoryShares) -> None:
        super().__init__(driver)
        self.directories = driver

    async def level(self, share_id: str, number: int = 1, key: str | None = None) -> str:
        del key
        found = await self.driver.find(share_id)
        rules = found.rules if found else []
        return next((rule.level for rule in rules if rule.to == self.client(number)), "")

    async def write(self, share_id: str, size_bytes: int) -> None:
        with (self.directories.path(share_id) / "content").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size_bytes)


@asynccontextmanager
async def share_pool(
    kind: str, directory: Path, journal: Journal, total_gib: int = 0
) -> AsyncGenerator[SharesAtWork]:
    """Set up a pool of a kind."""
    name, _, protocol = kind.partition(" ")
    pool = SharePoolSettings(
        driver="simulated" if name == "simulated" else "directory",
        protocol="CEPHFS" if protocol == "CEPHFS" else "NFS",
        total_gib=total_gib,
    )
    settings = AgentSettings(
        name="host-1", state_dir=directory, roles=("share",), share_pools=(pool,)
    )
    [driver] = open_share_pools(settings, Runner(journal), simulated=name == "simulated")
    await driver.setup()
    try:
        if isinstance(driver, SimulatedShares):
            yield SimulatedAtWork(driver)
        else:
            assert isinstance(driver, DirectoryShares)
            yield DirectoryAtWork(driver)
    finally:
        await driver.close()


def gib(count: float) -> int:
    """Return bytes."""
    return int(count * GIB)
