"""Which hosts reach the volumes of a server: its pools say it, through the volume service."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from mooring.clients.pools import list_pools
from mooring.errors import NotFound

if TYPE_CHECKING:
    from mooring.clients.volume import VolumeClient

Reach = Mapping[str, list[str]]
"""By pool, for those that not every host reaches: the hosts that do."""


async def find_reach(volumes: VolumeClient, volume_ids: Collection[str]) -> dict[str, list[str]]:
    """Return the pools of volumes that only some hosts reach, with these hosts.

    A volume that is gone, or lies nowhere yet, asks for nothing; nor does a pool of a volume
    service that does not tell.
    """
    if not volume_ids:
        return {}
    limited = {
        pool.name: pool.reached_by
        for pool in await list_pools(volumes.session, None)
        if pool.reached_by is not None
    }
    found: dict[str, list[str]] = {}
    for volume_id in volume_ids if limited else ():
        try:
            name = (await volumes.show(None, volume_id)).pool or ""
        except NotFound:
            continue
        if name in limited:
            found[name] = limited[name]
    return found


def refusal(reach: Reach, host: str) -> str:
    """Return which pool a host does not reach, in words behind a number of hosts; "" for none."""
    for name, hosts in reach.items():
        if host not in hosts:
            return f"out of reach of pool {name.rpartition('#')[2]}"
    return ""
