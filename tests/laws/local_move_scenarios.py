"""Scenarios of servers that move, or get another size, with their root disk on their host."""

from __future__ import annotations

from typing import Any

from mooring.compute.delete.sagas.delete_server import DELETE_SERVER
from mooring.compute.moves.sagas.cold_migrate import COLD_MIGRATE
from mooring.compute.moves.sagas.confirm_resize import CONFIRM_RESIZE
from mooring.compute.moves.sagas.live_migrate import LIVE_MIGRATE
from mooring.compute.moves.sagas.revert_resize import REVERT_RESIZE
from tests.laws.move_scenarios import (
    a_server_with_a_local_disk,
    act,
    answer_again,
    cold_migrate,
    cold_migrate_in_vain,
    confirm,
    delete,
    revert,
    send_in_vain,
)
from tests.laws.sites import COMPUTE, FOURTH, SERVER_OR_NONE, THIRD, Scenario, Site, Wants

_ACTION = f"{COMPUTE}/servers/{{server}}/action"
_HOST = "OS-EXT-SRV-ATTR:host"
LARGER = "2"
"""A flavor with a larger root disk than that of the server."""


async def a_disk_that_moved(site: Site) -> None:
    """The same server on the other host, before its user's word; its disk is on both."""
    await a_server_with_a_local_disk(site)
    shown = await site.get("GET", f"{COMPUTE}/servers/{{server}}", user="admin")
    is_neighbour = shown["server"][_HOST] == "h2"
    body = {"migrate": {"host": FOURTH if is_neighbour else THIRD}}
    await site.get("POST", _ACTION, body, user="admin", version="2.90")


async def a_disk_that_grew(site: Site) -> None:
    """The same server with a larger disk on its host, before its user's word."""
    await a_server_with_a_local_disk(site)
    await site.get("POST", _ACTION, {"resize": {"flavorRef": LARGER}}, version="2.90")


async def block_migrate(site: Site) -> Any:
    """The same with the root disk on its host."""
    host = FOURTH if "asker" in site.names else THIRD
    value = {"host": host, "block_migration": True}
    return await act(site, "os-migrateLive", value, user="admin")


async def block_migrate_in_vain(site: Site) -> Any:
    """The same, and the guest is not sent."""
    source = "h2" if "asker" in site.names else "h1"
    site.refuse_at(source, "PUT", "/servers/{server}/departure")
    return await block_migrate(site)


async def delete_with_a_disk_on_the_way(site: Site) -> Any:
    """Delete the server while its host does not say whether it still sends guest and disk."""
    await send_in_vain(site, block_migrate)
    answer = await delete(site)
    await answer_again(site)
    return answer


async def grow(site: Site) -> Any:
    """Give the server a flavor with a larger root disk, on its host."""
    return await act(site, "resize", {"flavorRef": LARGER})


async def grow_in_vain(site: Site) -> Any:
    """The same, and the host does not keep the disk as it is."""
    host = "h2" if "asker" in site.names else "h1"
    site.refuse_at(host, "PUT", "/servers/{server}/kept")
    return await grow(site)


_LOCAL, _THERE = a_server_with_a_local_disk, (THIRD,)
_TOLD = ("faults", "instance_actions", "migrations")
"""What differs with SERVER_OR_NONE where the guest had been sent by then, or not."""
_ON_BOTH = Wants("server data", "server data")
_ON_SERVER = Wants("server data", "server")
LOCAL_MOVES = [
    Scenario("block migration", LIVE_MIGRATE, _LOCAL, block_migrate, hosts=_THERE, wants=_ON_BOTH),
    Scenario(
        "block migration in vain",
        LIVE_MIGRATE,
        _LOCAL,
        block_migrate_in_vain,
        hosts=_THERE,
        wants=_ON_BOTH,
    ),
    Scenario(
        "delete a disk on the way",
        DELETE_SERVER,
        _LOCAL,
        delete_with_a_disk_on_the_way,
        (*_TOLD, *SERVER_OR_NONE),
        hosts=_THERE,
    ),
    Scenario("local migration", COLD_MIGRATE, _LOCAL, cold_migrate, hosts=_THERE, wants=_ON_BOTH),
    Scenario(
        "local migration in vain",
        COLD_MIGRATE,
        _LOCAL,
        cold_migrate_in_vain,
        hosts=_THERE,
        wants=_ON_BOTH,
    ),
    Scenario("local resize", COLD_MIGRATE, _LOCAL, grow, wants=_ON_BOTH),
    Scenario("local resize in vain", COLD_MIGRATE, _LOCAL, grow_in_vain, wants=_ON_BOTH),
    Scenario(
        "local confirm", CONFIRM_RESIZE, a_disk_that_moved, confirm, hosts=_THERE, wants=_ON_BOTH
    ),
    Scenario(
        "local revert", REVERT_RESIZE, a_disk_that_moved, revert, hosts=_THERE, wants=_ON_BOTH
    ),
    Scenario(
        "delete two disks", DELETE_SERVER, a_disk_that_moved, delete, hosts=_THERE, wants=_ON_SERVER
    ),
    Scenario("confirm growth", CONFIRM_RESIZE, a_disk_that_grew, confirm, wants=_ON_SERVER),
    Scenario("revert growth", REVERT_RESIZE, a_disk_that_grew, revert, wants=_ON_SERVER),
    Scenario("delete a grown disk", DELETE_SERVER, a_disk_that_grew, delete, wants=_ON_SERVER),
]
