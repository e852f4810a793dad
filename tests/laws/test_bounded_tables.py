"""Law *bounded tables*: a cloud that is used and emptied again and again grows no table.

What each table's bound says (`growth.py` of every service) is held over a history of users: once
all is deleted and its time is over, a round of it leaves as many rows as the one before.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial

import pytest
from sqlalchemy import Table, func, select, text
from sqlalchemy.orm import Session

from mooring.notify.tables import OutboxRow
from mooring.service import COMMON_BOUNDS
from mooring.services import SERVICES
from mooring.store.growth import table_of
from tests.laws import basics, scenarios
from tests.laws.sites import COMPUTE, VOLUME, Scenario, Site
from tests.laws.test_random_histories import busy_place, choose_act
from tests.laws.trials import Trials

pytestmark = pytest.mark.anyio
SEEDS = [f"seed-{number}" for number in range(24)]
ROUNDS, ACTS = 4, 30
DAY_S = 86400.0
KEPT_DAYS = 400
"""Longer than any row is kept for its age."""
PAGES = 1.5
"""How many times as large a file may be as after the second round: rows leave holes in pages, and
the outbox is kept."""


async def count(site: Site) -> dict[str, int]:
    """Return how many rows each table of each service has.

    But for the outbox: in the laws nobody takes notifications away, so that they can be read.
    """
    found: dict[str, int] = {}
    for each in SERVICES:
        bounds = (*each.bounds, *COMMON_BOUNDS)
        tables = [table_of(bound.row) for bound in bounds if bound.row is not OutboxRow]
        numbers = await site.cloud.cloud.stores[each.name].read(partial(_rows, tables))
        found |= {f"{each.name}.{one.name}": n for one, n in zip(tables, numbers, strict=True)}
    return found


def _rows(tables: Sequence[Table], tx: Session) -> list[int]:
    return [tx.scalar(select(func.count()).select_from(one)) or 0 for one in tables]


async def measure_pages(site: Site) -> dict[str, int]:
    """Return how many pages each service's database has, where it is a file."""
    found: dict[str, int] = {}
    for each in SERVICES:
        store = site.cloud.cloud.stores[each.name]
        pages = await store.read(lambda tx: tx.scalar(text("PRAGMA page_count")))
        found[each.name] = int(pages or 0)
    return found


async def empty(site: Site) -> None:
    """Delete every server and every volume, whatever becomes of them meanwhile."""
    for _ in range(3):
        listed = await site.get("GET", f"{COMPUTE}/servers?all_tenants=1", user="admin")
        for server in listed["servers"]:
            await site.ask("DELETE", f"{COMPUTE}/servers/{server['id']}", user="admin")
        await site.cloud.settle()
        there = await site.get("GET", f"{VOLUME}/volumes?all_tenants=1", user="admin")
        for volume in there["volumes"]:
            path = f"{VOLUME}/volumes/{volume['id']}/action"
            await site.ask("POST", path, {"os-force_delete": {}}, user="admin")
        await site.cloud.settle()
        if not listed["servers"] and not there["volumes"]:
            return
    raise AssertionError("what was deleted is still there")


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return the tables that have more rows than before, with both numbers."""
    return {name: (before[name], rows) for name, rows in after.items() if rows > before[name]}


@pytest.mark.soak
@pytest.mark.cases(SEEDS, 1)
async def test_a_used_and_emptied_cloud_grows_no_table(trials: Trials, case: str) -> None:
    chance = random.Random(case)
    saga = scenarios.SCENARIOS[0].saga
    counts: list[dict[str, int]] = []
    pages: list[dict[str, int]] = []
    scene = Scenario(case, saga, basics.nothing, basics.nothing)
    async with trials.begin(scene) as trial:
        site = trial.site
        for _ in range(ROUNDS):
            await busy_place(site)
            for _ in range(ACTS):
                await choose_act(chance, site)
                await site.cloud.settle()
            await empty(site)
            site.cloud.clock.step(KEPT_DAYS * DAY_S)
            # So that everybody logs in again.
            site.cloud.clock.advance(2.0 * site.cloud.settings.token_lifetime_s)
            await site.cloud.settle()
            await site.cloud.cloud.prune()
            counts.append(await count(site))
            pages.append(await measure_pages(site))
    assert not grown(counts[1], counts[-1])
    larger = {name: n for name, n in pages[-1].items() if n > PAGES * pages[1][name]}
    assert not larger, (pages[1], pages[-1])
