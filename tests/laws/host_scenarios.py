"""Scenarios of hosts, for which an administrator asks."""

from __future__ import annotations

from typing import Any

from mooring.compute.hosts.sagas.fence_host import FENCE_HOST
from tests.crowd.case import Case
from tests.laws.sites import COMPUTE, FOURTH, THIRD, Scenario, Site, Wants


async def a_host(site: Site) -> None:
    """A host that has nothing."""
    site.names["host"] = THIRD


async def a_host_that_is_down(site: Site) -> None:
    """A host that an administrator has said to be down."""
    await a_host(site)
    body = {"host": THIRD, "binary": "nova-compute", "forced_down": True}
    how = {"user": "admin", "version": "2.11"}
    await site.get("PUT", f"{COMPUTE}/os-services/force-down", body, **how)


async def fence_host(site: Site) -> Any:
    """Fence a host that no server is on."""
    host = FOURTH if "asker" in site.names else THIRD
    return await site.ask("PUT", f"{COMPUTE}/mooring/fences/{host}", {"force": True}, user="admin")


HOSTS = [
    Scenario("fence", FENCE_HOST, a_host, fence_host, hosts=(THIRD,), wants=Wants("host", "host")),
    Scenario(
        "fence again",
        FENCE_HOST,
        a_host_that_is_down,
        fence_host,
        hosts=(THIRD,),
        wants=Wants("host", "host"),
    ),
]
CROWD = [
    Case(route="PUT /mooring/fences/{host}", path="/mooring/fences/{host}", refused=True),
]
"""No fence is set there."""
