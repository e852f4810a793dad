"""Scenarios for growing a volume under its guest, as the compute service is asked for it."""

from __future__ import annotations

from typing import Any

from mooring.compute.sagas.extend_volume import EXTEND_VOLUME
from tests.laws.sites import COMPUTE, Do, Scenario, Site


async def tell_size(site: Site) -> Any:
    """Say that the volume has its new size already, as every volume service may."""
    event = {
        "server_uuid": site.names["server"],
        "name": "volume-extended",
        "tag": site.names["volume"],
    }
    path = f"{COMPUTE}/os-server-external-events"
    return await site.ask("POST", path, {"events": [event]}, user="volume", version="2.51")


def scenarios(a_server_with_volume: Do) -> list[Scenario]:
    """Return the scenarios, each on a server with a volume."""
    return [Scenario("tell the size", EXTEND_VOLUME, a_server_with_volume, tell_size)]
