"""Scenarios of servers with shares that move while they are off (specs 003), and what is left."""

from __future__ import annotations

from typing import Any

from mooring.compute.app import SERVICE
from mooring.compute.delete.sagas.delete_server import DELETE_SERVER
from mooring.compute.moves.sagas.cold_migrate import COLD_MIGRATE
from mooring.compute.moves.sagas.confirm_resize import CONFIRM_RESIZE
from mooring.compute.moves.sagas.revert_resize import REVERT_RESIZE
from mooring.compute.shares import access_rules
from mooring.compute.shares.loops import sweep_shares
from mooring.compute.shares.sagas.release_share import RELEASE_SHARE
from mooring.compute.shares.sagas.sweep_share import SWEEP_SHARE, SweepShare
from mooring.errors import Unavailable
from tests.answers import Answer
from tests.laws.guest_share_scenarios import a_running_server_with_share
from tests.laws.move_scenarios import confirm, delete, revert, set_others
from tests.laws.share_scenarios import a_new_share
from tests.laws.sites import COMPUTE, FOURTH, SHARE, THIRD, Scenario, Site, Wants

_ACTION = f"{COMPUTE}/servers/{{server}}/action"
NEWEST, _HOST = "2.106", "OS-EXT-SRV-ATTR:host"
_CLIENT = "192.0.2.1"
"""By which address the simulated hosts reach shares."""


async def a_sharing_server(site: Site) -> None:
    """A server that runs on the first host with a share, and another host."""
    await set_others(site, "disabled")
    await a_running_server_with_share(site)
    await set_others(site, "enabled")


async def a_sharing_server_that_moved(site: Site) -> None:
    """The same server on the other host, before its user's word."""
    await a_sharing_server(site)
    shown = await site.get("GET", f"{COMPUTE}/servers/{{server}}", user="admin")
    is_neighbour = shown["server"][_HOST] == "h2"
    body = {"migrate": {"host": FOURTH if is_neighbour else THIRD}}
    await site.get("POST", _ACTION, body, user="admin", version=NEWEST)


async def a_stray_rule(site: Site) -> None:
    """A rule as compute makes them, which no server needs."""
    await a_new_share(site)
    how = {"lock_deletion": True, "lock_visibility": True, "lock_reason": access_rules.REASON}
    client = {"access_type": "ip", "access_to": _CLIENT, "metadata": access_rules.MARK}
    body = {"allow_access": {**client, **how}}
    path = f"{SHARE}/shares/{{share}}/action"
    made = await site.get("POST", path, body, user="compute", version="2.82")
    site.names["rule"] = made["access"]["id"]


async def migrate(site: Site) -> Any:
    """Move the server while it is off, and a neighbour's to a host of its own."""
    host = FOURTH if "asker" in site.names else THIRD
    body = {"migrate": {"host": host}}
    return await site.ask("POST", _ACTION, body, user="admin", version=NEWEST)


async def migrate_in_vain(site: Site) -> Any:
    """The same, and the other host does not start the guest."""
    host = FOURTH if "asker" in site.names else THIRD
    site.refuse_at(host, "PUT", "/servers/{server}")
    return await migrate(site)


async def confirm_badly(site: Site) -> Any:
    """Confirm while the share service will not deny access at once."""
    site.refuse_once("POST", "^/share/v2/shares/[^/]+/action$")
    return await confirm(site)


async def sweep(site: Site) -> Answer:
    """Have compute take away the rule, as the loop does that has found it: nobody asks for it."""
    compute, names = site.cloud.cloud[SERVICE], site.names
    stray = SweepShare(share_id=names["share"], rule_id=names["rule"], client=_CLIENT)
    try:
        await sweep_shares.sweep(compute, stray)
    except Unavailable:
        return Answer(503, {}, b"")
    return Answer(202, {}, b"")


_MESSAGES = ("messages",)
_THERE = (THIRD,)
_ON_BOTH = Wants("server share", "server share")
SHARED_MOVES = [
    Scenario(
        "shared migration",
        COLD_MIGRATE,
        a_sharing_server,
        migrate,
        _MESSAGES,
        hosts=_THERE,
        wants=_ON_BOTH,
    ),
    Scenario(
        "shared migration in vain",
        COLD_MIGRATE,
        a_sharing_server,
        migrate_in_vain,
        _MESSAGES,
        hosts=_THERE,
        wants=_ON_BOTH,
    ),
    Scenario(
        "shared confirm",
        CONFIRM_RESIZE,
        a_sharing_server_that_moved,
        confirm,
        _MESSAGES,
        hosts=_THERE,
        wants=_ON_BOTH,
    ),
    Scenario(
        "shared revert",
        REVERT_RESIZE,
        a_sharing_server_that_moved,
        revert,
        _MESSAGES,
        hosts=_THERE,
        wants=_ON_BOTH,
    ),
    Scenario(
        "delete a moved server with a share",
        DELETE_SERVER,
        a_sharing_server_that_moved,
        delete,
        _MESSAGES,
        hosts=_THERE,
        wants=_ON_BOTH,
    ),
    Scenario(
        "release share",
        RELEASE_SHARE,
        a_sharing_server_that_moved,
        confirm_badly,
        _MESSAGES,
        hosts=_THERE,
        wants=_ON_BOTH,
    ),
    Scenario(
        "sweep share",
        SWEEP_SHARE,
        a_stray_rule,
        sweep,
        _MESSAGES,
        comes_again=True,
        wants=Wants("share rule", "share", "rule"),
    ),
]
