"""Scenarios of servers whose host is dead."""

from __future__ import annotations

from typing import Any, cast

from mooring.agent.simulated import SimulatedHypervisor
from mooring.compute.moves.sagas.evacuate import EVACUATE
from tests.crowd import on_servers
from tests.crowd.case import Case
from tests.laws.move_scenarios import a_server_that_moves, a_server_with_a_local_disk
from tests.laws.shelve_scenarios import one_that_is_half_away
from tests.laws.sites import COMPUTE, FOURTH, THIRD, Do, Scenario, Site, Wants
from tests.laws.told import Event

_ACTION = f"{COMPUTE}/servers/{{server}}/action"
_SERVICES = f"{COMPUTE}/os-services"
_VERSION = "2.94"
"""The last one in which a server that ran runs at once where it is evacuated to."""


async def a_server_of_a_dead_host(site: Site) -> None:
    """A server that boots from a volume, and has another one; its host has no power any more."""
    await cut_power(site, a_server_that_moves)


async def a_local_server_of_a_dead_host(site: Site) -> None:
    """The same with a root disk that is lost with the host."""
    await cut_power(site, a_server_with_a_local_disk)


async def a_half_away_server_of_a_dead_host(site: Site) -> None:
    """One that was put away by half: it has no guest, and one of its volumes waits at no host."""
    await one_that_is_half_away(site)
    await say_dead(site, await host_of(site))


async def cut_power(site: Site, arrange: Do) -> None:
    """Arrange a server, and let its host lose its power."""
    await arrange(site)
    host = await host_of(site)
    hypervisor = site.cloud.agents[host].agent.hypervisor
    cast("SimulatedHypervisor", hypervisor).crash(site.names["server"])
    await say_dead(site, host)


async def host_of(site: Site) -> str:
    """Return the host of the server."""
    shown = await site.get("GET", f"{COMPUTE}/servers/{{server}}", user="admin")
    return str(shown["server"]["OS-EXT-SRV-ATTR:host"])


async def say_dead(site: Site, host: str) -> None:
    """Say of a host that it is forced down."""
    listed = await site.get("GET", _SERVICES, user="admin", version=_VERSION)
    (service,) = [one["id"] for one in listed["services"] if one["host"] == host]
    body = {"forced_down": True}
    await site.get("PUT", f"{_SERVICES}/{service}", body, user="admin", version=_VERSION)


async def evacuate(site: Site) -> Any:
    """Give the server to another host, and a neighbour's to a host of its own."""
    value = {"host": FOURTH if "asker" in site.names else THIRD}
    body = {"evacuate": value}
    return await site.ask("POST", _ACTION, body, user="admin", version=_VERSION)


def _of(name: str, arrange: Do, act: Do, wants: Wants) -> Scenario:
    return Scenario(name, EVACUATE, arrange, act, hosts=(THIRD,), host_returns=True, wants=wants)


EVACUATIONS = [
    _of(
        "evacuation",
        a_server_of_a_dead_host,
        evacuate,
        wants=Wants("server volume data", "server volume data"),
    ),
    _of(
        "evacuation of one that is half away",
        a_half_away_server_of_a_dead_host,
        evacuate,
        wants=Wants("server volume data", "server volume data", waits=True),
    ),
    _of(
        "local evacuation",
        a_local_server_of_a_dead_host,
        evacuate,
        wants=Wants("server data", "server data"),
    ),
]
EVENTS = [
    Event("instance.evacuate", "it begins to get another host, before its rebuild", phases=()),
]
CROWD = [
    Case(
        route=f"POST {on_servers.ALL}/action evacuate",
        path="/servers/{server}/action",
        body={"evacuate": {}},
        refused=True,
    ),
    Case(
        route="PUT /mooring/evacuations/{host}",
        path="/mooring/evacuations/{host}",
        refused=True,
    ),
]
"""Nobody is dead there."""
