"""One host's agent: what it holds, and the verbs about the host itself."""

from __future__ import annotations

import asyncio
import platform
import sys
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from mooring.agent.connections import Connections
from mooring.agent.drivers.base import VolumeDriver
from mooring.agent.events import EventLog
from mooring.agent.hypervisor import Facts, Hypervisor
from mooring.agent.images import ImageCache
from mooring.agent.mounts import Mounts
from mooring.agent.serving import Call, Handlers
from mooring.agent.settings import AgentSettings
from mooring.agent_api import verbs
from mooring.agent_api.disks import SeenDisk
from mooring.agent_api.hosts import Events, Host, Inventory, Pool
from mooring.agent_api.servers import Guest
from mooring.errors import Forbidden, Invalid, MooringError, NotFound, Unavailable
from mooring.fence.journal import Answer, Journal
from mooring.limits import AGENT_POLL_S, AGENT_POOL_ANSWER_S
from mooring.probe import NoProbe, Probe

if TYPE_CHECKING:
    from mooring.agent.certificate import Credentials
    from mooring.agent.copying import Copying

log = structlog.get_logger()


class Agent:
    """All that the verbs of one host work with."""

    def __init__(
        self,
        settings: AgentSettings,
        *,
        journal: Journal,
        hypervisor: Hypervisor | None,
        drivers: Sequence[VolumeDriver],
        images: ImageCache,
        connections: Connections,
        mounts: Mounts,
        events: EventLog,
        copying: Copying | None = None,
    ) -> None:
        self.settings, self.journal = settings, journal
        self._hypervisor = hypervisor
        self.drivers = {driver.pool.name: driver for driver in drivers}
        self.images, self.connections, self.mounts = images, connections, mounts
        self.events, self._copying = events, copying
        self._asked: dict[str, asyncio.Task[Pool]] = {}
        self.probe: Probe = NoProbe()
        self.credentials: Credentials | None = None
        """Of a host that joined, set by whoever serves it over TLS."""

    @property
    def hypervisor(self) -> Hypervisor:
        """What runs guests here. Raises Forbidden on a host without the role compute."""
        if self._hypervisor is None:
            raise Forbidden(f"Host {self.settings.name} runs no guests: it lacks the role compute.")
        return self._hypervisor

    @property
    def copying(self) -> Copying:
        """What gives and takes disks here. Raises Forbidden, as `hypervisor` does."""
        if self._copying is None:
            raise Forbidden(f"Host {self.settings.name} runs no guests: it lacks the role compute.")
        return self._copying

    @property
    def runs_guests(self) -> bool:
        """Whether the host has the role compute."""
        return self._hypervisor is not None

    async def ask_stats(self, driver: VolumeDriver) -> Pool:
        """Return a pool's numbers. Raises Unavailable when they do not come soon, and OSError.

        One that keeps its callers waiting is asked once, however many wait.
        """
        name = driver.pool.name
        if (asked := self._asked.get(name)) is None:
            asked = self._asked[name] = asyncio.ensure_future(driver.stats())
            # Nobody may come back for what it raises.
            asked.add_done_callback(lambda done: done.cancelled() or done.exception())
        done, _ = await asyncio.wait({asked}, timeout=AGENT_POOL_ANSWER_S)
        if not done:
            raise Unavailable(f"Pool {name} does not answer. See to its storage.")
        self._asked.pop(name, None)
        return asked.result()

    def driver(self, pool: str) -> VolumeDriver:
        """Return the driver of a pool. Raises NotFound."""
        if (driver := self.drivers.get(pool)) is None:
            raise NotFound(f"Host {self.settings.name} has no pool {pool}.")
        return driver


handlers = Handlers[Agent]()


@handlers.of(verbs.SHOW_HOST)
async def show_host(call: Call[Agent]) -> Answer:
    """Answer what the host is and has."""
    agent = call.agent
    settings = agent.settings
    facts = await agent.hypervisor.facts() if agent.runs_guests else None
    host = Host(
        name=settings.name,
        incarnation=agent.journal.incarnation,
        version=facts.agent_version if facts else settings.version,
        roles=list(settings.roles),
        pools=await asyncio.gather(*(_stats(agent, one) for one in agent.drivers.values())),
        ip=settings.ip,
        architecture=platform.machine(),
        **_offers(facts),
    )
    return Answer(body=host)


@handlers.of(verbs.SHOW_CONNECTOR)
async def show_connector(call: Call[Agent]) -> Answer:
    """Answer how this host connects volumes (facts/block_storage.md 10.1)."""
    settings = call.agent.settings
    connector: dict[str, Any] = {
        "host": settings.name,
        "ip": settings.ip,
        "platform": platform.machine(),
        "os_type": sys.platform,
        "multipath": False,
        "enforce_multipath": False,
        "do_local_attach": False,
    }
    return Answer(body=connector)


@handlers.of(verbs.SHOW_INVENTORY)
async def show_inventory(call: Call[Agent]) -> Answer:
    """Answer everything on the host."""
    agent = call.agent
    drivers = agent.drivers.values()
    leftovers = [path for driver in drivers for path in await driver.leftovers()]
    if agent.runs_guests:
        leftovers += await agent.hypervisor.leftovers()
    guests = await agent.hypervisor.guests() if agent.runs_guests else []
    inventory = Inventory(
        name=agent.settings.name,
        incarnation=agent.journal.incarnation,
        guests=guests,
        disks=[seen async for seen in _disks(agent, guests)],
        volumes=[volume for driver in drivers for volume in await driver.volumes()],
        images=agent.images.images(),
        connections=agent.connections.connected(),
        leftovers=leftovers + agent.images.leftovers() + await agent.mounts.unused(),
    )
    return Answer(body=inventory)


@handlers.of(verbs.SHOW_EVENTS)
async def show_events(call: Call[Agent]) -> Answer:
    """Answer the news after a number."""
    agent = call.agent
    wait_s = min(call.number("wait", 0.0), AGENT_POLL_S)
    found = await agent.events.after(int(call.number("after", 0)), wait_s)
    last = found[-1].number if found else agent.events.last
    return Answer(body=Events(incarnation=agent.journal.incarnation, events=found, last=last))


async def _disks(agent: Agent, guests: Sequence[Guest]) -> AsyncIterator[SeenDisk]:
    """Yield the guests' volumes; one whose guest or image goes meanwhile hides no other."""
    for guest in guests:
        for disk in guest.disks:
            try:
                size = await agent.hypervisor.disk_size(guest.server_id, disk.volume_id)
            except (MooringError, OSError) as error:
                log.info("a disk cannot be read", volume=disk.volume_id, error=str(error))
                continue
            yield SeenDisk(server_id=guest.server_id, volume_id=disk.volume_id, size=size)


async def _stats(agent: Agent, driver: VolumeDriver) -> Pool:
    """Return a pool's numbers; one that cannot be read says so and hides no other."""
    try:
        return await agent.ask_stats(driver)
    except OSError as error:
        problem = f"The pool cannot be read: {error.strerror}."
    except (Unavailable, Invalid) as error:
        log.warning("a pool cannot be used", pool=driver.pool.name, reason=str(error))
        problem = error.public
    return Pool(
        name=driver.pool.name,
        driver=driver.pool.driver,
        total_gib=0,
        free_gib=0,
        hosts=driver.hosts,
        problem=problem,
    )


def _offers(facts: Facts | None) -> dict[str, Any]:
    if facts is None:
        return {}
    return {
        "hypervisor": facts.kind,
        "hypervisor_version": facts.version,
        "accelerator": facts.accelerator,
        "vcpus": facts.vcpus,
        "memory_mib": facts.memory_mib,
        "disk_gib": facts.disk_gib,
        "traits": sorted(facts.traits),
        "problem": facts.problem,
    }
