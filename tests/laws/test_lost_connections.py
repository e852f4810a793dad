"""Law *lost connections*: what PostgreSQL breaks off in the middle changes nothing.

In a trial each transaction of an operation, of whatever service, loses its connection once: at its
n-th statement, or at its commit. It is repeated, undisturbed, so one trial holds all transactions
to the law at one place of theirs, and as many trials as the longest has statements hold every
statement of every one. Of a transaction that did not commit nothing is left, whether its statement
came to the server or not, so the one is tried at odd places and the other at even ones; before and
after a commit are two things and both tried. What the statement was sent by, SQLAlchemy or
`mooring.store.prepared`, does not matter: the driver's own connection breaks.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec import Struct

from mooring.saga import laws
from mooring.saga.laws import Outcome
from tests.laws.losses import COMMIT, Loss, Losses, losing
from tests.laws.postgres_databases import PostgresTrials, be_patient
from tests.laws.scenarios import SCENARIOS
from tests.laws.sites import Scenario
from tests.postgres import Server

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]
PARTS = 8


class Share(Struct, frozen=True):
    """A scenario, and a share of the places at which its transactions lose their connections."""

    scenario: Scenario
    part: int

    def __str__(self) -> str:
        return f"{self.scenario.name}-{self.part}"


class Undisturbed(Struct, frozen=True):
    """What a scenario comes to when nothing is lost."""

    outcome: Outcome
    status: int
    longest: int
    """How many statements its longest transaction has."""


SHARES = [Share(scenario, part) for scenario in SCENARIOS for part in range(PARTS)]


class Ground:
    """Trials on PostgreSQL, and what scenarios come to there."""

    def __init__(self, server: Server, losses: Losses) -> None:
        self.losses, self.trials = losses, PostgresTrials(server)
        self._learnt: dict[str, Undisturbed] = {}

    async def learn(self, scenario: Scenario) -> Undisturbed:
        """Return what a scenario comes to, run undisturbed once."""
        if scenario.name not in self._learnt:
            async with self.trials.begin(scenario) as trial:
                self.losses.begin(None)
                outcome = await laws.learn(trial)
                assert trial.answer is not None
                assert await trial.ending(scenario.saga) == "done"
                found = Undisturbed(outcome, trial.answer.status, self.losses.longest)
            self._learnt[scenario.name] = found
        return self._learnt[scenario.name]

    async def hold(self, scenario: Scenario, loss: Loss) -> None:
        """Hold a scenario to the law at one place of its transactions."""
        undisturbed = await self.learn(scenario)
        async with self.trials.begin(scenario) as trial:
            self.losses.begin(loss)
            await trial.act()
            await trial.settle()
            lost = self.losses.lost
            self.losses.begin(None)
            when = f"losing connections {loss}"
            assert lost or loss.nth > 1, f"{when}: nothing was lost"
            await laws.require_peace(trial, when)
            await laws.require_end(trial, scenario.saga, undisturbed.outcome, when)
            assert await trial.ending(scenario.saga) in {"done", ""}, when
            assert trial.answer is not None
            assert trial.answer.status == undisturbed.status, (when, trial.answer)


@pytest.fixture(scope="module")
def ground(postgres_server: Server) -> Iterator[Ground]:
    with losing() as losses, pytest.MonkeyPatch.context() as patch:
        be_patient(patch)
        made = Ground(postgres_server, losses)
        yield made
        made.trials.remove()


def places(longest: int) -> list[Loss]:
    """Return where the transactions of a scenario lose their connections, one after the other."""
    commits = [Loss(COMMIT, "before"), Loss(COMMIT, "after")]
    inside = [Loss(nth, "before" if nth % 2 else "after") for nth in range(1, longest + 1)]
    return commits + inside


@pytest.mark.cases(SHARES, 2)
async def test_connections_that_are_lost_change_nothing(ground: Ground, case: Share) -> None:
    undisturbed = await ground.learn(case.scenario)
    for loss in places(undisturbed.longest)[case.part :: PARTS]:
        await ground.hold(case.scenario, loss)
