"""Which drivers a host's pools of shares have."""

from __future__ import annotations

from msgspec.structs import replace

from mooring.agent.run import Runner
from mooring.agent.settings import AgentSettings, SharePoolSettings, check_names
from mooring.agent.share_drivers.base import ShareDriver
from mooring.agent.share_drivers.directory import DirectoryShares
from mooring.agent.share_drivers.simulated import SimulatedShares
from mooring.errors import Invalid


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
    return [_open(settings, pool, runner) for pool in pools]


def _open(settings: AgentSettings, pool: SharePoolSettings, runner: Runner) -> ShareDriver:
    if pool.driver == "simulated":
        file = settings.state_dir / f"shares-{pool.name}.sqlite"
        return SimulatedShares(pool, file.absolute(), settings.ip)
    if pool.protocol != "NFS":
        raise Invalid(
            f"Pool {pool.name} has the driver {pool.driver}, whose shares are of NFS; leave "
            "`protocol` out."
        )
    return DirectoryShares(pool, settings.state_dir / pool.path, settings.ip, runner)
