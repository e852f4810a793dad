"""Scenarios for growing a volume under its running guest, and for telling a guest of a size."""

from __future__ import annotations

from typing import Any

from mooring.compute.volumes.sagas.extend_volume import EXTEND_VOLUME as GROW
from mooring.volume.extend.sagas.extend_volume import EXTEND_VOLUME
from tests.crowd import on_servers
from tests.crowd.case import Case
from tests.laws import basics
from tests.laws.extend_scenarios import extend
from tests.laws.sites import COMPUTE, Scenario, Site, Wants


async def a_server_with_volume(site: Site) -> None:
    await basics.a_server_with_volume(site)


async def tell_size(site: Site) -> Any:
    """Say that the volume has its new size already, as every volume service may."""
    event = {
        "server_uuid": site.names["server"],
        "name": "volume-extended",
        "tag": site.names["volume"],
    }
    path = f"{COMPUTE}/os-server-external-events"
    return await site.ask("POST", path, {"events": [event]}, user="volume", version="2.51")


_BY_VOLUME = ("messages", "volumes", "sound_volumes")
_BY_COMPUTE = ("faults", "instance_actions", "block_devices", "disk_sizes", "storage")
_ON_BOTH = Wants("server volume", "server volume")
EVENT_SCENARIOS = [
    Scenario("tell the size", GROW, a_server_with_volume, tell_size, wants=_ON_BOTH),
    Scenario("grow under a guest", GROW, a_server_with_volume, extend, _BY_VOLUME, wants=_ON_BOTH),
    Scenario(
        "extend under a guest",
        EXTEND_VOLUME,
        a_server_with_volume,
        extend,
        ("messages", *_BY_COMPUTE),
        wants=_ON_BOTH,
    ),
]
CROWD = [
    Case(
        route="POST /os-server-external-events",
        before=(on_servers.SERVER,),
        body={"events": [{"server_uuid": "{s}", "name": "network-changed", "tag": "tag#"}]},
    ),
]
