"""Law *full disk*: a database that takes nothing for a moment decides nothing.

At each commit of any service, in turn, the disk below the database is full, or another process
holds its file; a moment later it is not. The request may be answered that it cannot be done now,
and then nothing was; what was accepted ends as it does undisturbed. Which statement met with it
makes no difference: SQLite takes back the whole transaction.

So it is with agents' journals: of a call whose journal has no room nothing is said but that it
is to be made again, whether the host did it or not.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from msgspec import Struct

from mooring.saga import laws
from tests.fence.journals import Journals, watching
from tests.laws.scenarios import SCENARIOS
from tests.laws.sites import Scenario, Trial
from tests.laws.trials import Trials

pytestmark = pytest.mark.anyio
PARTS = 6
ANSWERS = {200, 201, 202, 204, 503, 507}
TROUBLES = {"full": sqlite3.SQLITE_FULL, "locked": sqlite3.SQLITE_BUSY}
_counts: dict[str, dict[str, int]] = {}


class Share(Struct, frozen=True):
    """A scenario, what befalls it, and at which share of its commits."""

    scenario: Scenario
    trouble: str
    part: int

    def __str__(self) -> str:
        return f"{self.scenario.name}-{self.trouble}-{self.part}"


SHARES = [
    Share(scenario, trouble, part)
    for scenario in SCENARIOS
    for trouble in TROUBLES
    for part in range(PARTS)
]


@pytest.fixture(scope="module")
def journals() -> Iterator[Journals]:
    with watching() as found:
        yield found


@pytest.mark.cases(SHARES, 2)
async def test_a_database_that_takes_nothing_for_a_moment_decides_nothing(
    trials: Trials, journals: Journals, case: Share
) -> None:
    outcome = await trials.learn(case.scenario)
    for point, nth in (await commits_of(trials, journals, case.scenario))[case.part :: PARTS]:
        async with trials.begin(case.scenario) as trial:
            trial.probe.arm(point, lambda: make(case.trouble), nth=nth)
            await run(trial, journals)
            trial.probe.disarm()
            when = f"{case.trouble} at {point} {nth}"
            assert trial.probe.fired or nth > 1, f"{when}: it was never there"
            await laws.require_peace(trial, when)
            await laws.require_end(trial, case.scenario.saga, outcome, when)
            assert await trial.ending(case.scenario.saga) in {"done", ""}, when
            assert trial.answer is None or trial.answer.status in ANSWERS, when


async def run(trial: Trial, journals: Journals) -> None:
    """Let a scenario come to its end, and pass a point at each commit of a journal."""
    journals.before_commit = lambda host: trial.probe.at(f"journal.{host}/commit/before")
    await trial.act()
    await trial.settle()
    journals.before_commit = None


async def commits_of(
    trials: Trials, journals: Journals, scenario: Scenario
) -> list[tuple[str, int]]:
    """Return the commits of a scenario: of which service or host, and which one of that one's."""
    if scenario.name not in _counts:
        async with trials.begin(scenario) as trial:
            await run(trial, journals)
            commits = [point for point in trial.probe.passed if point.endswith("/commit/before")]
        _counts[scenario.name] = {point: commits.count(point) for point in sorted(set(commits))}
    counts = _counts[scenario.name]
    return [(point, nth) for point, count in counts.items() for nth in range(1, count + 1)]


def make(trouble: str) -> sqlite3.OperationalError:
    """Return what SQLite says of it."""
    error = sqlite3.OperationalError("A law says so.")
    error.sqlite_errorcode, error.sqlite_errorname = TROUBLES[trouble], f"SQLITE_{trouble.upper()}"
    return error
