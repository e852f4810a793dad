"""Growing a volume: a free one, and one that a stopped server has."""

from __future__ import annotations

from typing import Any

from mooring.compute.power.sagas.power import INSIST_ON_STOP
from mooring.volume.extend.sagas.extend_volume import EXTEND_VOLUME
from mooring.volume.volumes.sagas.reset_status import RESET_STATUS
from tests.crowd import on_volumes
from tests.laws import basics
from tests.laws.sites import VOLUME, Scenario, Site, Wants
from tests.laws.told import Event

HELD = "compute.extend_volume"


async def a_volume(site: Site) -> None:
    await basics.a_volume(site)


async def a_server_with_volume(site: Site) -> None:
    await basics.a_server_with_volume(site)


async def a_stopped_server(site: Site) -> None:
    await basics.a_stopped_server(site)


async def extend(site: Site, name: str = "volume") -> Any:
    """Ask for one GiB more, as a client does that knows of attached volumes."""
    path = f"{VOLUME}/volumes/{{{name}}}/action"
    return await site.ask("POST", path, {"os-extend": {"new_size": 2}}, version="3.42")


async def reset_extending(site: Site) -> Any:
    """Reset the status of a volume that grows, while its storage does not answer."""
    site.silence("PUT", "/size", b"size_gib")
    await extend(site)
    await site.until_waiting(EXTEND_VOLUME.name)
    value = {"status": "available"}
    return await basics.act_on_volume(site, "os-reset_status", value, "admin")


async def reset_deleting(site: Site) -> Any:
    """Reset the status of a volume that is being deleted; until then its storage is silent."""
    site.silence("DELETE", site.names["volume"], b"")
    await basics.delete_volume(site)
    value = {"status": "available"}
    answer = await basics.act_on_volume(site, "os-reset_status", value, "admin")
    site.silence("", "", b"")
    return answer


async def insist_on_stop(site: Site) -> Any:
    """Stop a server while the host does not answer who makes its volume grow; later it does."""
    site.silence("PUT", "/size", b"size_bytes")
    await extend(site)
    await site.until_waiting(HELD)
    stopped = await basics.stop(site)
    site.silence("", "", b"")
    return stopped


_TOLD = ("messages", "faults", "instance_actions")
_TOLD_SIZE = (*_TOLD, "block_devices")
"""What compute writes down of a volume that has its size already, when it hears of it."""
_EITHER = (*_TOLD, "volumes", "sound_volumes", "storage")
"""It may have grown, or be reset, before the other one gets there."""
_HUNG = (*_EITHER, "block_devices", "disk_sizes")
_ON_VOLUME = Wants("volume", "volume")
EXTEND_SCENARIOS = [
    Scenario("extend", EXTEND_VOLUME, a_volume, extend, wants=_ON_VOLUME),
    Scenario(
        "extend stopped",
        EXTEND_VOLUME,
        a_stopped_server,
        extend,
        _TOLD_SIZE,
        wants=Wants("server volume", "server volume"),
    ),
    Scenario("reset extending", RESET_STATUS, a_volume, reset_extending, _EITHER, wants=_ON_VOLUME),
    Scenario("reset deleting", RESET_STATUS, a_volume, reset_deleting, _EITHER, wants=_ON_VOLUME),
    Scenario(
        "insist on stop",
        INSIST_ON_STOP,
        a_server_with_volume,
        insist_on_stop,
        _HUNG,
        wants=Wants("server volume", "server volume"),
    ),
]
EVENTS = [
    Event("volume.resize", "growing began; it has the new size"),
    Event("scheduler.extend_volume", "its pool has no room to grow", phases=(), is_error=True),
]
CROWD = [
    on_volumes.case("os-extend", {"new_size": 2}, shows='"size": 2', alone=True),
]
