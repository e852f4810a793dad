"""Scenarios of servers that are put away, brought back, and given and taken volumes meanwhile."""

from __future__ import annotations

from typing import Any

from mooring.compute.shelve.sagas.offload_server import OFFLOAD_SERVER
from mooring.compute.shelve.sagas.unshelve_server import UNSHELVE_SERVER
from mooring.compute.volumes.sagas.waiting import ATTACH_WAITING, DETACH_WAITING
from tests.laws import scenarios
from tests.laws.move_scenarios import a_server_that_moves
from tests.laws.sites import COMPUTE, FOURTH, THIRD, Do, Scenario, Site

_SERVER = f"{COMPUTE}/servers/{{server}}"
_VOLUMES = f"{_SERVER}/os-volume_attachments"
_VERSION = "2.90"


async def a_server_that_is_away(site: Site) -> None:
    """A server that boots from a volume, and has another one, at no host."""
    await a_server_that_moves(site)
    await site.get("POST", f"{_SERVER}/action", {"shelve": None}, version=_VERSION)
    await site.cloud.settle()


async def one_that_is_away_and_a_volume(site: Site) -> None:
    """The same, and a volume that is free."""
    await a_server_that_is_away(site)
    await scenarios.a_volume(site, name="spare")


async def shelve(site: Site) -> Any:
    return await site.ask("POST", f"{_SERVER}/action", {"shelve": None}, version=_VERSION)


async def unshelve(site: Site) -> Any:
    """Give the server a host that is named, and a neighbour's one of its own."""
    body = {"unshelve": {"host": FOURTH if "asker" in site.names else THIRD}}
    return await site.ask("POST", f"{_SERVER}/action", body, user="admin", version="2.91")


async def attach(site: Site) -> Any:
    body = {"volumeAttachment": {"volumeId": site.names["spare"]}}
    return await site.ask("POST", _VOLUMES, body, version=_VERSION)


async def detach(site: Site) -> Any:
    return await site.ask("DELETE", f"{_VOLUMES}/{{data}}", version=_VERSION)


def _of(name: str, saga: Any, arrange: Do, act: Do) -> Scenario:
    return Scenario(name, saga, arrange, act, hosts=(THIRD,))


SHELVINGS = [
    _of("shelve", OFFLOAD_SERVER, a_server_that_moves, shelve),
    _of("unshelve", UNSHELVE_SERVER, a_server_that_is_away, unshelve),
    _of("attach while away", ATTACH_WAITING, one_that_is_away_and_a_volume, attach),
    _of("detach while away", DETACH_WAITING, a_server_that_is_away, detach),
]
