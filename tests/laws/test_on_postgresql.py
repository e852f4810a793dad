"""Laws *crash* and *crash in undo* on PostgreSQL, where who died is succeeded when its lease ends.

On SQLite (`test_steps`) the next process owns everything at once. Here it takes over what nobody
has renewed, transactions run beside each other in threads, and rows are locked one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mooring.saga import laws
from tests.laws.postgres_databases import Asked, PostgresDatabases
from tests.laws.scenarios import SCENARIOS
from tests.laws.sites import Scenario, Trial
from tests.laws.test_steps import BACK, FORWARD, Point, last_way_back, passing
from tests.laws.trials import Trials
from tests.postgres import Server

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


class PostgresTrials(Trials):
    """Trials whose clock stands while PostgreSQL owes an answer."""

    def __init__(self, databases: PostgresDatabases, asked: Asked) -> None:
        super().__init__(databases=databases)
        self._asked = asked

    async def _open(self, scenario: Scenario) -> Trial:
        trial = await super()._open(scenario)
        trial.cloud.pace.is_awaited = self._asked
        return trial


@pytest.fixture(scope="module")
def trials(postgres_server: Server) -> Iterator[PostgresTrials]:
    databases = PostgresDatabases(postgres_server)
    with pytest.MonkeyPatch.context() as patch:
        made = PostgresTrials(databases, Asked(patch))
        yield made
        made.remove()
        databases.remove_all()


@pytest.mark.cases(FORWARD, 3)
async def test_crashing_anywhere_ends_after_the_restart(
    trials: PostgresTrials, case: Point
) -> None:
    async for scenario, outcome in passing(trials, case):
        async with trials.begin(scenario) as trial:
            await laws.hold_crash(trial, case.saga, case.name, outcome)


@pytest.mark.cases(BACK, 2)
async def test_crashing_while_unwinding_leaves_no_trace(
    trials: PostgresTrials, case: Point
) -> None:
    found = False
    for scenario in SCENARIOS:
        if scenario.saga is not case.saga:
            continue
        outcome = await trials.learn(scenario)
        async with trials.begin(scenario) as trial:
            failing = last_way_back(case.saga, outcome.points)
            if failing:
                await laws.hold_crash_in_undo(trial, case.saga, failing, case.name, outcome)
                found = found or case.name in trial.probe.passed
    assert found, f"no scenario passes {case}"
