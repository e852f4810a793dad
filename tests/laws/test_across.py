"""Law *across*: operations of two services meet on the same things, and none waits in vain.

One stands at one of its steps when the other begins. Both end, all agrees, neither was ended by a
deadline or because the other was busy, and they never rest both until one of them gives up
(docs/architecture.md, "Who may wait").
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import Struct

from mooring.errors import Unavailable
from mooring.saga import laws
from mooring.saga.define import Each, Saga, Step
from tests.answers import Answer
from tests.laws import scenarios
from tests.laws.causes import Causes
from tests.laws.scenarios import SCENARIOS
from tests.laws.sites import COMPUTE, VOLUME, Scenario, Site, Trial, Yard

pytestmark = pytest.mark.anyio
MEET = (
    ("compute.rebuild_server", "volume.extend_volume"),
    ("compute.renew_server", "volume.extend_volume"),
    ("volume.extend_volume", "compute.rebuild_server"),
    ("volume.extend_volume", "compute.renew_server"),
)
"""Who stands at each of its steps, and who begins then. docs/status.md says what is left out."""


class Meeting(Struct, frozen=True):
    """Who stands where, and the saga of the other service that begins then."""

    scenario: Scenario
    point: str
    second: Saga[Any]

    def __str__(self) -> str:
        return f"{self.scenario.name}-{self.point.split('/')[1]}-{self.second.name}"


def places_of(saga: Saga[Any]) -> list[str]:
    """Return where a saga may stand: before each step but those that its request itself does."""
    steps: list[Step] = []
    for part in saga.steps:
        inside = part.steps if isinstance(part, Each) else (part,)
        steps += [step for step in inside if isinstance(step, Step)]
    leading = next((at for at, step in enumerate(steps) if not step.do_is_transaction), len(steps))
    return [f"{saga.name}/{step.name}/forward/before" for step in steps[leading:]]


def acts_of(saga: Saga[Any]) -> list[Scenario]:
    """Return the scenarios that begin a saga on something which stands already."""
    found = [one for one in SCENARIOS if one.saga is saga]
    return [one for one in found if one.arrange is not scenarios.nothing]


CASES = [
    Meeting(scenario, point, second)
    for scenario in SCENARIOS
    for point in places_of(scenario.saga)
    for second in laws.sagas_of("compute", "volume")
    if (scenario.saga.name, second.name) in MEET
]


@pytest.mark.cases(CASES, 8)
async def test_two_operations_of_two_services_never_wait_in_vain(yard: Yard, case: Meeting) -> None:
    async with yard.trial(case.scenario) as trial:
        await meet(trial, case)


async def meet(trial: Trial, case: Meeting) -> None:
    """Let one operation rest at a point for a moment, and the other one begin there."""
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
        return
    second = asyncio.create_task(begin(site, case.second))
    await asyncio.gather(first, second)
    await trial.settle()
    await laws.require_peace(trial, str(case))
    assert await causes.complaints() == []
    answers = [trial.answer, second.result()]
    assert all(answer is None or answer.status < 500 for answer in answers), answers


async def begin(site: Site, saga: Saga[Any]) -> Answer | None:
    """Ask for what begins a saga, in the first way for which all things stand."""
    if not {"server", "volume"} <= site.names.keys():
        site = await name_things(site)
    for scenario in acts_of(saga):
        try:
            return await scenario.act(site)
        except KeyError:
            # It speaks of a thing that does not stand here.
            continue
    return None


async def name_things(site: Site) -> Site:
    """Return the site with names for the server and the volume that stand in it.

    Where a server boots from a volume, that is the one which both work on.
    """
    found = {"volume": site.names["root"]} if "root" in site.names else {}
    for name, path in (("server", f"{COMPUTE}/servers"), ("volume", f"{VOLUME}/volumes")):
        answer = await site.ask("GET", path)
        listed: list[dict[str, str]] = answer.body[f"{name}s"] if answer else []
        if name not in {*site.names, *found} and listed:
            found[name] = listed[0]["id"]
    return Site.beside(site, **found)
