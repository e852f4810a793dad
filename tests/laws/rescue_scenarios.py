"""Scenarios of servers that are rescued, and boot from their own disks again."""

from __future__ import annotations

from functools import partial
from typing import Any

from mooring.compute.rescue.sagas.rescue_server import RESCUE_SERVER
from mooring.compute.rescue.sagas.unrescue_server import UNRESCUE_SERVER
from tests.crowd import on_servers
from tests.laws import basics
from tests.laws.guest_share_scenarios import a_running_server_with_share, a_server_with_share
from tests.laws.sites import COMPUTE, Do, Scenario, Site, Wants
from tests.laws.told import WITH_ERROR, Story

_ACTION = f"{COMPUTE}/servers/{{server}}/action"


async def a_server(site: Site) -> None:
    """A server that runs, with a volume."""
    await basics.a_server_with_volume(site)


async def a_server_that_is_off(site: Site) -> None:
    """The same, which is off."""
    await a_server(site)
    await site.get("POST", _ACTION, {"os-stop": None})


async def a_rescued_server(site: Site, of: Do) -> None:
    """A server that is rescued."""
    await of(site)
    await site.get("POST", _ACTION, {"rescue": None})


async def rescue(site: Site) -> Any:
    return await basics.act_on_server(site, "rescue")


async def unrescue(site: Site) -> Any:
    return await basics.act_on_server(site, "unrescue")


_ON_SERVER = Wants("server volume", "server")
RESCUES = [
    Scenario("rescue", RESCUE_SERVER, a_server, rescue, wants=_ON_SERVER),
    Scenario(
        "rescue one that is off", RESCUE_SERVER, a_server_that_is_off, rescue, wants=_ON_SERVER
    ),
    Scenario(
        "rescue with a share",
        RESCUE_SERVER,
        a_server_with_share,
        rescue,
        wants=Wants("server share", "server"),
    ),
    Scenario(
        "unrescue",
        UNRESCUE_SERVER,
        partial(a_rescued_server, of=a_server),
        unrescue,
        wants=_ON_SERVER,
    ),
    Scenario(
        "unrescue with a share",
        UNRESCUE_SERVER,
        partial(a_rescued_server, of=a_running_server_with_share),
        unrescue,
        wants=Wants("server share", "server"),
    ),
]
EVENTS = [
    Story(
        "instance.rescue",
        "it is to boot from another disk; it does; it does not",
        about="server_id",
        sagas=(RESCUE_SERVER,),
        phases=WITH_ERROR,
    ),
    Story(
        "instance.unrescue",
        "it is to boot from its own disk again; it does; it does not",
        about="server_id",
        sagas=(UNRESCUE_SERVER,),
        phases=WITH_ERROR,
    ),
]
CROWD = [
    on_servers.case("rescue", shows='"RESCUE"', alone=True),
    on_servers.case("unrescue", None, on_servers.act("rescue"), shows='"ACTIVE"', alone=True),
]
