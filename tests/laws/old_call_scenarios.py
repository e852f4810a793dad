"""Scenarios of servers that go elsewhere with a volume of each flow (specs 001)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from mooring.compute.delete.sagas.delete_server import DELETE_SERVER
from mooring.compute.moves.sagas.cold_migrate import COLD_MIGRATE
from mooring.compute.moves.sagas.confirm_resize import CONFIRM_RESIZE
from mooring.compute.moves.sagas.evacuate import EVACUATE
from mooring.compute.moves.sagas.live_migrate import LIVE_MIGRATE
from mooring.compute.moves.sagas.revert_resize import REVERT_RESIZE
from mooring.compute.shelve.sagas.offload_server import OFFLOAD_SERVER
from mooring.compute.volumes.sagas.detach_volume import DETACH_VOLUME
from mooring.saga.define import Saga
from mooring.volume.attachments.sagas.connect_legacy import CONNECT_LEGACY
from tests import old_calls
from tests.laws import evacuation_scenarios, move_scenarios, shelve_scenarios
from tests.laws.sites import BY_OLD_CALLS, COMPUTE, FOURTH, OLD, THIRD, VOLUME, Do, Scenario, Site


async def old_and_new(site: Site) -> None:
    """A server that boots from a volume with an attachment, and has one of the old calls."""
    await move_scenarios.a_server_that_moves(site)
    body = {"volume": {"size": 1, "name": "old"}}
    site.names["old"] = (await site.get("POST", f"{VOLUME}/volumes", body))["volume"]["id"]
    shown = await site.get("GET", f"{COMPUTE}/servers/{{server}}", user="admin")
    host = shown["server"]["OS-EXT-SRV-ATTR:host"]
    await old_calls.give(site.cloud, site.names["server"], site.names["old"], host)


async def moved(site: Site) -> None:
    """The same on the other host, before its user's word."""
    await old_and_new(site)
    shown = await site.get("GET", f"{COMPUTE}/servers/{{server}}", user="admin")
    is_neighbour = shown["server"]["OS-EXT-SRV-ATTR:host"] == "h2"
    body = {"migrate": {"host": FOURTH if is_neighbour else THIRD}}
    path = f"{COMPUTE}/servers/{{server}}/action"
    await site.get("POST", path, body, user="admin", version="2.90")


async def of_a_dead_host(site: Site) -> None:
    """The same, whose host has no power any more."""
    await evacuation_scenarios.cut_power(site, old_and_new)


async def detach(site: Site) -> Any:
    """Take the volume of the old calls from the server."""
    path = f"{COMPUTE}/servers/{{server}}/os-volume_attachments/{{old}}"
    return await site.ask("DELETE", path)


def _of(name: str, saga: Saga[Any], arrange: Do, act: Do, **how: Any) -> Scenario:
    return Scenario(f"{name} old and new", saga, arrange, act, hosts=(THIRD,), **how)


def closed_gate(arranged: Sequence[Scenario]) -> list[Scenario]:
    """Return scenarios in which volumes are given by the old calls, as one host is too old."""
    names = ("attach", "create from volume", "create with new volumes")
    return [
        replace(
            one,
            name=f"{one.name}{BY_OLD_CALLS}",
            arrange=partial(_beside_an_old_host, arrange=one.arrange),
            hosts=(OLD,),
            wants=None,
        )
        for one in arranged
        if one.name in names
    ]


async def _beside_an_old_host(site: Site, arrange: Do) -> None:
    """The same, and nothing goes to the host that is too old: where a server is, is compared."""
    await move_scenarios.set_others(site, "disabled")
    await arrange(site)


OLD_AND_NEW = [
    _of("move live", LIVE_MIGRATE, old_and_new, move_scenarios.live_migrate),
    _of("move off", COLD_MIGRATE, old_and_new, move_scenarios.cold_migrate),
    _of("move off in vain", COLD_MIGRATE, old_and_new, move_scenarios.cold_migrate_in_vain),
    _of("confirm", CONFIRM_RESIZE, moved, move_scenarios.confirm),
    # A host that cannot have the old volume back leaves the server where it is, to be verified.
    _of("revert", REVERT_RESIZE, moved, move_scenarios.revert, outlives=(CONNECT_LEGACY.name,)),
    _of("delete moved", DELETE_SERVER, moved, move_scenarios.delete),
    _of("detach", DETACH_VOLUME, old_and_new, detach),
    _of("shelve", OFFLOAD_SERVER, old_and_new, shelve_scenarios.shelve),
    _of("evacuate", EVACUATE, of_a_dead_host, evacuation_scenarios.evacuate, host_returns=True),
]
