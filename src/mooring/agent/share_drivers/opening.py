"""Which drivers a host's pools of shares have."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from mooring.agent.known_storage import PoolPlace
from mooring.agent.run import Runner
from mooring.agent.settings import AgentSettings, SharePoolSettings, check_names
from mooring.agent.share_drivers.base import ShareDriver
from mooring.agent.share_drivers.cephfs import CephfsShares
from mooring.agent.share_drivers.directory import DirectoryShares
from mooring.agent.share_drivers.nfs import NfsShares
from mooring.agent.share_drivers.simulated import SimulatedShares
from mooring.errors import Invalid

_NUMBERS = 65535
T = TypeVar("T")


def open_share_pools(
    settings: AgentSettings, runner: Runner, *, simulated: bool
) -> list[ShareDriver]:
    """Return the drivers of a host's pools, not yet set up; none without the role share.

    Raises Invalid for wrong options.
    """
    if "share" not in settings.roles:
        return []
    usual = SharePoolSettings()
    pools = settings.share_pools or (replace(usual, driver="simulated") if simulated else usual,)
    check_names(settings, [pool.name for pool in pools])
    _check_numbers(pools)
    return [_open(settings, pool, runner) for pool in pools]


def _open(settings: AgentSettings, pool: SharePoolSettings, runner: Runner) -> ShareDriver:
    if pool.driver == "simulated":
        file = settings.state_dir / f"shares-{pool.name}.sqlite"
        return SimulatedShares(pool, file.absolute(), settings.ip)
    if pool.driver == "cephfs":
        return CephfsShares(pool, _require(pool, pool.cephfs), runner)
    if pool.protocol != "NFS":
        raise Invalid(
            f"Pool {pool.name} has the driver {pool.driver}, whose shares are of NFS; leave "
            "`protocol` out."
        )
    state_dir = settings.state_dir.absolute()
    known = state_dir / f"shares-{pool.name}.identity"
    place = PoolPlace(state_dir / pool.path, settings.name, known)
    if pool.driver == "directory":
        return DirectoryShares(pool, place, settings.ip, runner)
    if os.geteuid() != 0:
        raise Invalid(f"Pool {pool.name} mounts its shares, which takes an agent that is root.")
    return NfsShares(pool, _require(pool, pool.nfs), place, runner)


def _require(pool: SharePoolSettings, options: T | None) -> T:
    if options is None:
        raise Invalid(
            f"Pool {pool.name} has the driver {pool.driver} and no options for it; set "
            f"`{pool.driver}` in the pool."
        )
    return options


def _check_numbers(pools: Sequence[SharePoolSettings]) -> None:
    """Raise Invalid when exports of two pools of one Ganesha could get the same number."""
    taken: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for pool in pools:
        if pool.nfs is None:
            continue
        first, last = pool.nfs.export_ids
        if not 1 <= first <= last <= _NUMBERS:
            raise Invalid(f"Pool {pool.name} has export_ids that are not of 1 to {_NUMBERS}.")
        if any(first <= high and low <= last for low, high in taken[pool.nfs.bus]):
            raise Invalid(
                f"Pool {pool.name} has export_ids that another pool of the same Ganesha has too; "
                "give each its own."
            )
        taken[pool.nfs.bus].append((first, last))
