"""Law *histories* on PostgreSQL, where servers move and their volumes are copied meanwhile.

Transactions run beside each other there, and whoever died is succeeded when its lease ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.laws.postgres_databases import PostgresTrials, be_patient
from tests.laws.roaming import live_where_servers_move
from tests.postgres import Server

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]
FILE = Path(__file__).name
SEEDS = [f"seed-{number}" for number in range(100)]


@pytest.fixture(scope="module")
def trials(postgres_server: Server) -> Iterator[PostgresTrials]:
    with pytest.MonkeyPatch.context() as patch:
        be_patient(patch)
        made = PostgresTrials(postgres_server)
        yield made
        made.remove()


@pytest.mark.soak
@pytest.mark.usefixtures("often")
@pytest.mark.cases(SEEDS, 1)
async def test_nothing_forbidden_happens_on_postgresql_where_servers_move(
    trials: PostgresTrials, case: str
) -> None:
    test = "test_nothing_forbidden_happens_on_postgresql_where_servers_move"
    await live_where_servers_move(trials, case, f"{FILE}::{test}")
