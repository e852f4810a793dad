"""Law *lost connections*: whatever PostgreSQL's connections do, every operation ends as it would.

Each nth sending is cut off, in turns before the server has it and instead of its answer. So it also
meets commits that were made and not answered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cloud import SimulatedCloud
from tests.laws.sampling import choose
from tests.laws.scenarios import SCENARIOS
from tests.laws.sites import HOSTS, Scenario, Site, furnish
from tests.wire import Wire, at_word, every

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]
SAMPLE = 4
NTH = (23, 37)
"""Several statements are sent for each transaction, so this is every few of them."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scenario" in metafunc.fixturenames:
        chosen = choose(metafunc.config, "lost connections", SCENARIOS, SAMPLE)
        metafunc.parametrize("scenario", chosen, ids=lambda scenario: scenario.name)


@pytest.fixture
async def site(tmp_path: Path, wired_url: str) -> AsyncIterator[Site]:
    cloud = SimulatedCloud(tmp_path / "state", database=wired_url, roles=HOSTS)
    await cloud.open()
    made = Site(cloud)
    await furnish(made)
    yield made
    await cloud.close()


@pytest.mark.parametrize("nth", NTH)
async def test_operations_end_whatever_connections_do(
    site: Site, postgres_wire: Wire, scenario: Scenario, nth: int
) -> None:
    await scenario.arrange(site)
    await site.cloud.settle()
    postgres_wire.rule = every(nth)
    answer = await scenario.act(site)
    await site.cloud.settle()
    postgres_wire.rule = at_word(b"", "", times=0)
    assert postgres_wire.cuts > 0
    assert answer is None or answer.status < 500, answer.body
    assert await site.cloud.ending(scenario.saga) == "done"
    assert await site.cloud.complaints() == []
