"""Law *heirs*: who takes the place of another operation leaves nobody waiting for that one.

Somebody gives an operation no answer any more, at one of its steps, undos or ends, before the work
or after it. Another operation comes that pre-empts it, and absorbs it where it cannot end by
itself. That one ends, what the absorbed one owed is paid, all agrees, and nobody waits for a
deadline. A backup that was shown to be there is there still: heirs come for a server or a volume.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from msgspec import Struct
from sqlalchemy import select

from mooring.compute.delete.sagas.delete_server import DELETE_SERVER
from mooring.compute.power.sagas.reset_state import RESET_STATE
from mooring.errors import Conflict, Unavailable
from mooring.saga import laws
from mooring.saga.define import Saga
from mooring.saga.journal import ABORT_PREEMPTED
from mooring.saga.tables import SagaRow
from mooring.volume.tables import BackupRow
from mooring.volume.volumes.sagas.delete_volume import FORCE_DELETE_VOLUME
from mooring.volume.volumes.sagas.reset_status import RESET_STATUS
from tests.laws import basics
from tests.laws.causes import Causes
from tests.laws.scenarios import SCENARIOS
from tests.laws.sites import COMPUTE, VOLUME, Do, Scenario, Site, Trial
from tests.laws.test_steps import first_undo, last_way_back, last_way_forward
from tests.laws.trials import Trials

pytestmark = pytest.mark.anyio


class Heir(Struct, frozen=True):
    """Who may come, and in whose place."""

    saga: Saga[Any]
    act: Do
    victims: tuple[Saga[Any], ...]
    kind: str = ""
    """Which of a saga's, where there are several."""


async def reset_status(site: Site) -> Any:
    """Say that a volume is free, or in use when a server has it: then its attachments stay."""
    answer = await site.ask("GET", f"{VOLUME}/volumes/{{volume}}")
    if answer is not None and answer.status < 300 and answer.body["volume"]["attachments"]:
        value = {"status": "in-use"}
        return await basics.act_on_volume(site, "os-reset_status", value, "admin")
    return await basics.reset_status(site)


make_active = partial(
    basics.act_on_server, action="os-resetState", value={"state": "active"}, user="admin"
)
ABSORBED = "absorbed"
NOTICED_S = 60.0
"""How long the cloud takes at most to see what became of a guest."""
COMPUTES, VOLUMES = tuple(laws.sagas_of("compute")), tuple(laws.sagas_of("volume"))
HEIRS = [
    Heir(DELETE_SERVER, basics.delete_server, COMPUTES),
    Heir(RESET_STATE, basics.reset_state, COMPUTES),
    Heir(RESET_STATE, make_active, COMPUTES, ".active"),
    Heir(FORCE_DELETE_VOLUME, basics.force_delete, VOLUMES),
    Heir(RESET_STATUS, reset_status, VOLUMES),
]


class Inheritance(Struct, frozen=True):
    """Who gets no answer, where, and who comes then."""

    scenario: Scenario
    point: str
    heir: Heir

    def __str__(self) -> str:
        _, _, place = self.point.partition("/")
        return f"{self.scenario.name}-{place}-{self.heir.saga.name}{self.heir.kind}"


def silences_of(saga: Saga[Any]) -> list[str]:
    """Return where a saga may get no answer: before and after each piece of outside work."""
    points = [*laws.points_of(saga), *laws.debts_of(saga)]
    outside = {point.removesuffix("/saved") for point in points if point.endswith("/saved")}
    moments = ("/before", "/after")
    return [
        point for point in points if point.endswith(moments) and point.rpartition("/")[0] in outside
    ]


CASES = [
    Inheritance(scenario, point, heir)
    for heir in HEIRS
    for scenario in SCENARIOS
    # An heir of the same kind would get no answer at the same points.
    if scenario.saga in heir.victims and scenario.saga is not heir.saga
    for point in silences_of(scenario.saga)
]


@pytest.mark.cases(CASES, 6)
async def test_who_is_absorbed_leaves_nobody_waiting(trials: Trials, case: Inheritance) -> None:
    outcome = await trials.learn(case.scenario)
    led = lead_to(case.scenario.saga, case.point, outcome.points)
    if led is None:
        return
    async with trials.begin(case.scenario) as trial:
        for point in led:
            trial.probe.arm(point, lambda: Conflict("A law let this fail."))
        await inherit(trial, case)


def lead_to(saga: Saga[Any], point: str, passed: tuple[str, ...]) -> list[str] | None:
    """Return what must be refused for a saga to come to a point; None when it does not."""
    heading = point.split("/")[2]
    if heading == "forward":
        return [] if point in passed else None
    if heading in {"back", "leaving"}:
        failing = last_way_back(saga, passed)
        refused = first_undo(saga, failing) if heading == "leaving" else ""
        return [one for one in (failing, refused) if one] if failing else None
    if heading == "failing":
        return [last_way_forward(saga, passed)]
    return []


async def inherit(trial: Trial, case: Inheritance) -> None:
    """Let one operation fall silent at a point, and another one take its place."""
    cloud, silence = trial.cloud, Silence(trial, case.point)
    causes, was_broken = Causes(cloud), await is_broken(trial.site)
    acting = asyncio.create_task(trial.act())
    try:
        if not await cloud.until(silence.fallen, acting):
            return
        find = find_server if case.heir.saga in COMPUTES else find_volume
        site = await find(trial.site)
        if site is None:
            return
        shown = await find_backups(trial)
        heir = asyncio.create_task(case.heir.act(site))
        await asyncio.gather(acting, heir)
    finally:
        acting.cancel()
        await asyncio.gather(acting, return_exceptions=True)
    asked, outcomes = await how_it_ended(trial, case.scenario.saga)
    if ABORT_PREEMPTED not in asked:
        return
    if was_broken and case.heir.act is make_active and ABSORBED not in outcomes:
        # It was in ERROR again with nothing under way: then an administrator's word is taken.
        return
    await trial.settle()
    if case.heir.act is make_active:
        # Its guest may be off for an operation that had more to do: the cloud sees that by itself.
        trial.cloud.clock.advance(NOTICED_S)
        await trial.cloud.look_around()
        await trial.settle()
    await laws.require_peace(trial, str(case))
    assert await causes.complaints() == []
    assert shown <= await find_backups(trial)


async def find_backups(trial: Trial) -> set[str]:
    """Return the ids of the backups that are available; the doctor sees whether they are whole."""
    shown = select(BackupRow.id).where(BackupRow.status == "available")
    return await trial.cloud.cloud.stores["volume"].read(
        lambda tx: set(tx.execute(shown).scalars())
    )


async def find_server(site: Site) -> Site | None:
    """Return the site with a name for the server that is there; None when there is none."""
    if "server" in site.names:
        return site
    answer = await site.ask("GET", f"{COMPUTE}/servers")
    listed: list[dict[str, str]] = answer.body["servers"] if answer else []
    return Site.beside(site, server=listed[0]["id"]) if listed else None


async def find_volume(site: Site) -> Site | None:
    """Return the site with a name for the volume, a new one if there is; None when none is."""
    answer = await site.ask("GET", f"{VOLUME}/volumes")
    listed: list[dict[str, str]] = answer.body["volumes"] if answer else []
    new = [one["id"] for one in listed if one["id"] not in site.names.values()]
    if new:
        return Site.beside(site, volume=new[0])
    return site if "volume" in site.names else None


async def how_it_ended(trial: Trial, saga: Saga[Any]) -> tuple[set[int], set[str]]:
    """Return who asked the operation to end, if anybody, as an heir may be refused at the door.

    And its outcomes, as it may have ended by itself all the same.
    """
    store = trial.cloud.cloud.stores[saga.name.partition(".")[0]]
    query = select(SagaRow.abort, SagaRow.outcome).where(SagaRow.name == saga.name)
    rows = await store.read(lambda tx: tx.execute(query).all())
    return {row.abort for row in rows}, {row.outcome for row in rows}


async def is_broken(site: Site) -> bool:
    """Whether the server that is there is in ERROR."""
    if "server" not in site.names:
        return False
    shown = await site.ask("GET", f"{COMPUTE}/servers/{{server}}")
    return shown is not None and shown.status == 200 and shown.key("server")["status"] == "ERROR"


class Silence:
    """Lets a point be Unavailable whenever it is passed."""

    def __init__(self, trial: Trial, point: str) -> None:
        self._probe, self._point = trial.probe, point
        self.fallen = asyncio.Event()
        self._arm()

    def _arm(self) -> None:
        self._probe.arm(self._point, self._fall)

    def _fall(self) -> Exception:
        self.fallen.set()
        self._arm()
        return Unavailable("A law lets nobody answer.")
