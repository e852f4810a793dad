"""Scenarios of volumes of several servers, of which one comes, goes, or moves (specs 001)."""

from __future__ import annotations

from functools import partial
from typing import Any

from mooring.compute.delete.sagas.delete_server import DELETE_SERVER
from mooring.compute.moves.sagas.cold_migrate import COLD_MIGRATE
from mooring.compute.moves.sagas.confirm_resize import CONFIRM_RESIZE
from mooring.compute.moves.sagas.evacuate import EVACUATE
from mooring.compute.moves.sagas.live_migrate import LIVE_MIGRATE
from mooring.compute.moves.sagas.revert_resize import REVERT_RESIZE
from mooring.compute.shelve.sagas.offload_server import OFFLOAD_SERVER
from mooring.compute.volumes.sagas.attach_volume import ATTACH_VOLUME
from mooring.compute.volumes.sagas.detach_volume import DETACH_VOLUME
from mooring.saga.define import Saga
from tests.laws import basics, evacuation_scenarios, move_scenarios, shelve_scenarios
from tests.laws.sites import COMPUTE, NEIGHBOURS, THIRD, VOLUME, Do, Scenario, Site

_SINCE = "2.60"
"""From here on compute gives a volume to several servers."""
_TYPE = "shared"
_SERVERS, _SERVICES = f"{COMPUTE}/servers", f"{COMPUTE}/os-services"
_BY_ADMIN: dict[str, Any] = {"user": "admin", "version": "2.100"}


async def a_volume_of_another(site: Site, *, apart: bool = False) -> None:
    """A server that can move, and a volume that another one has: on its host, or where it goes."""
    await move_scenarios.a_server_that_moves(site)
    body = {"volume": {"size": 1, "name": "shared", "volume_type": await a_type(site)}}
    site.names["shared"] = (await site.get("POST", f"{VOLUME}/volumes", body))["volume"]["id"]
    where = await _destination(site) if apart else await _host_of(site)
    site.names["other"] = await _another_server(site, where)
    await site.get("POST", *_disk(site, "other"), version=_SINCE)
    await site.cloud.settle()


async def a_shared_volume(site: Site, *, apart: bool = False) -> None:
    """The same, and the server that can move has it, too."""
    await a_volume_of_another(site, apart=apart)
    await attach(site)
    await site.cloud.settle()


async def moved(site: Site) -> None:
    """The same on the other host, before its user's word."""
    await a_shared_volume(site)
    body = {"migrate": {"host": await _destination(site)}}
    await site.get("POST", f"{_SERVERS}/{{server}}/action", body, user="admin", version="2.90")


async def of_a_dead_host(site: Site) -> None:
    """The server that can move is on a host without power; the other one where it goes to."""
    await evacuation_scenarios.cut_power(site, partial(a_shared_volume, apart=True))


async def attach(site: Site) -> Any:
    return await site.ask("POST", *_disk(site, "server"), version=_SINCE)


async def detach(site: Site) -> Any:
    return await site.ask("DELETE", f"{_SERVERS}/{{server}}/os-volume_attachments/{{shared}}")


def _disk(site: Site, server: str) -> tuple[str, Any]:
    body = {"volumeAttachment": {"volumeId": site.names["shared"]}}
    return f"{_SERVERS}/{{{server}}}/os-volume_attachments", body


async def a_type(site: Site) -> str:
    """Return a type of volumes that several servers may have; a neighbour finds it there."""
    listed = await site.get("GET", f"{VOLUME}/types", user="admin")
    if all(one["name"] != _TYPE for one in listed["volume_types"]):
        body = {"volume_type": {"name": _TYPE, "extra_specs": {"multiattach": "<is> True"}}}
        await site.get("POST", f"{VOLUME}/types", body, user="admin")
    return _TYPE


async def _host_of(site: Site) -> str:
    shown = await site.get("GET", f"{_SERVERS}/{{server}}", user="admin")
    return shown["server"]["OS-EXT-SRV-ATTR:host"]


async def _destination(site: Site) -> str:
    """Return the host that the server moves to: a neighbour's has another one."""
    return NEIGHBOURS[THIRD] if await _host_of(site) == "h2" else THIRD


async def _another_server(site: Site, host: str) -> str:
    """Make a server on that host, and return its id."""
    listed = await site.get("GET", _SERVICES, **_BY_ADMIN)
    computes = [one for one in listed["services"] if one["binary"] == "nova-compute"]
    others = [one["id"] for one in computes if one["host"] != host]
    await _set(site, others, "disabled")
    made = await site.get(*basics.new_server(site))
    await site.cloud.settle()
    await _set(site, others, "enabled")
    return made["server"]["id"]


async def _set(site: Site, services: list[str], status: str) -> None:
    for one in services:
        await site.get("PUT", f"{_SERVICES}/{one}", {"status": status}, **_BY_ADMIN)


def _of(name: str, saga: Saga[Any], arrange: Do, act: Do, **how: Any) -> Scenario:
    return Scenario(f"{name} sharing", saga, arrange, act, hosts=(THIRD,), **how)


_APART = partial(a_shared_volume, apart=True)
SHARED_VOLUMES = [
    _of("attach", ATTACH_VOLUME, a_volume_of_another, attach),
    _of("detach", DETACH_VOLUME, a_shared_volume, detach),
    _of("delete server", DELETE_SERVER, a_shared_volume, move_scenarios.delete),
    _of("shelve", OFFLOAD_SERVER, a_shared_volume, shelve_scenarios.shelve),
    _of("move live", LIVE_MIGRATE, a_shared_volume, move_scenarios.live_migrate),
    _of("move live to the other", LIVE_MIGRATE, _APART, move_scenarios.live_migrate),
    _of("move off", COLD_MIGRATE, a_shared_volume, move_scenarios.cold_migrate),
    _of("move off in vain", COLD_MIGRATE, _APART, move_scenarios.cold_migrate_in_vain),
    _of("confirm", CONFIRM_RESIZE, moved, move_scenarios.confirm),
    _of("revert", REVERT_RESIZE, moved, move_scenarios.revert),
    _of("evacuate", EVACUATE, of_a_dead_host, evacuation_scenarios.evacuate, host_returns=True),
]
