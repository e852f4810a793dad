"""Servers that move at random: where they stand, and what users and administrators do to them.

Two boot from volumes, one has its root disk on its host. One volume is several servers' at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, cast

from mooring.agent.simulated import SimulatedHypervisor
from tests.laws import basics, move_scenarios, scenarios
from tests.laws.duplicates import back_up, clone, of_copies, upload
from tests.laws.living import Weather, play
from tests.laws.sites import COMPUTE, FOURTH, STORE, THIRD, VOLUME, Scenario, Site
from tests.laws.swap_scenarios import swap
from tests.laws.trials import Trials

BOOTED, LOCAL = ("server", "other"), "local"
SERVERS = (*BOOTED, LOCAL)
ROOTS = ("root", "other root")
FREE, SHARED = ("volume", "spare", "third"), "shared"
VOLUMES = (*FREE, SHARED)
TYPES = ("plain", SHARED)
"""Types of volumes: one server's, and several servers'."""
STILL = ("pause", "unpause", "suspend", "resume", "rescue", "unrescue")
"""What a user does to a server that changes neither its disks nor where it is."""
SERVING, POOLS = ("h1", THIRD, FOURTH), ("s1", STORE)
"""Hosts that may have the servers, and those that have pools."""
SIZES = ("42", "84", "2")
"""Flavors, of which the last has a larger root disk."""
_VERSION = "2.90"
_SENT = "send_memory"
"""Where a guest is held that is to be on its way for a while."""
_LOOKS = 3
"""How often to look whether it is; a word that comes before is one that comes early."""
(_MAKE_IMAGE,) = (one.act for one in scenarios.SCENARIOS if one.name == "make image")
Act = Callable[[], Coroutine[Any, Any, Any]]


async def live_where_servers_move(trials: Trials, seed: str, test: str) -> None:
    """Live a seed's history; `test` is the file and the function that play it."""
    saga, hosts = move_scenarios.MOVES[0].saga, (THIRD, FOURTH, STORE)
    scene = Scenario(seed, saga, roomy_place, basics.nothing, hosts=hosts, host_returns=True)
    await play(trials, scene, choose_move, test)


async def roomy_place(site: Site) -> None:
    """Three servers on three hosts, of whose volumes one has one, and two have one together."""
    for name, root in zip(BOOTED, ROOTS, strict=True):
        await basics.a_volume(site, root, imageRef=site.names["image"])
        disk = basics.disk("volume", site.names[root], boot_index=0)
        made = await site.get(*basics.new_server(site, disk))
        site.names[name] = made["server"]["id"]
    site.names[LOCAL] = (await site.get(*basics.new_server(site)))["server"]["id"]
    for name, specs in zip(TYPES, ({}, {"multiattach": "<is> True"}), strict=True):
        body = {"volume_type": {"name": name, "extra_specs": specs}}
        await site.get("POST", f"{VOLUME}/types", body, user="admin")
    for name in FREE:
        await basics.a_volume(site, name)
    await basics.a_volume(site, SHARED, volume_type=SHARED)
    await basics.attach(site)
    for name in (BOOTED[0], LOCAL):
        await attach(Site.beside(site, server=site.names[name]), SHARED)
        await site.cloud.settle()


def choose_move(chance: random.Random, site: Site) -> Coroutine[Any, Any, Any]:
    """Return what some user or administrator does next where servers can move."""
    server, volume = chance.choice(SERVERS), chance.choice(VOLUMES)
    there = Site.beside(site, server=site.names[server])
    rare: list[Act] = [
        lambda: basics.delete_server(there),
        lambda: basics.delete_volume(there, volume),
        lambda: basics.act_on_volume(there, "os-force_delete", {}, "admin", name=volume),
        lambda: _call_active(there),
    ]
    often = [_of_places(chance, there), _of_places(chance, there), _of_use(chance, there, volume)]
    often += [_of_volumes(chance, there, volume), of_copies(chance, there, volume)]
    return chance.choice(rare if chance.random() < 0.06 else chance.choice(often))()


def _of_use(chance: random.Random, there: Site, volume: str) -> list[Act]:
    """Return what users do to a server where it is."""
    still = chance.choice(STILL)
    return [
        *[lambda: attach(there, volume)] * 2,
        *[lambda: basics.detach(there, volume)] * 2,
        lambda: basics.stop(there),
        lambda: basics.start(there),
        lambda: basics.reboot(there),
        lambda: basics.reboot_hard(there),
        *[lambda: basics.act_on_server(there, still)] * 2,
    ]


def _of_places(chance: random.Random, there: Site) -> list[Act]:
    """Return what changes where a server is, or how large."""
    host, size = chance.choice([None, "h1", THIRD, FOURTH]), chance.choice(SIZES)
    live = {"host": host, "block_migration": "auto"}
    act = partial(_act, there)
    return [
        *[lambda: act("os-migrateLive", live, "admin")] * 2,
        *[lambda: _send_slowly(there, live, _abort)] * 2,
        *[lambda: _send_slowly(there, live, _force)] * 2,
        *[lambda: _send_slowly(there, live, partial(_copy, chance))] * 2,
        *[lambda: act("migrate", {"host": host}, "admin")] * 2,
        lambda: act("resize", {"flavorRef": size}),
        *[lambda: act("confirmResize")] * 2,
        *[lambda: act("revertResize")] * 2,
        *[lambda: act("shelve")] * 2,
        lambda: act("shelveOffload", None, "admin"),
        *[lambda: act("unshelve")] * 3,
        lambda: _MAKE_IMAGE(there),
        lambda: _lose_host(there),
        *[lambda: _return_hosts(there)] * 2,
    ]


def _of_volumes(chance: random.Random, there: Site, volume: str) -> list[Act]:
    """Return what makes other volumes of volumes."""
    two, pool, new_type = chance.sample(FREE, 2), chance.choice(POOLS), chance.choice(TYPES)
    policy = chance.choice(["never", "on-demand"])
    retype = {"new_type": new_type, "migration_policy": policy}
    return [
        lambda: _swap(there, two),
        lambda: _migrate(there, volume, pool),
        lambda: basics.act_on_volume(there, "os-retype", retype, name=volume),
    ]


async def attach(site: Site, name: str) -> Any:
    """Attach a volume, which several servers may have if it is of such a type."""
    body = {"volumeAttachment": {"volumeId": site.names[name]}}
    path = f"{COMPUTE}/servers/{{server}}/os-volume_attachments"
    return await site.ask("POST", path, body, version=_VERSION)


async def _send_slowly(
    site: Site, how: dict[str, Any], word: Callable[[Site, int], Coroutine[Any, Any, Any]]
) -> Any:
    """Move a server that runs, and say a word about that while its guest is on its way."""
    source = await _host_of(site)
    if source is None:
        return None
    knobs = _hypervisor(site, source).knobs
    knobs.hold(_SENT)
    sent = asyncio.create_task(knobs.held(_SENT))
    try:
        answer = await _act(site, "os-migrateLive", how, "admin")
        if answer is None or answer.status != 202:
            return answer
        for _ in range(_LOOKS):
            if not sent.done():
                await site.cloud.pass_time(1.0)
        for number in await _moves(site):
            await word(site, number)
        return answer
    finally:
        sent.cancel()
        knobs.release(_SENT)


async def _moves(site: Site) -> list[int]:
    """Return the numbers of the live migrations of a server that last."""
    path = f"{COMPUTE}/servers/{{server}}/migrations"
    listed = await site.ask("GET", path, user="admin", version=_VERSION)
    if listed is None or listed.status != 200:
        return []
    return [one["id"] for one in listed.body["migrations"]]


async def _abort(site: Site, number: int) -> Any:
    path = f"{COMPUTE}/servers/{{server}}/migrations/{number}"
    return await site.ask("DELETE", path, user="admin", version=_VERSION)


async def _force(site: Site, number: int) -> Any:
    path = f"{COMPUTE}/servers/{{server}}/migrations/{number}/action"
    return await site.ask("POST", path, {"force_complete": None}, user="admin", version=_VERSION)


async def _copy(chance: random.Random, site: Site, number: int) -> Any:
    """Back up one volume, clone one and make an image of one while a guest is on its way."""
    del number
    for copy in (back_up, clone, upload):
        name = chance.choice((*VOLUMES, *ROOTS))
        await copy(Site.beside(site, volume=site.names[name]))


async def _swap(site: Site, names: list[str]) -> Any:
    """Swap a volume for another, whichever the server has."""
    old, new = (site.names[name] for name in names)
    return await swap(Site.beside(site, volume=old, spare=new))


async def _migrate(site: Site, volume: str, pool: str) -> Any:
    value = {"host": f"{pool}@simulated#local", "lock_volume": True}
    return await basics.act_on_volume(site, "os-migrate_volume", value, "admin", name=volume)


async def _lose_host(site: Site) -> Any:
    """Let a server's host lose its power, say so, and evacuate the server."""
    host = await _host_of(site)
    if host is None:
        return None
    _weather(site).dead.add(host)
    hypervisor = _hypervisor(site, host)
    for guest in await hypervisor.guests():
        await hypervisor.power_off(guest.server_id, 0)
    await _say_down(site, host, down=True)
    return await _act(site, "evacuate", {}, "admin")


async def _return_hosts(site: Site) -> Any:
    """Let every host answer again, as far as it has paid what it owes."""
    _weather(site).dead.clear()
    for host in SERVING:
        await _say_down(site, host, down=False)


async def _call_active(site: Site) -> Any:
    """Say that a server is active."""
    shown = await site.ask("GET", f"{COMPUTE}/servers/{{server}}", user="admin")
    if shown is not None and shown.status == 200 and shown.key("server")["status"] == "ERROR":
        _weather(site).called_active.add(site.names["server"])
    return await _act(site, "os-resetState", {"state": "active"}, "admin")


async def _host_of(site: Site) -> str | None:
    """Return where a server is; None when it is at no host, or nobody tells."""
    shown = await site.ask("GET", f"{COMPUTE}/servers/{{server}}", user="admin")
    if shown is None or shown.status != 200:
        return None
    return shown.key("server")["OS-EXT-SRV-ATTR:host"]


def _hypervisor(site: Site, host: str) -> SimulatedHypervisor:
    return cast("SimulatedHypervisor", site.cloud.agents[host].agent.hypervisor)


def _weather(site: Site) -> Weather:
    assert isinstance(site.meddler, Weather)
    return site.meddler


async def _say_down(site: Site, host: str, *, down: bool) -> None:
    body = {"host": host, "binary": "nova-compute", "forced_down": down}
    path = f"{COMPUTE}/os-services/force-down"
    await site.ask("PUT", path, body, user="admin", version="2.11")


async def _act(site: Site, action: str, value: Any = None, user: str = "demo") -> Any:
    path = f"{COMPUTE}/servers/{{server}}/action"
    return await site.ask("POST", path, {action: value}, user=user, version=_VERSION)
