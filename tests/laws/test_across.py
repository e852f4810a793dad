"""Law *across*: two operations of two services, which need each other, never wait in vain.

One stands at one of its steps when the other begins. Both end, all agrees, neither was ended by a
deadline or because the other was busy, and they never rest both until one of them gives up
(docs/architecture.md, "Who may wait").

Every two operations of compute and of the volume service that can meet are tried, both ways
(`meetings.py`). Who stands does so before a step that asks somebody else: before a transaction
nothing is different from before the step that follows it. Compute's halves of a snapshot meet the
others as a snapshot of the volume service's begins them.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring import typed
from mooring.compute.power.sagas.power import INSIST_ON_STOP
from mooring.errors import Unavailable
from mooring.saga import laws
from mooring.saga.define import REGISTRY, Each, Saga, Step
from mooring.saga.tables import SagaRow
from tests.laws import basics
from tests.laws.causes import Causes
from tests.laws.meetings import find_meetings
from tests.laws.old_call_scenarios import OLD_AND_NEW, closed_gate
from tests.laws.scenarios import SCENARIOS
from tests.laws.shared_volume_scenarios import SHARED_VOLUMES
from tests.laws.sites import COMPUTE, VOLUME, Scenario, Site, Trial
from tests.laws.trials import Trials

pytestmark = pytest.mark.anyio
SERVICES = ("compute", "share", "volume")
LEFT_OUT = (
    "snapshot files",
    "merge files",
    "delete on the way",
    "delete a disk on the way",
    "delete a server with a volume on its way",
    *(one.name for one in OLD_AND_NEW),
    *(one.name for one in SHARED_VOLUMES),
    *(one.name for one in closed_gate(SCENARIOS[:])),
)
"""Halves of a snapshot, which meet the others as whole ones; what would have two clients turn the
clock, as below, either way round: deletions meet the others where no guest is sent; and what has a
volume of the old calls, or of another server, beside others: it takes the same locks as without,
and one for that.
"""
HELD_APART = (INSIST_ON_STOP,)
"""Comes to nothing as the first one: two clients turn the clock then."""
LAST_WORDS = ("volume.reset_status", "volume.force_delete_volume")
"""What takes an attachment from a server by an administrator's word, busy or not."""


SAID_FREE = "available, though an attachment of it is attached"
"""What a reset leaves of a volume that a server got meanwhile."""


class Meeting(Struct, frozen=True):
    """Who stands where, and who begins then."""

    first: Scenario
    point: str
    second: Scenario

    def __str__(self) -> str:
        return f"{self.first.name}-{self.point.split('/')[1]}-{self.second.name}"


def places_of(saga: Saga[Any]) -> list[str]:
    """Return where a saga may stand: before each step that asks a host or another service."""
    steps: list[Step] = []
    for part in saga.steps:
        inside = part.steps if isinstance(part, Each) else (part,)
        steps += [step for step in inside if isinstance(step, Step)]
    asking = [step.name for step in steps if not step.do_is_transaction]
    return [f"{saga.name}/{name}/forward/before" for name in asking]


CASES = [
    Meeting(first, point, second)
    for first, second in find_meetings()
    if first.saga not in HELD_APART
    for point in places_of(first.saga)
]


@pytest.mark.cases(CASES, 5)
async def test_two_operations_of_two_services_never_wait_in_vain(
    trials: Trials, case: Meeting
) -> None:
    async with trials.begin(case.first) as trial:
        have_met = await meet(trial, case)
    if not have_met:
        assert case.point not in (await trials.learn(case.first)).points


async def meet(trial: Trial, case: Meeting) -> bool:
    """Let one operation rest at a point for a moment, and the other one begin there.

    Returns whether it came there.
    """
    cloud, stands = trial.cloud, asyncio.Event()
    site = await name_things(trial.site)
    causes = Causes(cloud)

    def rest() -> Exception:
        stands.set()
        return Unavailable("A law lets this one wait a moment.")

    trial.probe.arm(case.point, rest)
    first = asyncio.create_task(trial.act())
    if not await cloud.until(stands, first):
        await first
        await trial.settle()
        return False
    second = asyncio.create_task(case.second.act(site))
    await asyncio.gather(first, second)
    await trial.settle()
    assert await causes.complaints() == []
    answers = [trial.answer, second.result()]
    assert all(answer is None or answer.status < 500 for answer in answers), answers
    if case.second.saga.name in LAST_WORDS:
        await follow_advice(trial, site)
    await laws.require_peace(trial, str(case))
    return True


async def follow_advice(trial: Trial, site: Site) -> None:
    """Do as the doctor says to: show a volume as it is, delete a server without its attachment."""
    for line in await trial.complaints():
        if SAID_FREE in line:
            volume_id = line.partition(":")[0].removeprefix("volume ")
            used = {"status": "in-use", "attach_status": "attached"}
            mine = Site.beside(site, volume=volume_id)
            answer = await basics.act_on_volume(mine, "os-reset_status", used, "admin")
            assert answer.status == 202, answer.text
            await trial.settle()
    for line in await trial.complaints():
        if line.startswith("server ") and "attachment" in line and "does not exist" in line:
            server_id = line.partition(":")[0].removeprefix("server ")
            await basics.delete_server(Site.beside(site, server=server_id))
            await trial.settle()


async def name_things(site: Site) -> Site:
    """Return the site with names for the server and the volume that stand in it without one.

    Where a server boots from a volume, that is the one which both work on.
    """
    found = {"volume": site.names["root"]} if "root" in site.names else {}
    known = set(site.names.values())
    for name, path in (("server", f"{COMPUTE}/servers"), ("volume", f"{VOLUME}/volumes")):
        answer = await site.ask("GET", path)
        listed: list[dict[str, str]] = answer.body[f"{name}s"] if answer else []
        if name not in {*site.names, *found} and listed and listed[0]["id"] not in known:
            found[name] = listed[0]["id"]
    return Site.beside(site, **found)


def test_it_is_known_of_every_operation_what_it_wants() -> None:
    assert {one.name for one in SCENARIOS if one.wants is None} == {*LEFT_OUT}


@pytest.mark.cases([one for one in SCENARIOS if one.wants], 3)
async def test_an_operation_wants_what_is_said_of_it(trials: Trials, case: Scenario) -> None:
    wants = case.wants
    assert wants is not None
    async with trials.begin(case) as trial:
        site, stores = await name_things(trial.site), trial.cloud.cloud.stores
        before = [await stores[name].read(read_locks) for name in SERVICES]
        await trial.act()
        await trial.settle()
        after = [await stores[name].read(read_locks) for name in SERVICES]
    old = {saga for found in before for saga in found}
    locks = {
        key.partition(":")[2]
        for found in after
        for saga, keys in found.items()
        if saga not in old
        for key in keys
    }
    names = {name: identity for name, identity in site.names.items() if name not in GROUND}
    assert names.keys() == set(wants.stands.split())
    locked = {name for name, identity in names.items() if identity in locks}
    assert locked == set(wants.locks.split())


GROUND = ("flavor", "image")
"""What stands everywhere."""


def read_locks(tx: Session) -> dict[str, list[str]]:
    """Return the keys that each saga of a service wants or wanted, whether it has ended or not."""
    found: dict[str, list[str]] = {}
    for row in tx.scalars(select(SagaRow)):
        saga = REGISTRY[row.name, row.version]
        notes = typed.convert(row.notes, saga.notes)
        found[row.id] = [lock.key for lock in saga.locks(notes)]
    return found
