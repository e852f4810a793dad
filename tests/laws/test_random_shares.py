"""Law *histories* where servers have shares, and move with them, and shares change beside them."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.laws import basics, scenarios, share_scenarios
from tests.laws.guest_share_scenarios import attach, detach
from tests.laws.living import play
from tests.laws.sites import COMPUTE, SHARE, THIRD, Scenario, Site
from tests.laws.trials import Trials

pytestmark = pytest.mark.anyio
FILE = Path(__file__).name
SEEDS = [f"seed-{number}" for number in range(1000)]
SERVERS, SHARES = ("server", "other"), ("share", "spare")
VERSION, NEWEST = "2.106", "2.82"
CLIENTS = ("10.0.0.1", "10.0.0.2")
Act = Callable[[], Coroutine[Any, Any, Any]]


async def a_place_with_shares(site: Site) -> None:
    """Two servers that are off and two shares, of which the first server has the first."""
    for name in SHARES[::-1]:
        await share_scenarios.a_new_share(site)
        site.names[name] = site.names["share"]
    for name in SERVERS[::-1]:
        await basics.a_server(site)
        site.names[name] = site.names["server"]
        await basics.stop(site)
        await site.cloud.settle()
    assert (await attach(site)).status == 201
    await site.cloud.settle()


def choose(chance: random.Random, site: Site) -> Coroutine[Any, Any, Any]:
    """Return what some user or administrator does next."""
    server, share = site.names[chance.choice(SERVERS)], site.names[chance.choice(SHARES)]
    there = Site.beside(site, server=server, share=share)
    rare = _of_administrators(chance, there)
    often = [_of_servers(chance, there), _of_servers(chance, there), _of_shares(chance, there)]
    return chance.choice(rare if chance.random() < 0.08 else chance.choice(often))()


def _of_servers(chance: random.Random, there: Site) -> list[Act]:
    host, size = chance.choice([None, "h1", THIRD]), chance.choice(["42", "84"])
    act = partial(_act, there)
    return [
        *[lambda: attach(there)] * 2,
        *[lambda: detach(there)] * 2,
        *[lambda: basics.start(there)] * 2,
        *[lambda: basics.stop(there)] * 2,
        lambda: basics.reboot_hard(there),
        *[lambda: act("migrate", {"host": host}, "admin")] * 2,
        lambda: act("resize", {"flavorRef": size}),
        *[lambda: act("confirmResize")] * 2,
        *[lambda: act("revertResize")] * 2,
    ]


def _of_shares(chance: random.Random, there: Site) -> list[Act]:
    client = {"access_type": "ip", "access_to": chance.choice(CLIENTS)}
    act, size = partial(share_scenarios.act, there), chance.choice([1, 2, 3])
    return [
        lambda: act("allow_access", client),
        lambda: _deny(there),
        lambda: act("extend", {"new_size": size}),
        lambda: act("shrink", {"new_size": size}),
        lambda: share_scenarios.take_snapshot(there),
        lambda: _forget(there),
    ]


def _of_administrators(chance: random.Random, there: Site) -> list[Act]:
    state = chance.choice(["active", "error"])
    status = chance.choice(["available", "error"])
    return [
        lambda: basics.delete_server(there),
        lambda: share_scenarios.delete(there),
        lambda: share_scenarios.act(there, "force_delete", None, "admin"),
        lambda: share_scenarios.act(there, "reset_status", {"status": status}, "admin"),
        lambda: _act(there, "os-resetState", {"state": state}, "admin"),
    ]


async def _act(site: Site, action: str, value: Any = None, user: str = "demo") -> Any:
    path = f"{COMPUTE}/servers/{{server}}/action"
    return await site.ask("POST", path, {action: value}, user=user, version=VERSION)


async def _deny(site: Site) -> Any:
    """Deny access by a rule that a user made, if there is one."""
    path = f"{SHARE}/share-access-rules?share_id={{share}}"
    shown = await site.ask("GET", path, version=NEWEST)
    for rule in shown.body.get("access_list", ()) if shown else ():
        if rule["access_to"] in CLIENTS:
            await share_scenarios.act(site, "deny_access", {"access_id": rule["id"]})
            return


async def _forget(site: Site) -> Any:
    """Delete a snapshot, if there is one."""
    shown = await site.ask("GET", f"{SHARE}/snapshots?share_id={{share}}", version=NEWEST)
    for picture in shown.body.get("snapshots", ())[:1] if shown else ():
        await site.ask("DELETE", f"{SHARE}/snapshots/{picture['id']}", version=NEWEST)


@pytest.mark.soak
@pytest.mark.cases(SEEDS, 4)
async def test_nothing_forbidden_happens_where_servers_have_shares(
    trials: Trials, case: str
) -> None:
    saga = scenarios.SCENARIOS[0].saga
    scene = Scenario(case, saga, a_place_with_shares, basics.nothing, hosts=(THIRD,))
    test = "test_nothing_forbidden_happens_where_servers_have_shares"
    await play(trials, scene, choose, f"{FILE}::{test}")
