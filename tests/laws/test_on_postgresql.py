"""Laws *crash* and *crash in undo* on PostgreSQL, where who died is succeeded when its lease ends.

On SQLite (`test_steps`) the next process owns everything at once. Here it takes over what nobody
has renewed, transactions run beside each other in threads, and rows are locked one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.laws.conftest import count_scenarios
from tests.laws.postgres_databases import PostgresTrials, be_patient
from tests.laws.test_steps import BACK, FORWARD, Point, crash, crash_unwinding
from tests.postgres import Server

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.fixture(scope="module")
def trials(postgres_server: Server, pytestconfig: pytest.Config) -> Iterator[PostgresTrials]:
    with pytest.MonkeyPatch.context() as patch:
        be_patient(patch)
        made = PostgresTrials(postgres_server, most=count_scenarios(pytestconfig))
        yield made
        made.remove()


@pytest.mark.cases(FORWARD, 1)
async def test_crashing_anywhere_ends_after_the_restart(
    trials: PostgresTrials, case: Point
) -> None:
    await crash(trials, case)


@pytest.mark.cases(BACK, 1)
async def test_crashing_while_unwinding_leaves_no_trace(
    trials: PostgresTrials, case: Point
) -> None:
    await crash_unwinding(trials, case)
