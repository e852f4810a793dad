"""Law *n-th call*: each call between services and to hosts, lost, unanswered, repeated or late.

And *two engines*: a control plane sleeps in a call, another takes over, and the first goes on.
"""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Struct
from msgspec.structs import replace

from mooring.compute.app import SERVICE
from mooring.compute.images.sagas.picture_volumes import PICTURE_VOLUMES
from mooring.errors import Conflict
from mooring.saga import laws
from mooring.volume.backups.sagas.back_up_in_use import BACK_UP_IN_USE
from mooring.volume.backups.sagas.back_up_snapshot import BACK_UP_SNAPSHOT
from mooring.volume.snapshots.sagas.turns import AWAIT_TURN
from tests.laws.basics import create_elsewhere
from tests.laws.meddlers import Meddling
from tests.laws.scenarios import SCENARIOS
from tests.laws.sites import BY_OLD_CALLS, Scenario, Trial, without_operations
from tests.laws.test_steps import BY_NAME, last_way_back
from tests.laws.trials import Trials

pytestmark = pytest.mark.anyio
PARTS = 4
PREEMPTING = {
    *("reset extending", "reset a deleted server", "reset a detaching server"),
    *("insist on reboot", "insist on stop"),
    *("insist on reboot with a share", "insist on stop with a share"),
}


class Calls(Struct, frozen=True):
    """Every `PARTS`-th call of a scenario, and what befalls it."""

    scenario: Scenario
    kind: str
    part: int

    def __str__(self) -> str:
        return f"{self.scenario.name}-{self.kind}-{self.part}"


def cases_of(*kinds: str) -> list[Calls]:
    return [
        Calls(scenario, kind, part)
        for scenario in SCENARIOS
        for kind in kinds
        for part in range(PARTS)
        # The hour that ends a token's life also ends the wait of whoever pre-empts.
        if kind != "expired" or scenario.name not in PREEMPTING
    ]


async def count_calls(trials: Trials, scenario: Scenario) -> int:
    """Return how many calls a scenario makes, once it is known what it comes to."""
    await trials.learn(scenario)
    return await trials.count_calls(scenario)


def plainly(outcome: laws.Outcome) -> laws.Outcome:
    """Return the ends as they look where the volume service knows no operations."""
    before, after = without_operations(outcome.before), without_operations(outcome.after)
    return laws.Outcome(before, after, outcome.points)


def keep_hosts_up(trial: Trial) -> None:
    """Let no host be taken for down when hours pass, in which nobody has looked at any."""
    compute = trial.cloud.cloud[SERVICE]
    compute.settings = replace(compute.settings, host_down_s=1e6)


async def hold(trials: Trials, case: Calls, trial: Trial, call: Meddling) -> None:
    """Hold a trial to the law, once all is over: who looks on is not meddled with."""
    trial.site.meddler = None
    outcome = await trials.learn(case.scenario)
    outcome = plainly(outcome) if trial.site.is_plain else outcome
    when = f"{call.name} {call.kind}"
    await laws.require_peace(trial, when)
    if "failed" in [await trial.ending(BY_NAME[name]) for name in case.scenario.outlives]:
        return  # The bad end that a neighbour declares is its own.
    await laws.require_end(trial, case.scenario.saga, outcome, when)


@pytest.mark.cases(cases_of("lost", "unanswered", "twice", "late", "expired"), 5)
async def test_a_call_may_fail_in_every_way(trials: Trials, case: Calls) -> None:
    for nth in range(1 + case.part, 1 + await count_calls(trials, case.scenario), PARTS):
        async with trials.begin(case.scenario) as trial:
            call = Meddling(trial.cloud, case.kind, nth)
            trial.site.meddler = call
            keep_hosts_up(trial)
            await laws.live_through(trial)
            await hold(trials, case, trial, call)
            if call.late is not None:
                await hold_still(trial, call)


async def hold_still(trial: Trial, call: Meddling) -> None:
    """Deliver the late call: nothing may change."""
    before = await trial.snapshot()
    await trial.cloud.until_done(call.deliver_late())
    await trial.settle()
    when = f"{call.name} delivered after the end"
    await laws.require_peace(trial, when)
    assert await trial.snapshot() == before, when


@pytest.mark.cases(cases_of("late"), 3)
async def test_a_call_behind_its_own_undo_has_no_effect(trials: Trials, case: Calls) -> None:
    outcome = await trials.learn(case.scenario)
    failing = last_way_back(case.scenario.saga, outcome.points)
    if not failing:
        return
    for nth in range(1 + case.part, 1 + await count_calls(trials, case.scenario), PARTS):
        async with trials.begin(case.scenario) as trial:
            call = Meddling(trial.cloud, case.kind, nth)
            trial.site.meddler = call
            trial.probe.arm(failing, lambda: Conflict("A law let this step fail."))
            await laws.live_through(trial)
            if call.late is not None:
                await hold_still(trial, call)


def may_be_taken_back(case: Calls) -> bool:
    """Whether no saga of the scenario is past its pivot when it calls.

    Behind a pivot a call is made until it is answered, and so is one that takes something back, as
    on the way to another host. What goes on with a snapshot's deletion, or its backup, has a pivot,
    and so has what takes the snapshots that some need.
    """
    saga = case.scenario.saga
    goes_on = saga in {AWAIT_TURN, BACK_UP_SNAPSHOT, BACK_UP_IN_USE, PICTURE_VOLUMES}
    return not saga.pivot and not goes_on and case.scenario.act is not create_elsewhere


@pytest.mark.cases([case for case in cases_of("never") if may_be_taken_back(case)], 3)
async def test_a_call_that_came_only_after_its_undo_has_no_effect(
    trials: Trials, case: Calls
) -> None:
    for nth in range(1 + case.part, 1 + await count_calls(trials, case.scenario), PARTS):
        async with trials.begin(case.scenario) as trial:
            call = Meddling(trial.cloud, case.kind, nth)
            trial.site.meddler = call
            keep_hosts_up(trial)
            await laws.live_through(trial)
            if case.scenario.name.endswith(BY_OLD_CALLS) and " (GET " in call.name:
                continue  # What is to be taken back is read from the volume, until it is told.
            await hold(trials, case, trial, call)
            await hold_still(trial, call)


async def look_again(trial: Trial) -> None:
    """See what the sleeper did late to the other's sagas, as who shares a database does."""
    for engine in trial.cloud.cloud.engines.values():
        await engine.schedule.share(renew=False)
    await trial.settle()


@pytest.mark.cases(cases_of("held_before", "held_after"), 3)
async def test_a_sleeper_changes_nothing_when_it_goes_on(trials: Trials, case: Calls) -> None:
    for nth in range(1 + case.part, 1 + await count_calls(trials, case.scenario), PARTS):
        async with trials.begin(case.scenario) as trial:
            call = Meddling(trial.cloud, case.kind, nth)
            trial.site.meddler = call
            acting = asyncio.create_task(trial.act())
            if not await trial.cloud.until(call.held, acting):
                continue
            # Whoever sleeps begins nothing any more: no saga that only he would ever advance.
            await trial.cloud.pass_time(0.0)
            await trial.cloud.take_over()
            await trial.settle()
            finished = await trial.snapshot()
            started = await trial.ending(case.scenario.saga)
            trial.cloud.wake()
            call.release()
            await acting
            await trial.settle()
            await look_again(trial)
            await hold(trials, case, trial, call)
            if started:
                assert await trial.snapshot() == finished, call.calls[nth - 1]
