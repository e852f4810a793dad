"""Law *plain Cinder*: compute's sagas beside a volume service that knows no operations.

The header is stripped and `DELETE /mooring/operations` answered 404: compute has to find its own
work by what was there before.
"""

from __future__ import annotations

import pytest

from mooring.saga import laws
from mooring.saga.laws import Crash
from tests.laws.meddlers import Meddling
from tests.laws.scenarios import SCENARIOS
from tests.laws.test_calls import Calls, count_calls, hold, plainly
from tests.laws.test_steps import FAILING, FORWARD, Point, passing
from tests.laws.trials import Trials

pytestmark = pytest.mark.anyio
PARTS = 3
OURS = [scenario for scenario in SCENARIOS if scenario.saga.name.startswith("compute.")]
CALLS = [
    Calls(scenario, kind, part)
    for scenario in OURS
    for kind in ("lost", "unanswered")
    for part in range(PARTS)
]


def ours(points: list[Point]) -> list[Point]:
    return [point for point in points if point.name.startswith("compute.")]


@pytest.mark.cases(ours(FAILING), 2)
async def test_failing_needs_no_operations(trials: Trials, case: Point) -> None:
    async for scenario, outcome in passing(trials, case):
        async with trials.begin(scenario) as trial:
            trial.site.is_plain = True
            await laws.hold_failure(trial, case.saga, case.name, plainly(outcome))


@pytest.mark.cases(ours(FORWARD), 2)
async def test_crashing_needs_no_operations(trials: Trials, case: Point) -> None:
    async for scenario, outcome in passing(trials, case):
        async with trials.begin(scenario) as trial:
            trial.site.is_plain = True
            trial.probe.arm(case.name, Crash)
            await laws.live_through(trial)
            await laws.require_peace(trial, f"crashing at {case}")
            await laws.require_end(trial, case.saga, plainly(outcome), f"crashing at {case}")


@pytest.mark.cases(CALLS, 2)
async def test_lost_calls_need_no_operations(trials: Trials, case: Calls) -> None:
    for nth in range(1 + case.part, 1 + await count_calls(trials, case.scenario), PARTS):
        async with trials.begin(case.scenario) as trial:
            call = Meddling(trial.cloud, case.kind, nth)
            trial.site.meddler, trial.site.is_plain = call, True
            await laws.live_through(trial)
            if len(call.calls) >= nth:
                await hold(trials, case, trial, call)
