"""Scenarios of servers that are put away, brought back, and given and taken volumes meanwhile."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mooring.compute.app import SERVICE
from mooring.compute.delete.sagas.delete_server import DELETE_SERVER
from mooring.compute.power.sagas.power import REBOOT_SERVER
from mooring.compute.power.sagas.reset_state import RESET_STATE
from mooring.compute.shelve.sagas.offload_server import OFFLOAD_SERVER
from mooring.compute.shelve.sagas.shelve_server import SHELVE_SERVER
from mooring.compute.shelve.sagas.unshelve_here import UNSHELVE_HERE
from mooring.compute.shelve.sagas.unshelve_server import UNSHELVE_SERVER
from mooring.compute.volumes.sagas.waiting import ATTACH_WAITING, DETACH_WAITING
from tests.crowd import on_servers
from tests.laws import basics
from tests.laws.move_scenarios import a_server_that_moves, a_server_with_a_local_disk
from tests.laws.sites import COMPUTE, FOURTH, THIRD, Do, Scenario, Site, Wants
from tests.laws.told import Story

_SERVER = f"{COMPUTE}/servers/{{server}}"
_VOLUMES = f"{_SERVER}/os-volume_attachments"
_VERSION = "2.90"


async def a_server_that_is_away(site: Site) -> None:
    """A server that boots from a volume, and has another one, at no host."""
    await a_server_that_moves(site)
    await site.get("POST", f"{_SERVER}/action", {"shelve": None}, version=_VERSION)
    await site.cloud.settle()


async def one_that_is_half_away(site: Site) -> None:
    """A server in ERROR at its host: its root volume waits at none, the other one is kept there."""
    await a_server_that_moves(site)
    listed = await site.get("GET", _VOLUMES, version="2.89")
    (kept,) = [
        one["attachment_id"]
        for one in listed["volumeAttachments"]
        if one["volumeId"] == site.names["data"]
    ]
    site.refuse_once("DELETE", f"/attachments/{kept}")
    await site.get("POST", f"{_SERVER}/action", {"shelve": None}, version=_VERSION)
    await site.cloud.settle()


async def one_that_is_away_and_a_volume(site: Site) -> None:
    """The same, and a volume that is free."""
    await a_server_that_is_away(site)
    await basics.a_volume(site, name="spare")


async def one_that_is_off(site: Site) -> None:
    """A server with its root disk on its host, and a volume, that is switched off.

    So it is again when putting it away comes to nothing.
    """
    await a_server_with_a_local_disk(site)
    await site.get("POST", f"{_SERVER}/action", {"os-stop": None})


async def one_that_is_shelved(site: Site) -> None:
    """The same, put away, at its host: in trials such a server is not taken from it at once."""
    await one_that_is_off(site)
    await site.get("POST", f"{_SERVER}/action", {"shelve": None}, version=_VERSION)
    await site.cloud.settle()


async def one_whose_disk_is_away(site: Site) -> None:
    """The same, at no host."""
    await one_that_is_shelved(site)
    await offload(site)
    await site.cloud.settle()


async def shelve_at_once(site: Site) -> Any:
    """Put it away where servers do not stay at their hosts."""
    compute = site.cloud.cloud[SERVICE]
    compute.settings = replace(compute.settings, shelved_offload_time=0.0)
    return await shelve(site)


async def offload(site: Site) -> Any:
    body = {"shelveOffload": None}
    return await site.ask("POST", f"{_SERVER}/action", body, user="admin", version=_VERSION)


async def unshelve_here(site: Site) -> Any:
    return await site.ask("POST", f"{_SERVER}/action", {"unshelve": None}, version=_VERSION)


async def delete(site: Site) -> Any:
    return await site.ask("DELETE", _SERVER)


async def reset(site: Site) -> Any:
    body = {"os-resetState": {"state": "error"}}
    return await site.ask("POST", f"{_SERVER}/action", body, user="admin", version=_VERSION)


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


def _of(name: str, saga: Any, arrange: Do, act: Do, **more: Any) -> Scenario:
    return Scenario(name, saga, arrange, act, hosts=(THIRD,), **more)


_ON_BOTH = Wants("server data", "server data")
_ON_SERVER = Wants("server data", "server")
SHELVINGS = [
    _of(
        "shelve",
        OFFLOAD_SERVER,
        a_server_that_moves,
        shelve,
        wants=Wants("server volume data", "server volume data"),
    ),
    _of(
        "unshelve",
        UNSHELVE_SERVER,
        a_server_that_is_away,
        unshelve,
        wants=Wants("server volume data", "server volume data", waits=True),
    ),
    _of(
        "reboot one that is half away",
        REBOOT_SERVER,
        one_that_is_half_away,
        basics.reboot_hard,
        wants=Wants("server volume data", "server volume", waits=True),
    ),
    _of(
        "attach while away",
        ATTACH_WAITING,
        one_that_is_away_and_a_volume,
        attach,
        wants=Wants("server volume data spare", "server spare", waits=True),
    ),
    _of(
        "detach while away",
        DETACH_WAITING,
        a_server_that_is_away,
        detach,
        wants=Wants("server volume data", "server data", waits=True),
    ),
    _of("shelve a disk", SHELVE_SERVER, one_that_is_off, shelve, wants=_ON_BOTH),
    # It is shelved, whatever becomes of giving its host back.
    _of(
        "shelve a disk at once",
        SHELVE_SERVER,
        one_that_is_off,
        shelve_at_once,
        outlives=(OFFLOAD_SERVER.name,),
        wants=_ON_BOTH,
    ),
    _of("offload", OFFLOAD_SERVER, one_that_is_shelved, offload, wants=_ON_BOTH),
    _of(
        "unshelve a disk",
        UNSHELVE_SERVER,
        one_whose_disk_is_away,
        unshelve,
        wants=Wants("server data", "server data", waits=True),
    ),
    _of("unshelve here", UNSHELVE_HERE, one_that_is_shelved, unshelve_here, wants=_ON_SERVER),
    _of(
        "delete one whose disk is away",
        DELETE_SERVER,
        one_whose_disk_is_away,
        delete,
        wants=_ON_SERVER,
    ),
    _of("reset a shelved server", RESET_STATE, one_that_is_shelved, reset, wants=_ON_SERVER),
]


EVENTS = [
    Story(
        "instance.shelve",
        "the root disk on a server's host becomes an image; it has its data",
        about="server_id",
        sagas=(SHELVE_SERVER,),
    ),
    Story(
        "instance.shelve_offload",
        "a server leaves its host",
        about="server_id",
        sagas=(OFFLOAD_SERVER,),
    ),
    Story(
        "instance.unshelve",
        "it gets a host again",
        about="server_id",
        sagas=(UNSHELVE_SERVER, UNSHELVE_HERE),
    ),
]
CROWD = [
    on_servers.case("shelve", on=on_servers.BOOTED, shows='"SHELVED_OFFLOADED"', alone=True),
    on_servers.case("shelveOffload", on=on_servers.BOOTED, refused=True),
    on_servers.case(
        "unshelve",
        None,
        on_servers.act("shelve"),
        on=on_servers.BOOTED,
        shows='"ACTIVE"',
        alone=True,
    ),
]
