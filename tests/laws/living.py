"""Lives a history: users, crashes and an unreliable network, as a seed has it.

A seed says what users do, and how likely what befalls them. What happens at once takes its own
order, and ids differ, so a seed that fails may hold when it is lived again by the command that the
failure names: therefore the failure tells all that was asked for, and how each operation ended.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from mooring.agent.simulated import SimulatedHypervisor
from mooring.agent.world import Written
from mooring.saga import laws
from mooring.saga.laws import Crash
from tests.laws import basics, diary, history
from tests.laws.counted import find_uncounted
from tests.laws.sites import Call, Scenario, Site, Trial
from tests.laws.trials import Trials

ACTS, AT_ONCE, CRASHES, RESTS = 36, 3, 0.12, 0.4
Choose = Callable[[random.Random, Site], Coroutine[Any, Any, Any]]
"""Says what some user does next."""


class Weather:
    """A network that now and then loses a call, or its answer, or delivers it twice or late."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.is_fair = False
        self.held: list[Callable[[], Any]] = []
        self.dead: set[str] = set()
        """Hosts without power, which answer nothing."""
        self.called_active: set[str] = set()
        """Servers in ERROR that an administrator called active, whether they had a guest or not."""

    async def pass_on(self, call: Call) -> Any:
        """Deliver a call, or not."""
        if call.at in self.dead:
            raise call.lost()
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


async def play(trials: Trials, scene: Scenario, choose: Choose, test: str) -> None:
    """Let a seed's users, crashes and weather do what they will, and hold what comes of it.

    `test` is the file and the function that play it.
    """
    chance = random.Random(scene.name)
    replay = f"pytest 'tests/laws/{test}[{scene.name}]' --every"
    async with trials.begin(scene) as trial:
        history.watch(trial.cloud.settings)
        try:
            await live_through(trial, chance, choose, replay)
        except Exception as error:
            error.add_note(await diary.tell(trial))
            raise


async def live_through(trial: Trial, chance: random.Random, choose: Choose, replay: str) -> None:
    """Live a history to its end, and hold what came of it."""
    weather = Weather(chance)
    trial.site.meddler = weather
    await live(trial, chance, choose)
    weather.is_fair = True
    weather.dead.clear()
    await recover(trial)
    for late in weather.held:
        await trial.cloud.until_answered(asyncio.create_task(deliver(late)))
    await recover(trial)
    for server_id in weather.called_active:
        await basics.reboot_hard(Site.beside(trial.site, server=server_id))
    await recover(trial)
    await laws.require_peace(trial, replay)
    settings = trial.cloud.settings
    ledger = find_ledger(trial) + history.find_copied(settings)
    found = history.find_forbidden(settings) + history.find_overlaps(ledger)
    found += await find_uncounted(trial.site)
    assert not found, f"{replay}: {found}"


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
            diary.note_death(trial)
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
