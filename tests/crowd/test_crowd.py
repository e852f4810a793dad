"""Every writing route, called by eight clients at once with different content: all of it is kept.

On both databases. SQLite has one writer, PostgreSQL has many: what holds there must hold here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cloud import SimulatedCloud
from tests.crowd.clients import SERVICES, Crowd, with_two_pools
from tests.crowd.routes import writing_routes

pytestmark = pytest.mark.anyio
SAMPLE = 1
"""Services of a short run, each on one of the databases: one with many routes takes a minute."""


@pytest.fixture
async def cloud(database: str, tmp_path: Path) -> AsyncIterator[SimulatedCloud]:
    async with with_two_pools(SimulatedCloud(tmp_path / "state", database=database)) as made:
        yield made


@pytest.mark.parametrize("service", SERVICES)
def test_every_writing_route_has_a_case(service: str) -> None:
    cases = [case.route for case in SERVICES[service][1]]
    assert len(cases) == len(set(cases))
    assert set(cases) == writing_routes(service)


@pytest.mark.cases(list(SERVICES), SAMPLE)
async def test_eight_at_once_lose_nothing(cloud: SimulatedCloud, case: str) -> None:
    root, cases = SERVICES[case]
    crowd = Crowd(cloud, root)
    await crowd.furnish()
    wrong: dict[str, list[str]] = {}
    for number, asked in enumerate(cases):
        if found := await crowd.try_out(asked, f"case{number}"):
            wrong[asked.route] = found
    assert wrong == {}
