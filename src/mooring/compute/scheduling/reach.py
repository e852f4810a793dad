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
EVERY_POOL = "every pool"
"""Stands for the pools that a new volume may be made in: who reaches one of them may do."""


async def find_reach(
    volumes: VolumeClient, volume_ids: Collection[str], *, makes_some: bool = False
) -> dict[str, list[str]]:
    """Return the pools of volumes that only some hosts reach, with these hosts.

    A volume that is gone, or lies nowhere yet, asks for nothing; nor does a pool of a volume
    service that does not tell. Where new ones are made, too (`makes_some`), a host has to reach
    some pool that works: which of them has room, and what a type wants, the volume service knows.
    """
    if not volume_ids and not makes_some:
        return {}
    pools = await list_pools(volumes.session, None)
    limited = {pool.name: pool.reached_by for pool in pools if pool.reached_by is not None}
    found: dict[str, list[str]] = {}
    working = [pool.name for pool in pools if pool.is_up]
    if makes_some and working and all(name in limited for name in working):
        found[EVERY_POOL] = sorted({host for name in working for host in limited[name]})
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
            what = name if name == EVERY_POOL else f"pool {name.rpartition('#')[2]}"
            return f"out of reach of {what}"
    return ""


async def may_differ(volumes: VolumeClient) -> bool:
    """Whether a new volume may go to another pool for another host: not every host reaches all."""
    return any(pool.reached_by is not None for pool in await list_pools(volumes.session, None))
