"""Law *silent host*: a host freezes in any call that an operation makes to it.

It neither answers nor refuses. Meanwhile an operation of the same kind ends on other hosts, and
`mooring operations` says who is silent, and for how long. Once the host answers again, or is forced
down, the operation ends and all agrees.

One thing is left out: nobody is said to be silent while an image's data is on its way (`PUT
/images/`). That call takes as long as the data does, which the host, the image service and whatever
keeps the image may delay; its neighbour ends, and so does it, as with every other call.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterator
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import select

from mooring.agent.settings import Role
from mooring.compute.app import SERVICE as COMPUTE_SERVICE
from mooring.compute.hosts.loops import watch_hosts
from mooring.saga import laws
from mooring.saga.tables import SagaRow
from mooring.share.app import SERVICE as SHARE_SERVICE
from mooring.share.services.loops.watch_pools import POOLS as SHARE_POOLS
from mooring.volume.app import SERVICE as VOLUME_SERVICE
from mooring.volume.backends.loops.watch_pools import POOLS
from tests.cloud import SimulatedCloud
from tests.laws.meddlers import DeadHost
from tests.laws.scenarios import SCENARIOS
from tests.laws.sites import COMPUTE, NEIGHBOURS, SHARE, VOLUME, Call, Do, Scenario, Site, Trial
from tests.laws.test_dead_host import bury_and_revive
from tests.laws.trials import Trials, furnish

pytestmark = pytest.mark.anyio
ROLES: dict[str, tuple[Role, ...]] = {
    "h1": ("compute",),
    "s1": ("volume", "share"),
    "h2": ("compute",),
    "s2": ("volume", "share"),
}
HEALTHY = ("h2", "s2", *NEIGHBOURS.values())
FOR_SERVERS = ("h1", *(host for host in NEIGHBOURS if host.startswith("h")))
"""Which of the hosts can be forced down: the volume and share services know no such thing."""
OTHER = "other "
"""What the names begin with of what stands on the second hosts."""
PAIRS = {**dict.fromkeys(NEIGHBOURS, "1"), **dict.fromkeys(NEIGHBOURS.values(), "2")}
"""Whose the hosts are that a scenario has more: its own, and its neighbour's."""
PARTS = 3
LOOKS = 120
"""How often to look, a second apart, whether an operation on healthy hosts has ended."""
SILENT_S = 40.0
PLAIN = {
    "compute.insist_on_stop": "compute.stop_server",
    "compute.insist_on_reboot": "compute.reboot_server",
}
"""What an operation is where nobody stands in its way."""
BY_ADMIN: dict[str, Any] = {"user": "admin", "version": "2.53"}
IMAGE_DATA = "PUT /images/"
"""What may last, though nobody is silent."""
SAID = re.compile(r"Host (\w+) has not answered for (\d+) s\.")


class Frost(Struct, frozen=True):
    """Every `PARTS`-th call of a scenario to a host, and what becomes of the host then."""

    scenario: Scenario
    end: str
    part: int

    def __str__(self) -> str:
        return f"{self.scenario.name}-{self.end}-{self.part}"


CASES = [
    Frost(scenario, end, part)
    for scenario in SCENARIOS
    for end in ("answers", "forced down")
    for part in range(PARTS)
    if end == "answers" or scenario.saga.name.startswith("compute.")
]


class Ice(DeadHost):
    """Freezes the host of the n-th call (from 1) in that call, until it is thawed or dead."""

    def __init__(self, nth: int) -> None:
        super().__init__("", nth)
        self.call, self.is_dead = "", False
        self.fallen, self._thawed = asyncio.Event(), asyncio.Event()

    async def pass_on(self, call: Call) -> Any:
        """Deliver a call, unless it is for the host that is frozen: that one is held."""
        if not self.host and call.at:
            self.count += 1
            if self.count == self.nth:
                self.host, self.call = call.at, call.what
                self.fallen.set()
        if self.host and call.at == self.host:
            await self._thawed.wait()
            if self.is_dead and not self.revived:
                raise call.lost()
        return await call.forward()

    def thaw(self, *, dead: bool = False) -> None:
        """Let the calls go on that are held, or be lost."""
        self.is_dead = dead
        self._thawed.set()


class Twins(Trials):
    """Arranges everything twice: on the first two hosts, and on the others."""

    def __init__(self) -> None:
        super().__init__(ROLES)

    async def _open(self, scenario: Scenario) -> Trial:
        """Open a trial; what goes to another host has one for its neighbour to go to."""
        more = (NEIGHBOURS[host] for host in scenario.hosts)
        return await super()._open(replace(scenario, hosts=(*scenario.hosts, *more)))

    async def _furnish(self, arrange: Do, ground: Any, hosts: tuple[str, ...]) -> Any:
        both = arrange if arrange is furnish else twice(arrange)
        return await super()._furnish(both, ground, hosts)


def twice(arrange: Do) -> Do:
    """Return an arrangement that stands on the first hosts and, by other names, on the others."""

    async def both(site: Site) -> None:
        ground = dict(site.names)
        await give_to(site.cloud, "1")
        await arrange(site)
        await site.cloud.settle()
        other = Site.beside(site)
        other.names = ground
        await give_to(site.cloud, "2")
        await arrange(other)
        await site.cloud.settle()
        await give_to(site.cloud, "1")
        site.names.update({f"{OTHER}{name}": value for name, value in other.names.items()})

    return both


def other_of(site: Site) -> Site:
    """Return the site as it stands on the other hosts."""
    names = {n.removeprefix(OTHER): v for n, v in site.names.items() if n.startswith(OTHER)}
    return Site.beside(site, asker="neighbour", **names)


async def look_at(cloud: SimulatedCloud, hosts: Collection[str]) -> None:
    """Let the hosts be looked at that answer, as each service's loop does from time to time."""
    compute, volume = cloud.cloud[COMPUTE_SERVICE], cloud.cloud[VOLUME_SERVICE]
    for host in sorted(cloud.hosts.keys() & hosts):
        await watch_hosts.look_at(compute, host)
        await POOLS.look_at(volume, host)
        await SHARE_POOLS.look_at(cloud.cloud[SHARE_SERVICE], host)


async def give_to(cloud: SimulatedCloud, numbers: str) -> None:
    """Let new servers, volumes and shares go to the hosts with these numbers alone."""
    listed = await cloud.ask("GET", f"{COMPUTE}/os-services", **BY_ADMIN)
    for one in listed.key("services"):
        number = PAIRS.get(one["host"], one["host"][1:])
        if number in {"1", "2"}:
            status = "enabled" if number in numbers else "disabled"
            path = f"{COMPUTE}/os-services/{one['id']}"
            assert (await cloud.ask("PUT", path, {"status": status}, **BY_ADMIN)).status == 200
    for services, version in (
        (f"{VOLUME}/os-services?binary=cinder-volume", ""),
        (f"{SHARE}/services", "2.82"),
    ):
        by_admin: dict[str, Any] = {"user": "admin", "version": version}
        listed = await cloud.ask("GET", services, **by_admin)
        for one in listed.key("services"):
            host = one["host"]
            name: str = host.partition("@")[0]
            verb = "enable" if PAIRS.get(name, name[1:]) in numbers else "disable"
            body = {"host": host, "binary": one["binary"]}
            path = f"{services.partition('?')[0]}/{verb}"
            assert (await cloud.ask("PUT", path, body, **by_admin)).status == 200


@pytest.fixture(scope="module")
def twins() -> Iterator[Twins]:
    made = Twins()
    yield made
    made.remove()


@pytest.mark.cases(CASES, 4)
async def test_a_silent_host_holds_up_itself_alone(twins: Twins, case: Frost) -> None:
    nth = 1 + case.part
    while await freeze(twins, case, nth):
        nth += PARTS


async def freeze(twins: Twins, case: Frost, nth: int) -> bool:
    """Hold the scenario to the law at its n-th call to a host; return whether it makes so many."""
    async with twins.begin(case.scenario) as trial:
        ice = Ice(nth)
        trial.site.meddler = ice
        acting = asyncio.create_task(trial.act())
        if not await trial.cloud.until(ice.fallen, acting):
            await acting
            return False
        when = f"{ice.host} silent in {ice.call}"
        await require_neighbour(trial, when)
        if not ice.call.startswith(IMAGE_DATA):
            await require_word(trial.cloud, ice.host, when, acting)
        await give_to(trial.cloud, "12")
        if case.end == "answers" or ice.host not in FOR_SERVERS:
            ice.thaw()
            await acting
            await trial.settle()
            await laws.require_peace(trial, when)
        else:
            ice.thaw(dead=True)
            await acting
            await bury_and_revive(trial, ice, when)
        return True


async def require_neighbour(trial: Trial, when: str) -> None:
    """See that an operation of the same kind ends on the other hosts."""
    cloud, name = trial.cloud, trial.scenario.saga.name
    sagas = {name, PLAIN.get(name, name)}
    before = await outcomes(trial, sagas)
    await give_to(cloud, "2")
    await look_at(cloud, HEALTHY)
    answer = await trial.scenario.act(other_of(trial.site))
    assert answer is not None, when
    assert answer.status < 300, (when, answer.status, answer.body)
    made: dict[str, str] = {}
    for _ in range(LOOKS):
        now = await outcomes(trial, sagas)
        made = {one: outcome for one, outcome in now.items() if one not in before}
        if made and all(made.values()):
            break
        await cloud.pass_time(1.0)
        await look_at(cloud, HEALTHY)
    # Who insists takes the place of who hung.
    ended = set(made.values()) - {"absorbed"}
    assert ended == {"done"}, f"{when}: its neighbour's ended {made}"


async def outcomes(trial: Trial, sagas: set[str]) -> dict[str, str]:
    """Return the ids of the neighbour's operations with their outcomes, empty for what goes on."""
    cloud, names = trial.cloud, trial.site.names
    frozen = [value for name, value in names.items() if names.get(f"{OTHER}{name}", value) != value]
    store = cloud.cloud.stores[min(sagas).partition(".")[0]]
    query = select(SagaRow).where(SagaRow.name.in_(sagas))
    rows = await store.read(lambda tx: tx.execute(query).scalars().all())
    others = [row for row in rows if not any(one in str(row.notes) for one in frozen)]
    return {row.id: row.outcome or "" for row in others}


async def require_word(
    cloud: SimulatedCloud, host: str, when: str, acting: asyncio.Task[Any]
) -> None:
    """See that the list of operations names the host that is silent, and for how long.

    Unless nobody waits for it any more: whoever asked was ended by another in time.
    """
    await cloud.pass_time(SILENT_S)
    said: list[str] = []
    for service in (COMPUTE, VOLUME, SHARE):
        listed = await cloud.ask("GET", f"{service}/mooring/operations", user="admin")
        said += [one["waits"] for one in listed.key("operations")]
    if acting.done() and not said:
        return
    found = [SAID.fullmatch(one) for one in said]
    silent = [int(one[2]) for one in found if one is not None and one[1] == host]
    assert silent, f"{when}: {said}"
    assert max(silent) >= SILENT_S, f"{when}: {said}"
