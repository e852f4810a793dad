"""Scenarios of servers whose guests are told of them on config drives.

Servers that move have drives, too, and those with shares (`move_scenarios`,
`guest_share_scenarios`).
"""

from __future__ import annotations

from typing import Any

from mooring.compute.create.sagas.create_server import CREATE_SERVER
from mooring.compute.delete.sagas.delete_server import DELETE_SERVER
from mooring.compute.power.sagas.power import REBOOT_SERVER, START_SERVER
from mooring.compute.rebuild.sagas.renew_server import RENEW_SERVER
from tests.laws import basics
from tests.laws.sites import COMPUTE, TOLD, Scenario, Site, Wants


async def nothing(site: Site) -> None:
    del site


async def a_told_server(site: Site) -> None:
    """A server that runs, with a drive."""
    method, path, body = _new(site)
    site.names["server"] = (await site.get(method, path, body))["server"]["id"]
    await site.cloud.settle()


async def a_told_server_that_is_off(site: Site) -> None:
    """The same, which was stopped, and told of another role since."""
    await a_told_server(site)
    await site.get("POST", f"{COMPUTE}/servers/{{server}}/action", {"os-stop": None})
    await site.cloud.settle()
    changed = {"metadata": {"role": "web"}}
    await site.get("POST", f"{COMPUTE}/servers/{{server}}/metadata", changed)


async def create(site: Site) -> Any:
    return await site.ask(*_new(site))


async def start(site: Site) -> Any:
    return await basics.act_on_server(site, "os-start")


async def reboot(site: Site) -> Any:
    return await basics.act_on_server(site, "reboot", {"type": "HARD"})


async def rebuild(site: Site) -> Any:
    value = {"imageRef": site.names["image"], "metadata": {"role": "new"}}
    path = f"{COMPUTE}/servers/{{server}}/action"
    return await site.ask("POST", path, {"rebuild": value}, version="2.93")


async def delete(site: Site) -> Any:
    return await site.ask("DELETE", f"{COMPUTE}/servers/{{server}}")


def _new(site: Site) -> tuple[str, str, Any]:
    method, path, body = basics.new_server(site)
    return method, path, {"server": {**body["server"], **TOLD}}


_ON_SERVER = Wants("server", "server")
DRIVES = [
    Scenario("create with a drive", CREATE_SERVER, nothing, create, wants=Wants()),
    Scenario(
        "start with a drive", START_SERVER, a_told_server_that_is_off, start, wants=_ON_SERVER
    ),
    Scenario("hard reboot with a drive", REBOOT_SERVER, a_told_server, reboot, wants=_ON_SERVER),
    Scenario("rebuild with a drive", RENEW_SERVER, a_told_server, rebuild, wants=_ON_SERVER),
    Scenario("delete with a drive", DELETE_SERVER, a_told_server, delete, wants=_ON_SERVER),
]
