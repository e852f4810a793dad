"""Law *histories*: users, crashes and an unreliable network, at random from a seed.

A seed that fails is replayed by the command that the failure names.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mooring.agent.simulated import SimulatedHypervisor
from mooring.saga import laws
from mooring.saga.laws import Crash
from tests.laws import history, scenarios
from tests.laws.sites import Call, Scenario, Site, Trial
from tests.laws.trials import Trials

pytestmark = pytest.mark.anyio
SEEDS = [f"seed-{number}" for number in range(60)]
ACTS, AT_ONCE, CRASHES = 24, 3, 0.12
SERVERS, VOLUMES = ("server", "other"), ("volume", "spare", "third")


class Weather:
    """A network that now and then loses a call, or its answer, or delivers it twice or late."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.is_fair = False
        self.held: list[Callable[[], Any]] = []

    async def pass_on(self, call: Call) -> Any:
        """Deliver a call, or not."""
        luck = 1.0 if self.is_fair else self.chance.random()
        if luck < 0.02:
            raise call.lost()
        if luck < 0.04:
            await call.forward()
            raise call.lost()
        if luck < 0.05:
            self.held.append(call.forward)
            raise call.lost()
        if luck < 0.06:
            await call.forward()
        return await call.forward()


async def busy_place(site: Site) -> None:
    """Two servers and three volumes, one of them attached."""
    await scenarios.a_server_with_volume(site)
    mine = site.names["server"]
    await scenarios.a_server(site)
    site.names["other"], site.names["server"] = site.names["server"], mine
    for name in VOLUMES[1:]:
        await scenarios.a_volume(site, name)


def choose_act(chance: random.Random, site: Site) -> Coroutine[Any, Any, Any]:
    """Return what some user does next."""
    volume, server = chance.choice(VOLUMES), site.names[chance.choice(SERVERS)]
    there = Site.beside(site, server=server)
    acts: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        lambda: scenarios.attach(there, volume),
        lambda: scenarios.attach(there, volume),
        lambda: scenarios.detach(there, volume),
        lambda: scenarios.detach(there, volume),
        lambda: scenarios.stop(there),
        lambda: scenarios.start(there),
        lambda: scenarios.reboot(there),
        lambda: scenarios.reboot_hard(there),
        lambda: scenarios.create_server(there),
        lambda: scenarios.boot_from_new_volumes(there),
        lambda: scenarios.create_volume(there),
    ]
    rare: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        lambda: scenarios.delete_server(there),
        lambda: scenarios.delete_volume(there, volume),
        lambda: scenarios.act_on_volume(there, "os-force_delete", {}, "admin", name=volume),
    ]
    return chance.choice(rare if chance.random() < 0.08 else acts)()


@pytest.mark.cases(SEEDS, 2)
async def test_nothing_forbidden_ever_happens(trials: Trials, case: str) -> None:
    chance = random.Random(case)
    scene = Scenario(case, scenarios.SCENARIOS[0].saga, busy_place, scenarios.nothing)
    replay = f"pytest tests/laws/test_random_histories.py --every -k '{case}]'"
    async with trials.begin(scene) as trial:
        state_dir = trial.cloud.settings.state_path
        history.watch(state_dir)
        weather = Weather(chance)
        trial.site.meddler = weather
        await live(trial, chance)
        weather.is_fair = True
        await recover(trial)
        for late in weather.held:
            await trial.cloud.until_answered(asyncio.create_task(deliver(late)))
        await recover(trial)
        await laws.require_peace(trial, replay)
        assert history.find_forbidden(state_dir) == [], replay
        hypervisor = trial.cloud.agents["h1"].agent.hypervisor
        assert isinstance(hypervisor, SimulatedHypervisor)
        assert history.find_overlaps(hypervisor.ledger()) == [], replay


async def live(trial: Trial, chance: random.Random) -> None:
    """Let users act, a few at once, while processes die now and then."""
    acting: set[asyncio.Task[Any]] = set()
    for _ in range(ACTS):
        acting.add(asyncio.create_task(choose_act(chance, trial.site)))
        if chance.random() < CRASHES:
            points = [point for point in trial.probe.passed if not point.startswith("store.")]
            if points:
                trial.probe.arm(chance.choice(points), Crash)
        if len(acting) >= AT_ONCE or chance.random() < 0.5:
            _, acting = await asyncio.wait(acting, return_when=asyncio.FIRST_COMPLETED)
        if trial.probe.crashed:
            await asyncio.gather(*acting, return_exceptions=True)
            acting = set()
            trial.takes_hosts_along = chance.random() < 0.3
            await trial.restart()
    trial.probe.disarm()
    await asyncio.gather(*acting, return_exceptions=True)


async def recover(trial: Trial) -> None:
    """Restart what died, and let everything come to rest, with the loops of every service."""
    trial.probe.disarm()
    if trial.probe.crashed:
        await trial.restart()
    await trial.settle()
    trial.cloud.clock.advance(1000.0)
    await trial.cloud.look_around()
    await trial.settle()


async def deliver(late: Callable[[], Any]) -> None:
    """Deliver what was held back; its answer, or refusal, goes nowhere."""
    await asyncio.gather(late(), return_exceptions=True)
