"""Law *histories*: users, crashes and an unreliable network, at random from a seed.

A seed that fails is replayed by the command that the failure names.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from mooring.agent.simulated import SimulatedHypervisor
from tests.laws import basics, move_scenarios, scenarios
from tests.laws.living import Weather, play
from tests.laws.sites import COMPUTE, FOURTH, STORE, THIRD, Scenario, Site
from tests.laws.swap_scenarios import swap
from tests.laws.trials import Trials

pytestmark = pytest.mark.anyio
FILE = Path(__file__).name
SEEDS = [f"seed-{number}" for number in range(60)]
SEEDS_OF_MOVES = [f"seed-{number}" for number in range(2000)]
SERVERS, VOLUMES = ("server", "other"), ("volume", "spare", "third")
STILL = ("pause", "unpause", "suspend", "resume", "rescue", "unrescue")
"""What a user does to a server that changes neither its disks nor where it is."""
ROOTS = ("root", "other root")
(MAKE_IMAGE,) = (one.act for one in scenarios.SCENARIOS if one.name == "make image")
SERVING, POOLS = ("h1", THIRD, FOURTH), ("s1", STORE)
"""Hosts that may have the servers, and those that have pools."""
Act = Callable[[], Coroutine[Any, Any, Any]]


async def busy_place(site: Site) -> None:
    """Two servers and three volumes, one of them attached."""
    await basics.a_server_with_volume(site)
    mine = site.names["server"]
    await basics.a_server(site)
    site.names["other"], site.names["server"] = site.names["server"], mine
    for name in VOLUMES[1:]:
        await basics.a_volume(site, name)


async def roomy_place(site: Site) -> None:
    """Two servers that boot from volumes, three volumes of which one is attached, three hosts."""
    for name, root in zip(SERVERS, ROOTS, strict=True):
        await basics.a_volume(site, root, imageRef=site.names["image"])
        disk = basics.disk("volume", site.names[root], boot_index=0)
        made = await site.get(*basics.new_server(site, disk))
        site.names[name] = made["server"]["id"]
    for name in VOLUMES:
        await basics.a_volume(site, name)
    await basics.attach(site)


def choose_act(chance: random.Random, site: Site) -> Coroutine[Any, Any, Any]:
    """Return what some user does next."""
    there, usual, rare = _acts(chance, site)
    usual += [
        lambda: basics.create_server(there),
        lambda: basics.boot_from_new_volumes(there),
        lambda: basics.create_volume(there),
    ]
    return chance.choice(rare if chance.random() < 0.08 else usual)()


def choose_move(chance: random.Random, site: Site) -> Coroutine[Any, Any, Any]:
    """Return what some user or administrator does next where servers can move."""
    there, usual, rare = _acts(chance, site)
    host = chance.choice([None, "h1", THIRD, FOURTH])
    size = chance.choice(["42", "84"])
    live = {"host": host, "block_migration": False}
    act = partial(_act, there)
    moves: list[Act] = [
        *[lambda: act("os-migrateLive", live, "admin")] * 2,
        *[lambda: act("migrate", {"host": host}, "admin")] * 2,
        lambda: act("resize", {"flavorRef": size}),
        *[lambda: act("confirmResize")] * 3,
        *[lambda: act("revertResize")] * 3,
        *[lambda: act("shelve")] * 2,
        *[lambda: act("unshelve")] * 4,
        lambda: MAKE_IMAGE(there),
        *[lambda: _swap(there, chance.sample(VOLUMES, 2))] * 2,
        *[lambda: _migrate(there, chance.choice(VOLUMES), chance.choice(POOLS))] * 2,
        *[lambda: _lose_host(there)] * 2,
        *[lambda: _return_hosts(there)] * 2,
    ]
    rare.append(lambda: act("os-resetState", {"state": "active"}, "admin"))
    chosen = rare if chance.random() < 0.06 else chance.choice([moves, usual])
    return chance.choice(chosen)()


async def _swap(site: Site, names: list[str]) -> Any:
    """Swap a volume for another, whichever the server has."""
    old, new = (site.names[name] for name in names)
    return await swap(Site.beside(site, volume=old, spare=new))


async def _migrate(site: Site, volume: str, pool: str) -> Any:
    value = {"host": f"{pool}@simulated#local", "lock_volume": True}
    return await basics.act_on_volume(site, "os-migrate_volume", value, "admin", name=volume)


async def _lose_host(site: Site) -> Any:
    """Let a server's host lose its power, say so, and evacuate the server."""
    shown = await site.ask("GET", f"{COMPUTE}/servers/{{server}}", user="admin")
    if shown is None or shown.status != 200:
        return shown
    host = shown.key("server")["OS-EXT-SRV-ATTR:host"]
    if host is None:
        return shown
    _weather(site).dead.add(host)
    hypervisor = cast("SimulatedHypervisor", site.cloud.agents[host].agent.hypervisor)
    for guest in await hypervisor.guests():
        await hypervisor.power_off(guest.server_id, 0)
    await _say_down(site, host, down=True)
    return await _act(site, "evacuate", {}, "admin")


async def _return_hosts(site: Site) -> Any:
    """Let every host answer again, as far as it has paid what it owes."""
    _weather(site).dead.clear()
    for host in SERVING:
        await _say_down(site, host, down=False)


def _weather(site: Site) -> Weather:
    assert isinstance(site.meddler, Weather)
    return site.meddler


async def _say_down(site: Site, host: str, *, down: bool) -> None:
    body = {"host": host, "binary": "nova-compute", "forced_down": down}
    path = f"{COMPUTE}/os-services/force-down"
    await site.ask("PUT", path, body, user="admin", version="2.11")


async def _act(site: Site, action: str, value: Any = None, user: str = "demo") -> Any:
    path = f"{COMPUTE}/servers/{{server}}/action"
    return await site.ask("POST", path, {action: value}, user=user, version="2.90")


def _acts(chance: random.Random, site: Site) -> tuple[Site, list[Act], list[Act]]:
    """Return the site as seen by who acts, what users do often, and what they do seldom."""
    volume, server = chance.choice(VOLUMES), site.names[chance.choice(SERVERS)]
    there = Site.beside(site, server=server)
    usual: list[Act] = [
        lambda: basics.attach(there, volume),
        lambda: basics.attach(there, volume),
        lambda: basics.detach(there, volume),
        lambda: basics.detach(there, volume),
        lambda: basics.stop(there),
        lambda: basics.start(there),
        lambda: basics.reboot(there),
        lambda: basics.reboot_hard(there),
        lambda: basics.act_on_server(there, chance.choice(STILL)),
        lambda: basics.act_on_server(there, chance.choice(STILL)),
    ]
    rare: list[Act] = [
        lambda: basics.delete_server(there),
        lambda: basics.delete_volume(there, volume),
        lambda: basics.act_on_volume(there, "os-force_delete", {}, "admin", name=volume),
    ]
    return there, usual, rare


@pytest.mark.cases(SEEDS, 2)
async def test_nothing_forbidden_ever_happens(trials: Trials, case: str) -> None:
    scene = Scenario(case, scenarios.SCENARIOS[0].saga, busy_place, basics.nothing)
    await play(trials, scene, choose_act, f"{FILE}::test_nothing_forbidden_ever_happens")


@pytest.mark.soak
@pytest.mark.cases(SEEDS_OF_MOVES, 12)
async def test_nothing_forbidden_happens_where_servers_move(trials: Trials, case: str) -> None:
    saga, hosts = move_scenarios.MOVES[0].saga, (THIRD, FOURTH, STORE)
    scene = Scenario(case, saga, roomy_place, basics.nothing, hosts=hosts, host_returns=True)
    test = "test_nothing_forbidden_happens_where_servers_move"
    await play(trials, scene, choose_move, f"{FILE}::{test}")
