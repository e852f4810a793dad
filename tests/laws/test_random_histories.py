"""Law *histories*: users, crashes and an unreliable network, at random from a seed.

What a failure tells is told by `living.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.laws import basics, scenarios
from tests.laws.living import play
from tests.laws.roaming import FREE, STILL, live_where_servers_move
from tests.laws.sites import Scenario, Site
from tests.laws.trials import Trials

pytestmark = pytest.mark.anyio
FILE = Path(__file__).name
SEEDS = [f"seed-{number}" for number in range(60)]
SEEDS_OF_MOVES = [f"seed-{number}" for number in range(2000)]
SERVERS = ("server", "other")
Act = Callable[[], Coroutine[Any, Any, Any]]


async def busy_place(site: Site) -> None:
    """Two servers and three volumes, one of them attached."""
    await basics.a_server_with_volume(site)
    mine = site.names["server"]
    await basics.a_server(site)
    site.names["other"], site.names["server"] = site.names["server"], mine
    for name in FREE[1:]:
        await basics.a_volume(site, name)


def choose_act(chance: random.Random, site: Site) -> Coroutine[Any, Any, Any]:
    """Return what some user does next."""
    volume, server = chance.choice(FREE), site.names[chance.choice(SERVERS)]
    there = Site.beside(site, server=server)
    usual: list[Act] = [
        *[lambda: basics.attach(there, volume)] * 2,
        *[lambda: basics.detach(there, volume)] * 2,
        lambda: basics.stop(there),
        lambda: basics.start(there),
        lambda: basics.reboot(there),
        lambda: basics.reboot_hard(there),
        *[lambda: basics.act_on_server(there, chance.choice(STILL))] * 2,
        lambda: basics.create_server(there),
        lambda: basics.boot_from_new_volumes(there),
        lambda: basics.create_volume(there),
    ]
    rare: list[Act] = [
        lambda: basics.delete_server(there),
        lambda: basics.delete_volume(there, volume),
        lambda: basics.act_on_volume(there, "os-force_delete", {}, "admin", name=volume),
    ]
    return chance.choice(rare if chance.random() < 0.08 else usual)()


@pytest.mark.cases(SEEDS, 2)
async def test_nothing_forbidden_ever_happens(trials: Trials, case: str) -> None:
    scene = Scenario(case, scenarios.SCENARIOS[0].saga, busy_place, basics.nothing)
    await play(trials, scene, choose_act, f"{FILE}::test_nothing_forbidden_ever_happens")


@pytest.mark.soak
@pytest.mark.usefixtures("often")
@pytest.mark.cases(SEEDS_OF_MOVES, 4)
async def test_nothing_forbidden_happens_where_servers_move(trials: Trials, case: str) -> None:
    test = "test_nothing_forbidden_happens_where_servers_move"
    await live_where_servers_move(trials, case, f"{FILE}::{test}")
