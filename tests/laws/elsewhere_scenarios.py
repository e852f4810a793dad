"""Scenarios of servers that the first of two hosts refuses, so that the second one gets them.

A group decides which of them is the first, and not the order of their ids, which differs from run
to run: another member is there, and the group would have its members together.
"""

from __future__ import annotations

from typing import Any

from mooring.compute.moves.sagas.cold_migrate import COLD_MIGRATE
from mooring.compute.moves.sagas.live_migrate import LIVE_MIGRATE
from tests.laws.move_scenarios import a_server_that_moves, a_server_with_a_local_disk
from tests.laws.shared_move_scenarios import NEWEST, a_sharing_server
from tests.laws.sites import COMPUTE, FIFTH, FOURTH, THIRD, Do, Scenario, Site, Wants, hints_of

_ACTION = f"{COMPUTE}/servers/{{server}}/action"
_SERVICES = f"{COMPUTE}/os-services"
_BY_ADMIN: dict[str, Any] = {"user": "admin", "version": "2.100"}
_VOLUMES, _SHARES = "/connections/*", "/servers/{server}/shares/*"


async def a_member_that_moves(site: Site) -> None:
    """A server that boots from a volume, and has another one."""
    await _with_a_member(site, a_server_that_moves)


async def a_member_with_a_local_disk(site: Site) -> None:
    """A server with its root disk on its host, and a volume."""
    await _with_a_member(site, a_server_with_a_local_disk)


async def a_member_with_a_share(site: Site) -> None:
    """A server that runs with a share."""
    await _with_a_member(site, a_sharing_server)


async def _with_a_member(site: Site, arrange: Do) -> None:
    """Make a group with a member on the host to which its next one is to move first."""
    body = {"server_group": {"name": "group", "policies": ["soft-affinity"]}}
    made = await site.get("POST", f"{COMPUTE}/os-server-groups", body, version="2.15")
    site.names["group"] = made["server_group"]["id"]
    listed = (await site.get("GET", f"{_SERVICES}?binary=nova-compute", **_BY_ADMIN))["services"]
    others = [one for one in listed if one["host"] not in {THIRD, FOURTH}]
    paths = [f"{_SERVICES}/{one['id']}" for one in others if one["status"] == "enabled"]
    for path in paths:
        await site.get("PUT", path, {"status": "disabled"}, **_BY_ADMIN)
    server = {"name": "member", "flavorRef": site.names["flavor"], "imageRef": site.names["image"]}
    made = await site.get("POST", f"{COMPUTE}/servers", {"server": server, **hints_of(site)})
    site.names["member"] = made["server"]["id"]
    for path in paths:
        await site.get("PUT", path, {"status": "enabled"}, **_BY_ADMIN)
    await arrange(site)


async def cold_migrate(site: Site) -> Any:
    """Move the server while it is off; the first host does not connect its volumes."""
    return await _move(site, _VOLUMES, {"migrate": None})


async def live_migrate(site: Site) -> Any:
    """The same while it runs."""
    value = {"host": None, "block_migration": False}
    return await _move(site, _VOLUMES, {"os-migrateLive": value})


async def block_migrate(site: Site) -> Any:
    """The same with the root disk on its host: the first host has one for it by then."""
    value = {"host": None, "block_migration": True}
    return await _move(site, _VOLUMES, {"os-migrateLive": value})


async def migrate_with_share(site: Site) -> Any:
    """Move the server while it is off; the first host does not mount its share."""
    return await _move(site, _SHARES, {"migrate": None}, version=NEWEST)


async def _move(site: Site, refused: str, body: Any, *, version: str = "2.90") -> Any:
    site.refuse_at(FOURTH if "asker" in site.names else THIRD, "PUT", refused)
    return await site.ask("POST", _ACTION, body, user="admin", version=version)


_THERE = (THIRD, FIFTH)
MOVES_ELSEWHERE = [
    Scenario(
        "cold migration elsewhere",
        COLD_MIGRATE,
        a_member_that_moves,
        cold_migrate,
        hosts=_THERE,
        wants=Wants("server volume data group member", "server volume data", moves=True),
    ),
    Scenario(
        "live migration elsewhere",
        LIVE_MIGRATE,
        a_member_that_moves,
        live_migrate,
        hosts=_THERE,
        wants=Wants("server volume data group member", "server volume data", moves=True),
    ),
    Scenario(
        "block migration elsewhere",
        LIVE_MIGRATE,
        a_member_with_a_local_disk,
        block_migrate,
        hosts=_THERE,
        wants=Wants("server data group member", "server data"),
    ),
    Scenario(
        "shared migration elsewhere",
        COLD_MIGRATE,
        a_member_with_a_share,
        migrate_with_share,
        ("messages",),
        hosts=_THERE,
        wants=Wants("server share group member", "server share"),
    ),
]
