"""Scenarios of servers that stand still and go on: paused and suspended ones, with a volume."""

from __future__ import annotations

from functools import partial
from typing import Any

from mooring.compute.power.sagas.power import (
    PAUSE_SERVER,
    RESUME_SERVER,
    SUSPEND_SERVER,
    UNPAUSE_SERVER,
)
from tests.crowd import on_servers
from tests.laws import basics
from tests.laws.sites import COMPUTE, Scenario, Site, Wants
from tests.laws.told import Story


async def a_server(site: Site) -> None:
    """A server that runs, with a volume."""
    await basics.a_server_with_volume(site)


async def a_still_server(site: Site, action: str) -> None:
    """The same, which stands still."""
    await basics.a_server_with_volume(site)
    await site.get("POST", f"{COMPUTE}/servers/{{server}}/action", {action: None})


async def act(site: Site, action: str) -> Any:
    return await basics.act_on_server(site, action)


pause, unpause = partial(act, action="pause"), partial(act, action="unpause")
suspend, resume = partial(act, action="suspend"), partial(act, action="resume")
_ON_SERVER = Wants("server volume", "server")
STANDSTILLS = [
    Scenario("pause", PAUSE_SERVER, a_server, pause, wants=_ON_SERVER),
    Scenario(
        "unpause",
        UNPAUSE_SERVER,
        partial(a_still_server, action="pause"),
        unpause,
        wants=_ON_SERVER,
    ),
    Scenario("suspend", SUSPEND_SERVER, a_server, suspend, wants=_ON_SERVER),
    Scenario(
        "resume", RESUME_SERVER, partial(a_still_server, action="suspend"), resume, wants=_ON_SERVER
    ),
]
EVENTS = [
    Story("instance.pause", "it stands still", about="server_id", sagas=(PAUSE_SERVER,)),
    Story("instance.unpause", "it goes on", about="server_id", sagas=(UNPAUSE_SERVER,)),
    Story("instance.suspend", "it stands still", about="server_id", sagas=(SUSPEND_SERVER,)),
    Story("instance.resume", "it goes on", about="server_id", sagas=(RESUME_SERVER,)),
]
CROWD = [
    on_servers.case("pause", shows='"PAUSED"', alone=True),
    on_servers.case("unpause", None, on_servers.act("pause"), shows='"ACTIVE"', alone=True),
    on_servers.case("suspend", shows='"SUSPENDED"', alone=True),
    on_servers.case("resume", None, on_servers.act("suspend"), shows='"ACTIVE"', alone=True),
]
