"""What a host tells of its pools, of volumes and of shares; a silent one hides no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import structlog
from msgspec import Struct

from mooring.agent.drivers.base import VolumeDriver
from mooring.agent.limits import AGENT_POOL_ANSWER_S
from mooring.agent.share_drivers.base import ShareDriver
from mooring.agent_api.hosts import Pool
from mooring.agent_api.shares import HostedShare, SharePool
from mooring.agent_api.volumes import VolumeFile
from mooring.errors import Invalid, Unavailable

log = structlog.get_logger()
P_co = TypeVar("P_co", covariant=True)
P = TypeVar("P")


class Counted(Protocol[P_co]):
    """What a driver has, of volumes or of shares, as far as its numbers go."""

    async def stats(self) -> P_co:
        """Return what the pool has and holds."""
        ...


class SeenVolumes(Struct):
    """What stands in a host's pools of volumes."""

    volumes: list[VolumeFile] = []
    leftovers: list[str] = []
    unread: list[str] = []
    """The pools that do not answer."""


class SeenShares(Struct):
    """What stands in a host's pools of shares."""

    shares: list[HostedShare] = []
    leftovers: list[str] = []
    unread: list[str] = []
    """The pools that do not answer."""


class Pools:
    """Asks pools for their numbers. One that keeps its callers waiting is asked once."""

    def __init__(self) -> None:
        self._asked: dict[object, asyncio.Task[Any]] = {}

    async def volume_pools(self, drivers: Sequence[VolumeDriver]) -> list[Pool]:
        """Return the numbers of all; of one that cannot be read, why."""
        return list(await asyncio.gather(*(self._volume_pool(one) for one in drivers)))

    async def share_pools(self, drivers: Sequence[ShareDriver]) -> list[SharePool]:
        """Return the numbers of all; of one that cannot be read, why."""
        return list(await asyncio.gather(*(self._share_pool(one) for one in drivers)))

    async def _volume_pool(self, driver: VolumeDriver) -> Pool:
        def tell(problem: str) -> Pool:
            return Pool(
                name=driver.pool.name,
                driver=driver.pool.driver,
                total_gib=0,
                free_gib=0,
                hosts=driver.hosts,
                problem=problem,
            )

        return await self._ask(driver, driver.pool.name, tell)

    async def _share_pool(self, driver: ShareDriver) -> SharePool:
        def tell(problem: str) -> SharePool:
            return SharePool(
                name=driver.pool.name,
                driver=driver.pool.driver,
                protocol=driver.protocol,
                total_gib=0,
                free_gib=0,
                problem=problem,
            )

        return await self._ask(driver, driver.pool.name, tell)

    async def _ask(self, driver: Counted[P], name: str, tell: Callable[[str], P]) -> P:
        try:
            return await self._wait(driver, name)
        except (Unavailable, Invalid) as error:
            log.warning("a pool cannot be used", pool=name, reason=str(error))
            return tell(error.public)
        except Exception as error:
            # A host that did not answer for it would seem dead, and be fenced with all its guests.
            log.exception("a pool cannot be read", pool=name)
            return tell(_unreadable(name, error))

    async def _wait(self, driver: Counted[P], name: str) -> P:
        if (asked := self._asked.get(driver)) is None:
            asked = self._asked[driver] = asyncio.ensure_future(driver.stats())
            # Nobody may come back for what it raises.
            asked.add_done_callback(lambda done: done.cancelled() or done.exception())
        done, _ = await asyncio.wait({asked}, timeout=AGENT_POOL_ANSWER_S)
        if not done:
            raise Unavailable(f"Pool {name} does not answer. See to its storage.")
        self._asked.pop(driver, None)
        return asked.result()


async def look_at_volumes(drivers: Mapping[str, VolumeDriver]) -> SeenVolumes:
    """Return what stands in all pools of volumes."""
    seen = SeenVolumes()
    for name, driver in drivers.items():
        try:
            volumes, leftovers = await driver.volumes(), await driver.leftovers()
        except Exception as error:  # noqa: BLE001  (one pool hides no other of its host)
            _tell_unread("a pool of volumes cannot be read", name, error)
            seen.unread.append(name)
            continue
        seen.volumes += volumes
        seen.leftovers += leftovers
    return seen


async def look_at_shares(drivers: Mapping[str, ShareDriver]) -> SeenShares:
    """Return what stands in all pools of shares."""
    seen = SeenShares()
    for name, driver in drivers.items():
        try:
            shares, leftovers = await driver.shares(), await driver.leftovers()
        except Exception as error:  # noqa: BLE001  (one pool hides no other of its host)
            _tell_unread("a pool of shares cannot be read", name, error)
            seen.unread.append(name)
            continue
        seen.shares += shares
        seen.leftovers += leftovers
    return seen


def _tell_unread(what: str, name: str, error: Exception) -> None:
    """Log why one pool is not read; whatever it is, the others of its host are."""
    if isinstance(error, Unavailable | Invalid):
        log.warning(what, pool=name, reason=str(error))
    else:
        log.error(what, pool=name, exc_info=error)


def _unreadable(name: str, error: Exception) -> str:
    return (
        f"Pool {name} cannot be read ({type(error).__name__}); the agent's log says why. Its host "
        "and its other pools have no part in it."
    )
