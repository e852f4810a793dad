"""Law *histories*: users, crashes and an unreliable network, at random from a seed.

A seed that fails is replayed by the command that the failure names.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.agent.simulated import SimulatedHypervisor
from mooring.agent.world import Written
from mooring.saga import laws
from mooring.saga.laws import Crash
from tests.laws import history, move_scenarios, scenarios
from tests.laws.sites import COMPUTE, FOURTH, THIRD, Call, Scenario, Site, Trial
from tests.laws.trials import Trials

pytestmark = pytest.mark.anyio
SEEDS = [f"seed-{number}" for number in range(60)]
SEEDS_OF_MOVES = [f"seed-{number}" for number in range(2000)]
ACTS, AT_ONCE, CRASHES, RESTS = 36, 3, 0.12, 0.4
SERVERS, VOLUMES = ("server", "other"), ("volume", "spare", "third")
ROOTS = ("root", "other root")
Act = Callable[[], Coroutine[Any, Any, Any]]


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


async def roomy_place(site: Site) -> None:
    """Two servers that boot from volumes, three volumes of which one is attached, three hosts."""
    for name, root in zip(SERVERS, ROOTS, strict=True):
        await scenarios.a_volume(site, root, imageRef=site.names["image"])
        disk = scenarios.disk("volume", site.names[root], boot_index=0)
        made = await site.get(*scenarios.new_server(site, disk))
        site.names[name] = made["server"]["id"]
    for name in VOLUMES:
        await scenarios.a_volume(site, name)
    await scenarios.attach(site)


def choose_act(chance: random.Random, site: Site) -> Coroutine[Any, Any, Any]:
    """Return what some user does next."""
    there, usual, rare = _acts(chance, site)
    usual += [
        lambda: scenarios.create_server(there),
        lambda: scenarios.boot_from_new_volumes(there),
        lambda: scenarios.create_volume(there),
    ]
    return chance.choice(rare if chance.random() < 0.08 else usual)()


def choose_move(chance: random.Random, site: Site) -> Coroutine[Any, Any, Any]:
    """Return what some user or administrator does next where servers can move."""
    there, usual, rare = _acts(chance, site)
    host = chance.choice([None, "h1", THIRD, FOURTH])
    size = chance.choice(["42", "84"])
    live = {"host": host, "block_migration": False}
    act = partial(_act, there)
    moves: list[Act] = [
        *[lambda: act("os-migrateLive", live, "admin")] * 2,
        *[lambda: act("migrate", {"host": host}, "admin")] * 2,
        lambda: act("resize", {"flavorRef": size}),
        *[lambda: act("confirmResize")] * 3,
        *[lambda: act("revertResize")] * 3,
    ]
    rare.append(lambda: act("os-resetState", {"state": "active"}, "admin"))
    chosen = rare if chance.random() < 0.06 else chance.choice([moves, usual])
    return chance.choice(chosen)()


async def _act(site: Site, action: str, value: Any = None, user: str = "demo") -> Any:
    path = f"{COMPUTE}/servers/{{server}}/action"
    return await site.ask("POST", path, {action: value}, user=user, version="2.90")


def _acts(chance: random.Random, site: Site) -> tuple[Site, list[Act], list[Act]]:
    """Return the site as seen by who acts, what users do often, and what they do seldom."""
    volume, server = chance.choice(VOLUMES), site.names[chance.choice(SERVERS)]
    there = Site.beside(site, server=server)
    usual: list[Act] = [
        lambda: scenarios.attach(there, volume),
        lambda: scenarios.attach(there, volume),
        lambda: scenarios.detach(there, volume),
        lambda: scenarios.detach(there, volume),
        lambda: scenarios.stop(there),
        lambda: scenarios.start(there),
        lambda: scenarios.reboot(there),
        lambda: scenarios.reboot_hard(there),
    ]
    rare: list[Act] = [
        lambda: scenarios.delete_server(there),
        lambda: scenarios.delete_volume(there, volume),
        lambda: scenarios.act_on_volume(there, "os-force_delete", {}, "admin", name=volume),
    ]
    return there, usual, rare


Choose = Callable[[random.Random, Site], Coroutine[Any, Any, Any]]


@pytest.mark.cases(SEEDS, 2)
async def test_nothing_forbidden_ever_happens(trials: Trials, case: str) -> None:
    scene = Scenario(case, scenarios.SCENARIOS[0].saga, busy_place, scenarios.nothing)
    await play(trials, scene, choose_act, "test_nothing_forbidden_ever_happens")


@pytest.mark.soak
@pytest.mark.cases(SEEDS_OF_MOVES, 12)
async def test_nothing_forbidden_happens_where_servers_move(trials: Trials, case: str) -> None:
    saga, hosts = move_scenarios.MOVES[0].saga, (THIRD, FOURTH)
    scene = Scenario(case, saga, roomy_place, scenarios.nothing, hosts=hosts)
    await play(trials, scene, choose_move, "test_nothing_forbidden_happens_where_servers_move")


async def play(trials: Trials, scene: Scenario, choose: Choose, test: str) -> None:
    """Let a seed's users, crashes and weather do what they will, and hold what comes of it."""
    chance = random.Random(scene.name)
    replay = f"pytest 'tests/laws/test_random_histories.py::{test}[{scene.name}]' --every"
    async with trials.begin(scene) as trial:
        state_dir = trial.cloud.settings.state_path
        history.watch(state_dir)
        weather = Weather(chance)
        trial.site.meddler = weather
        await live(trial, chance, choose)
        weather.is_fair = True
        await recover(trial)
        for late in weather.held:
            await trial.cloud.until_answered(asyncio.create_task(deliver(late)))
        await recover(trial)
        await laws.require_peace(trial, replay)
        assert history.find_forbidden(state_dir) == [], replay
        assert history.find_overlaps(find_ledger(trial)) == [], replay


def find_ledger(trial: Trial) -> list[Written]:
    """Return which guest of which host could write to which volume, and when."""
    found: list[Written] = []
    for name, running in trial.cloud.agents.items():
        if running.agent.runs_guests:
            hypervisor = running.agent.hypervisor
            assert isinstance(hypervisor, SimulatedHypervisor)
            spans = hypervisor.ledger()
            found += [replace(span, writer=f"{span.writer} on {name}") for span in spans]
    return found


async def live(trial: Trial, chance: random.Random, choose: Choose) -> None:
    """Let users act, a few at once, while processes die now and then."""
    acting: set[asyncio.Task[Any]] = set()
    for _ in range(ACTS):
        acting.add(asyncio.create_task(choose(chance, trial.site)))
        if chance.random() < CRASHES:
            points = [point for point in trial.probe.passed if not point.startswith("store.")]
            if points:
                trial.probe.arm(chance.choice(points), Crash)
        if len(acting) >= AT_ONCE or chance.random() < 0.5:
            _, acting = await asyncio.wait(acting, return_when=asyncio.FIRST_COMPLETED)
        if chance.random() < RESTS:
            with suppress(Crash):  # restarted below
                await trial.settle()
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
