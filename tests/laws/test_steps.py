"""Laws *fail*, *crash* and *crash in undo*: every saga, failed and killed at each of its points.

In each test a case is a point of a saga; it is tried in every scenario that passes the point.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from msgspec import Struct

from mooring.errors import Conflict, Unavailable
from mooring.saga import laws
from mooring.saga.define import Each, Saga, Step
from mooring.saga.laws import Crash, Outcome
from mooring.services import SERVICES
from tests.laws.scenarios import SCENARIOS
from tests.laws.sites import Scenario, Trial
from tests.laws.trials import Trials

pytestmark = pytest.mark.anyio
SAGAS = laws.sagas_of(*(each.name for each in SERVICES))
BY_NAME = {saga.name: saga for saga in SAGAS}


class Point(Struct, frozen=True):
    """A point of a saga. Shown in the id of a test."""

    saga: Saga[Any]
    name: str

    def __str__(self) -> str:
        return self.name


POINTS = [Point(saga, name) for saga in SAGAS for name in laws.points_of(saga)]
FORWARD = [point for point in POINTS if "/forward/" in point.name]
FAILING = [point for point in FORWARD if not point.name.endswith("/saved")]
BACK = [point for point in POINTS if "/back/" in point.name]
LEAVING = [point for point in POINTS if "/leaving/" in point.name]
REFUSED = [point for point in BACK if point.saga.undo_ends and not point.name.endswith("/saved")]
BAD_END = [point for point in POINTS if "/failing/" in point.name]


def steps_of(saga: Saga[Any]) -> list[str]:
    """Return the names of a saga's steps, those inside an Each in its place."""
    parts = [part.steps if isinstance(part, Each) else (part,) for part in saga.steps]
    return [step.name for steps in parts for step in steps if isinstance(step, Step)]


def last_way_back(saga: Saga[Any], passed: tuple[str, ...]) -> str:
    """Return the last point of a scenario from which the saga still goes back, or empty."""
    steps = steps_of(saga)
    forward_from = saga.kept_after or saga.pivot
    steps = steps[: steps.index(forward_from)] if forward_from else steps
    after = [f"{saga.name}/{step}/forward/after" for step in steps]
    return next((point for point in reversed(after) if point in passed), "")


def last_way_forward(saga: Saga[Any], passed: tuple[str, ...]) -> str:
    """Return the last point of a scenario behind the pivot: from there a saga ends badly."""
    steps = steps_of(saga)
    after = [f"{saga.name}/{step}/forward/after" for step in steps[steps.index(saga.pivot) :]]
    return [point for point in after if point in passed][-1]


def first_undo(saga: Saga[Any], failing: str) -> str:
    """Return where a saga that fails at a point begins its first undo; empty when it has none."""
    steps = steps_of(saga)
    steps = steps[: steps.index(failing.split("/")[1]) + 1] if failing else []
    undone = [f"{saga.name}/{step}/back/before" for step in reversed(steps)]
    return next((point for point in undone if point in laws.points_of(saga)), "")


def scenarios_of(trials: Trials, point: Point) -> list[Scenario]:
    """Return the scenarios of a point's saga; those come first that the commit chooses."""
    found = [scenario for scenario in SCENARIOS if scenario.saga is point.saga]
    return trials.shuffle(point.name, found)


async def passing(trials: Trials, point: Point) -> AsyncIterator[tuple[Scenario, Outcome]]:
    """Yield the scenarios that pass a point. Fails when there is none: no law would cover it.

    Of a sample only so many as `Trials.most` says.
    """
    passed = 0
    for scenario in scenarios_of(trials, point):
        outcome = await trials.learn(scenario)
        if point.name in outcome.points:
            passed += 1
            yield scenario, outcome
        if trials.has_enough(passed):
            return
    assert passed, f"no scenario passes {point}"


async def hold(
    trials: Trials, point: Point, law: Callable[[Trial, Outcome], Awaitable[None]]
) -> None:
    """Hold a saga to a law in its scenarios, of which some must pass the point; see `passing`."""
    passed = 0
    for scenario in scenarios_of(trials, point):
        outcome = await trials.learn(scenario)
        async with trials.begin(scenario) as trial:
            await law(trial, outcome)
            passed += point.name in trial.probe.passed
        if trials.has_enough(passed):
            return
    assert passed, f"no scenario passes {point}"


async def crash(trials: Trials, point: Point) -> None:
    """Hold a saga to the law *crash* at a point, in every scenario that passes it."""
    async for scenario, outcome in passing(trials, point):
        async with trials.begin(scenario) as trial:
            await laws.hold_crash(trial, point.saga, point.name, outcome)


async def crash_unwinding(trials: Trials, point: Point) -> None:
    """Hold a saga to the law *crash in undo* likewise, from where it last goes back."""

    async def law(trial: Trial, outcome: Outcome) -> None:
        failing = last_way_back(point.saga, outcome.points)
        if failing:
            await laws.hold_crash_in_undo(trial, point.saga, failing, point.name, outcome)

    await hold(trials, point, law)


@pytest.mark.cases(FAILING, 5)
async def test_failing_anywhere_leaves_no_trace_or_a_declared_end(
    trials: Trials, case: Point
) -> None:
    async for scenario, outcome in passing(trials, case):
        async with trials.begin(scenario) as trial:
            await laws.hold_failure(trial, case.saga, case.name, outcome)


@pytest.mark.cases(FAILING, 3)
async def test_trouble_that_passes_stops_nothing(trials: Trials, case: Point) -> None:
    async for scenario, outcome in passing(trials, case):
        async with trials.begin(scenario) as trial:
            trial.probe.arm(case.name, lambda: Unavailable("A law kept this step waiting."))
            await laws.live_through(trial)
            await laws.require_peace(trial, f"kept waiting at {case}")
            await laws.require_end(trial, case.saga, outcome, f"kept waiting at {case}")
            assert await trial.ending(case.saga) in {"done", ""}


@pytest.mark.cases(FORWARD, 6)
async def test_crashing_anywhere_ends_after_the_restart(trials: Trials, case: Point) -> None:
    await crash(trials, case)


@pytest.mark.cases(FORWARD, 3)
async def test_hosts_may_die_with_the_control_plane(trials: Trials, case: Point) -> None:
    async for scenario, outcome in passing(trials, case):
        async with trials.begin(scenario) as trial:
            trial.takes_hosts_along = True
            await laws.hold_crash(trial, case.saga, case.name, outcome)


@pytest.mark.cases(FORWARD, 3)
async def test_what_dies_may_stay_away_for_hours(trials: Trials, case: Point) -> None:
    async for scenario, outcome in passing(trials, case):
        async with trials.begin(scenario) as trial:
            trial.down_s = 7200.0
            await laws.hold_crash(trial, case.saga, case.name, outcome)


@pytest.mark.cases(BACK, 3)
async def test_crashing_while_unwinding_leaves_no_trace(trials: Trials, case: Point) -> None:
    await crash_unwinding(trials, case)


@pytest.mark.cases(BACK, 3)
async def test_an_undo_that_fails_is_tried_again(trials: Trials, case: Point) -> None:
    if case.name.endswith("/saved"):
        return

    async def law(trial: Trial, outcome: Outcome) -> None:
        failing = last_way_back(case.saga, outcome.points)
        # Where a refusal is for good, only what may pass is tried again.
        kind = Unavailable if case.saga.undo_ends else Conflict
        trial.probe.arm(case.name, lambda: kind("A law let this undo fail."))
        await laws.hold_failure(trial, case.saga, failing, outcome)

    await hold(trials, case, law)


@pytest.mark.cases(REFUSED, 3)
async def test_an_undo_refused_for_good_leads_to_its_declared_end(
    trials: Trials, case: Point
) -> None:
    found = False

    async def law(trial: Trial, outcome: Outcome) -> None:
        nonlocal found
        failing = last_way_back(case.saga, outcome.points)
        found |= await laws.hold_refusal(trial, case.saga, failing, case.name)

    await hold(trials, case, law)
    assert found, f"no scenario passes {case}"


@pytest.mark.cases(LEAVING, 3)
async def test_crashing_in_the_end_of_an_undo_still_reaches_it(trials: Trials, case: Point) -> None:
    async def law(trial: Trial, outcome: Outcome) -> None:
        failing = last_way_back(case.saga, outcome.points)
        refused = first_undo(case.saga, failing)
        if failing:
            await laws.hold_refusal(trial, case.saga, failing, refused, crash=case.name)

    await hold(trials, case, law)


@pytest.mark.cases(BAD_END, 3)
async def test_crashing_in_a_bad_end_still_reaches_it(trials: Trials, case: Point) -> None:
    async def law(trial: Trial, outcome: Outcome) -> None:
        failing = last_way_forward(case.saga, outcome.points)
        await laws.hold_crash_in_undo(trial, case.saga, failing, case.name, outcome)

    await hold(trials, case, law)


class Neighbour(Struct, frozen=True):
    """A scenario, with a share of the points that other sagas pass in it."""

    scenario: Scenario
    part: int

    def __str__(self) -> str:
        return f"{self.scenario.name}-{self.part}"


NEIGHBOURS = [Neighbour(scenario, part) for scenario in SCENARIOS for part in range(4)]


@pytest.mark.cases(NEIGHBOURS, 2)
@pytest.mark.parametrize("error", [Conflict, Unavailable, Crash], ids=lambda kind: kind.__name__)
async def test_what_befalls_a_neighbour_s_saga_befalls_its_caller_too(
    trials: Trials, case: Neighbour, error: type[BaseException]
) -> None:
    outcome = await trials.learn(case.scenario)
    own = f"{case.scenario.saga.name}/"
    others = [point for point in outcome.points if is_of_saga(point) and own not in point]
    if error is Conflict:
        # What another service will not have for good is owed to it no more: not a law's to say.
        others = [point for point in others if "/owing/" not in point]
    for point in others[case.part :: 4]:
        async with trials.begin(case.scenario) as trial:
            await befall(trial, outcome, point, error)


async def befall(trial: Trial, outcome: Outcome, point: str, error: type[BaseException]) -> None:
    """Raise at a point, and hold the scenario's saga to the law."""
    if point.endswith("/saved") and error is not Crash:
        return
    trial.probe.arm(point, lambda: error("A law let this happen."))
    await laws.live_through(trial)
    when = f"{error.__name__} at {point}"
    await laws.require_peace(trial, when)
    # An upload to the image service passes points of its own and is no saga.
    neighbour = BY_NAME.get(point.partition("/")[0])
    outlived = neighbour is not None and neighbour.name in trial.scenario.outlives
    if outlived or (neighbour is not None and await trial.ending(neighbour) == "failed"):
        # The bad end that a neighbour declares is its own. A caller that had nothing left to do
        # was not even started.
        assert await trial.ending(trial.scenario.saga) in {"done", "undone", "failed", ""}, when
        return
    await laws.require_end(trial, trial.scenario.saga, outcome, when, may_be_refused=True)


def is_of_saga(point: str) -> bool:
    """Whether a point is a saga's, not a commit's."""
    return not point.startswith("store.")


def test_every_saga_has_a_scenario() -> None:
    assert {scenario.saga.name for scenario in SCENARIOS} == {saga.name for saga in SAGAS}


@pytest.mark.cases(SAGAS, 12)
async def test_every_point_is_passed_by_some_scenario(trials: Trials, case: Saga[Any]) -> None:
    missing = laws.points_of(case)
    for scenario in SCENARIOS:
        if missing and scenario.saga is case:
            passed = await walk(trials, scenario)
            missing = [name for name in missing if name not in passed]
    assert missing == []


async def walk(trials: Trials, scenario: Scenario) -> set[str]:
    """Return the points that a scenario passes forward, and from where it last goes back or on."""
    saga, outcome = scenario.saga, await trials.learn(scenario)
    passed = set(outcome.points)
    back = last_way_back(saga, outcome.points)
    if saga.undo_ends and back:
        async with trials.begin(scenario) as trial:
            await laws.hold_refusal(trial, saga, back, first_undo(saga, back))
            passed |= set(trial.probe.passed)
    behind = last_way_forward(saga, outcome.points) if saga.failed_end else ""
    for point in (back, behind):
        if point:
            async with trials.begin(scenario) as trial:
                trial.probe.arm(point, lambda: Conflict("A law let this step fail."))
                await laws.live_through(trial)
                passed |= set(trial.probe.passed)
    return passed
