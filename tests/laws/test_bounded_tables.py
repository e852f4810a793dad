"""Law *bounded tables*: a cloud that is used and emptied again and again grows no table.

What each table's bound says (`growth.py` of every service) is held over a history of users: once
all is deleted and its time is over, a round of it leaves as many rows as the one before, in the
journals of hosts, too; and as many files.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from tests.laws import basics, scenarios
from tests.laws.leftovers import count_files, count_rows, measure_pages
from tests.laws.sites import STORE, THIRD, Scenario, Site
from tests.laws.test_random_histories import busy_place
from tests.laws.trials import Trials
from tests.laws.wearing import choose_anything, empty

pytestmark = pytest.mark.anyio
SEEDS = [f"seed-{number}" for number in range(24)]
ROUNDS, ACTS = 3, 24
DAY_S = 86400.0
_EACH_PROJECT = ".quota_projects"
KEPT_DAYS = 400
"""Longer than any row is kept for its age."""
PAGES = 1.5
"""How many times as large a file may be as after the second round: rows leave holes in pages, and
the outbox is kept."""


async def use(site: Site, chance: random.Random) -> None:
    """Let users do what they will, one after the other, and delete all of it."""
    await busy_place(site)
    for _ in range(ACTS):
        await choose_anything(chance, site)
        await site.cloud.settle()
    await empty(site)


async def let_time_pass(site: Site) -> None:
    """Let all be so old that it may go, and go."""
    site.cloud.clock.step(KEPT_DAYS * DAY_S)
    # So that everybody logs in again.
    site.cloud.clock.advance(2.0 * site.cloud.settings.token_lifetime_s)
    await site.cloud.settle()
    await site.cloud.look_around()
    await site.cloud.settle()
    await site.cloud.cloud.prune()
    # Hosts have clocks of their own.
    later = datetime.now(UTC) + timedelta(days=KEPT_DAYS)
    for running in site.cloud.agents.values():
        await running.agent.journal.sweep(later)
        running.agent.images.sweep(later.timestamp())


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return of what there is more than before, with both numbers.

    What has one row for each project may get one whenever a project begins to use it.
    """
    most = {name: after["identity.projects"] for name in after if name.endswith(_EACH_PROJECT)}
    were = {name: max(before.get(name, 0), most.get(name, 0)) for name in after}
    return {name: (were[name], n) for name, n in after.items() if n > were[name]}


@pytest.mark.soak
@pytest.mark.cases(SEEDS, 1)
async def test_a_used_and_emptied_cloud_grows_no_table(trials: Trials, case: str) -> None:
    chance = random.Random(case)
    saga = scenarios.SCENARIOS[0].saga
    rows: list[dict[str, int]] = []
    files: list[dict[str, int]] = []
    pages: list[dict[str, int]] = []
    scene = Scenario(case, saga, basics.nothing, basics.nothing, hosts=(THIRD, STORE))
    async with trials.begin(scene) as trial:
        for _ in range(ROUNDS):
            await use(trial.site, chance)
            await let_time_pass(trial.site)
            rows.append(await count_rows(trial.site))
            files.append(count_files(trial.site))
            pages.append(await measure_pages(trial.site))
    assert not grown(rows[1], rows[-1])
    assert not grown(files[1], files[-1])
    larger = {name: n for name, n in pages[-1].items() if n > PAGES * pages[1][name]}
    assert not larger, (pages[1], pages[-1])
