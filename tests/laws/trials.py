"""What trials of laws stand on: arranged once, and copied for each of them."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mooring.agent.settings import PoolSettings, Role
from mooring.compute.hosts.hosts import ATTACHMENTS_VERSION
from mooring.saga.laws import Outcome, learn, live_through
from tests import sampling, scratch
from tests.cloud import SimulatedCloud
from tests.copies import copy_file
from tests.laws.meddlers import Meddling
from tests.laws.scenarios import EVENTS
from tests.laws.sites import COMPUTE, HOSTS, IMAGE, OLD, Do, Scenario, Site, Trial
from tests.memory import find_memory

DEADLINE_S = 300.0
"""For one trial, on a machine that has more to do: what hangs fails."""
_TOLD: dict[str, Any] = {"notifications": ("keep",), "shelved_offload_time": 10_000_000}
"""Every law also holds what was told of (`told.py`). A shelved server that stays is taken from its
host by those that ask for it."""
_POOL, _BESIDE_GIB = PoolSettings(driver="simulated", name="local"), 100
"""What a host has for a pool; one beside it is smaller, so that new volumes go to the first."""


class _Arranged(Struct):
    directory: Path
    now: datetime
    names: dict[str, str]
    hosts: tuple[str, ...]


class Databases:
    """Where the clouds of trials have their databases: in files, which are copied with the rest."""

    live = ""
    """The one that is in use, as the setting `database` names it."""

    def make(self) -> None:
        """Have an empty one in use."""

    def keep(self, name: str) -> None:
        """Put by the one that was in use."""

    def copy(self, name: str) -> None:
        """Have one that was put by in use."""

    def remove(self) -> None:
        """Forget the one that was in use."""


class Trials:
    """Keeps what was arranged and learnt, and makes trials of it."""

    def __init__(
        self,
        roles: Mapping[str, tuple[Role, ...]] = HOSTS,
        *,
        databases: Databases | None = None,
        most: int = 0,
    ) -> None:
        self._roles, self.databases = roles, databases or Databases()
        self.most = most
        """In how many scenarios a case is tried, of those that come to it; 0: in all."""
        self._root = scratch.make("mooring-laws-", find_memory())
        self._live = self._root / "live"
        """Where the one cloud lies that is open: what hosts remember names paths below it."""
        self._arranged: dict[tuple[Do | None, tuple[str, ...]], _Arranged] = {}
        self._learnt: dict[str, Outcome] = {}
        self._calls: dict[tuple[str, Do, tuple[str, ...]], int] = {}
        self._made = 0

    def shuffle(self, what: str, scenarios: Sequence[Scenario]) -> list[Scenario]:
        """Return scenarios in the order in which a case is tried: if in few, the commit chooses."""
        found = list(scenarios)
        if self.most:
            random.Random(f"{sampling.seed()} {what}").shuffle(found)
        return found

    def has_enough(self, tried: int) -> bool:
        """Whether a case was tried in as many scenarios as it is to be."""
        return 0 < self.most <= tried

    def remove(self) -> None:
        """Remove every directory."""
        shutil.rmtree(self._root, ignore_errors=True)

    async def _open(self, scenario: Scenario) -> Trial:
        wanted = scenario.arrange, scenario.hosts
        if wanted not in self._arranged:
            await self._arrange(*wanted)
        site = self._copy(self._arranged[wanted])
        await site.cloud.open()
        site.cloud.probe.passed.clear()
        return Trial(scenario, site, EVENTS)

    @asynccontextmanager
    async def begin(self, scenario: Scenario) -> AsyncGenerator[Trial]:
        """Give a trial that stands ready; afterwards it is closed and its copy removed.

        Only one at a time: learn what is to be compared with before.
        """
        try:
            trial = await self._open(scenario)
            try:
                async with asyncio.timeout(DEADLINE_S):
                    yield trial
            finally:
                await trial.cloud.close()
        finally:
            shutil.rmtree(self._live)
            self.databases.remove()

    async def learn(self, scenario: Scenario) -> Outcome:
        """Return what a scenario comes to, run undisturbed once for all trials."""
        if scenario.name not in self._learnt:
            async with self.begin(scenario) as trial:
                self._learnt[scenario.name] = await learn(trial)
                ending = await trial.ending(scenario.saga)
            assert ending == "done", f"{scenario.name} ends {ending!r} undisturbed"
        return self._learnt[scenario.name]

    async def count_calls(self, scenario: Scenario) -> int:
        """Return how many calls a scenario makes undisturbed, counted once."""
        key = scenario.name, scenario.arrange, scenario.hosts
        if key not in self._calls:
            async with self.begin(scenario) as trial:
                trial.site.meddler = counting = Meddling(trial.cloud)
                await live_through(trial)
                self._calls[key] = len(counting.calls)
        return self._calls[key]

    async def _arrange(self, arrange: Do, hosts: tuple[str, ...]) -> None:
        empty = (None, hosts)
        if empty not in self._arranged:
            self._arranged[empty] = await self._furnish(furnish, None, hosts)
        ground = self._arranged[empty]
        self._arranged[arrange, hosts] = await self._furnish(arrange, ground, hosts)

    async def _furnish(
        self, arrange: Do, ground: _Arranged | None, hosts: tuple[str, ...]
    ) -> _Arranged:
        site = self._clear(hosts) if ground is None else self._copy(ground)
        await site.cloud.open()
        await arrange(site)
        await site.cloud.settle()
        # What is begun in a trial is younger than what was begun here.
        site.cloud.clock.advance(1.0)
        await site.cloud.close()
        self._made += 1
        kept = self._live.rename(self._root / str(self._made))
        self.databases.keep(kept.name)
        return _Arranged(kept, site.cloud.clock.now(), dict(site.names), hosts)

    def _clear(self, hosts: tuple[str, ...]) -> Site:
        self.databases.make()
        return Site(self._make_cloud(None, hosts))

    def _copy(self, arranged: _Arranged) -> Site:
        shutil.copytree(arranged.directory, self._live, copy_function=copy_file)
        self.databases.copy(arranged.directory.name)
        return Site(self._make_cloud(arranged.now, arranged.hosts), dict(arranged.names))

    def _make_cloud(self, start: datetime | None, hosts: tuple[str, ...]) -> SimulatedCloud:
        self._live.mkdir(exist_ok=start is not None)
        where = self.databases.live
        more: dict[str, tuple[Role, ...]] = {
            host: ("volume",) if host.startswith("s") else ("compute",)
            for host in hosts
            if "#" not in host
        }
        roles = {**self._roles, **more}
        cloud = SimulatedCloud(
            self._live, database=where, roles=roles, start=start, inline=True, **_TOLD
        )
        for host, _, pool in (one.partition("#") for one in hosts if "#" in one):
            pools = (_POOL, replace(_POOL, name=pool, total_gib=_BESIDE_GIB))
            cloud.hosts[host] = replace(cloud.hosts[host], pools=pools)
        if OLD in roles:
            cloud.hosts[OLD] = replace(cloud.hosts[OLD], version=ATTACHMENTS_VERSION - 1)
        return cloud


async def furnish(site: Site) -> None:
    """What every arrangement stands on: an image and the name of a small flavor."""
    body = {"name": "tiny", "disk_format": "raw", "container_format": "bare"}
    image = await site.get(
        "POST", f"{IMAGE}/images", {**body, "visibility": "public"}, user="admin"
    )
    site.names["image"] = image["id"]
    await site.get("PUT", f"{IMAGE}/images/{{image}}/file", bytes(65536), user="admin")
    flavors = await site.get("GET", f"{COMPUTE}/flavors")
    smallest = next(one for one in flavors["flavors"] if one["name"] == "m1.nano")
    site.names["flavor"] = smallest["id"]
