"""One host's agent: what it holds, and the verbs about the host itself."""

from __future__ import annotations

import platform
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from mooring.agent import capture_files, initiators, uptime
from mooring.agent.connections import Connections
from mooring.agent.drivers.base import VolumeDriver
from mooring.agent.events import EventLog
from mooring.agent.hypervisor import Facts, Hypervisor
from mooring.agent.images import ImageCache
from mooring.agent.mounts import Mounts
from mooring.agent.pools import Pools, SeenVolumes, look_at_shares, look_at_volumes
from mooring.agent.serving import Call, Handlers
from mooring.agent.settings import AgentSettings
from mooring.agent.share_drivers.base import ShareDriver
from mooring.agent.share_mounts.keeping import GuestShares
from mooring.agent.turns import Turns
from mooring.agent_api import verbs
from mooring.agent_api.disks import SeenDisk, UnreadDisk
from mooring.agent_api.guest_shares import MountedShare, ShareClient, UnreadMount
from mooring.agent_api.hosts import Events, Host, Inventory
from mooring.agent_api.servers import Guest
from mooring.errors import Forbidden, MooringError, NotFound
from mooring.fence.journal import Answer, Journal
from mooring.fence.threads import run_to_end
from mooring.limits import AGENT_POLL_S
from mooring.probe import NoProbe, Probe

if TYPE_CHECKING:
    from mooring.agent.certificate import Credentials
    from mooring.agent.copying import Copying
    from mooring.agent.serial_sessions import Sessions

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
        share_drivers: Sequence[ShareDriver],
        images: ImageCache,
        connections: Connections,
        mounts: Mounts,
        events: EventLog,
        copying: Copying | None = None,
        serial: Sessions | None = None,
        guest_shares: GuestShares | None = None,
    ) -> None:
        self.settings, self.journal = settings, journal
        self._hypervisor = hypervisor
        self.drivers = {driver.pool.name: driver for driver in drivers}
        self.share_drivers = {driver.pool.name: driver for driver in share_drivers}
        self.share_turns = Turns()
        self.images, self.connections, self.mounts = images, connections, mounts
        self.events, self._copying = events, copying
        self._guest_shares, self._serial = guest_shares, serial
        self.pools = Pools()
        self.unread_disks: dict[tuple[str, str], str] = {}
        """Why the guests' volumes that could not be read last were not, by server and volume."""
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
    def serial(self) -> Sessions:
        """Who has serial ports of guests open here. Raises Forbidden, as `hypervisor` does."""
        if self._serial is None:
            raise Forbidden(f"Host {self.settings.name} runs no guests: it lacks the role compute.")
        return self._serial

    @property
    def guest_shares(self) -> GuestShares:
        """What mounts shares for guests here. Raises Forbidden, as `hypervisor` does."""
        if self._guest_shares is None:
            raise Forbidden(f"Host {self.settings.name} runs no guests: it lacks the role compute.")
        return self._guest_shares

    @property
    def runs_guests(self) -> bool:
        """Whether the host has the role compute."""
        return self._hypervisor is not None

    @property
    def encrypts_moves(self) -> bool:
        """Whether running guests come and go over TLS, and in no other way."""
        wanted = self.settings.move_tls
        return self._lends_real_guests if wanted is None else wanted

    @property
    def moves_in_the_clear(self) -> bool:
        """Whether who reads along on the network of a host that joined has its guests' memory."""
        return self._lends_real_guests and not self.encrypts_moves

    @property
    def _lends_real_guests(self) -> bool:
        """Whether guests with memory of their own go from here over a network of others."""
        return (
            self.credentials is not None and self.runs_guests and not self.connections.is_simulated
        )

    @property
    def volume_captures(self) -> Path:
        """Where captures of volumes lie, in a directory for each volume."""
        return self.settings.state_dir / "captures"

    def driver(self, pool: str) -> VolumeDriver:
        """Return the driver of a pool. Raises NotFound."""
        if (driver := self.drivers.get(pool)) is None:
            raise NotFound(f"Host {self.settings.name} has no pool {pool}.")
        return driver

    def share_driver(self, pool: str) -> ShareDriver:
        """Return the driver of a pool of shares. Raises NotFound."""
        if (driver := self.share_drivers.get(pool)) is None:
            raise NotFound(
                f"Host {self.settings.name} has no pool of shares {pool}. Nothing was changed; see "
                "to the pools of that host."
            )
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
        pools=await agent.pools.volume_pools([*agent.drivers.values()]),
        share_pools=await agent.pools.share_pools([*agent.share_drivers.values()]),
        shares=agent.guest_shares.client if agent.runs_guests else ShareClient(),
        ip=settings.ip,
        architecture=platform.machine(),
        uptime=uptime.read(datetime.now(UTC)),
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
        # Several simulated hosts are one machine, and connect nothing.
        **({} if call.agent.connections.is_simulated else await run_to_end(initiators.find)),
    }
    return Answer(body=connector)


@handlers.of(verbs.SHOW_INVENTORY)
async def show_inventory(call: Call[Agent]) -> Answer:
    """Answer everything on the host."""
    agent = call.agent
    held = await look_at_volumes(agent.drivers)
    leftovers = held.leftovers + _stray_captures(agent, held) + await _left_by_guests(agent)
    guests = await agent.hypervisor.guests() if agent.runs_guests else []
    seen = await look_at_shares(agent.share_drivers)
    leftovers += seen.leftovers + agent.images.leftovers()
    disks = [one async for one in _disks(agent, guests)]
    mounted, unread_mounts = await mounts_of(agent)
    inventory = Inventory(
        name=agent.settings.name,
        incarnation=agent.journal.incarnation,
        guests=guests,
        disks=[one for one in disks if isinstance(one, SeenDisk)],
        unread_disks=[one for one in disks if isinstance(one, UnreadDisk)],
        volumes=held.volumes,
        shares=seen.shares,
        images=agent.images.images(),
        brought=agent.images.brought(),
        connections=agent.connections.connected(),
        unread_connections=agent.connections.unread(),
        share_mounts=mounted,
        unread_share_mounts=unread_mounts,
        leftovers=[*leftovers, *await agent.mounts.unused()],
        unread_pools=held.unread,
        unread_share_pools=seen.unread,
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


async def mounts_of(agent: Agent) -> tuple[list[MountedShare], list[UnreadMount]]:
    """Return whom a host has shares mounted for, and those unread; none where no guests run."""
    return await agent.guest_shares.mounted() if agent.runs_guests else ([], [])


async def _left_by_guests(agent: Agent) -> list[str]:
    if not agent.runs_guests:
        return []
    return [*await agent.hypervisor.leftovers(), *await agent.guest_shares.leftovers()]


def _stray_captures(agent: Agent, held: SeenVolumes) -> list[str]:
    """Return captures of no volume; a pool that does not answer may have the one they are of."""
    named = {volume.volume_id for volume in held.volumes}
    return [] if held.unread else capture_files.strays(agent.volume_captures, named)


async def _disks(agent: Agent, guests: Sequence[Guest]) -> AsyncIterator[SeenDisk | UnreadDisk]:
    """Yield the guests' volumes; one that cannot be read hides no other, and is told of."""
    before, agent.unread_disks = agent.unread_disks, {}
    for guest in guests:
        for disk in guest.disks:
            server_id, volume_id = guest.server_id, disk.volume_id
            try:
                size = await agent.hypervisor.disk_size(server_id, volume_id)
            except NotFound:
                # The guest let go of it meanwhile.
                continue
            except (MooringError, OSError) as error:
                agent.unread_disks[server_id, volume_id] = str(error)
                if before.get((server_id, volume_id)) != str(error):
                    log.warning(
                        "a disk cannot be read",
                        server=server_id,
                        volume=volume_id,
                        error=str(error),
                    )
                why = error.public if isinstance(error, MooringError) else str(error)
                yield UnreadDisk(server_id=server_id, volume_id=volume_id, why=why)
            else:
                yield SeenDisk(server_id=server_id, volume_id=volume_id, size=size)


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
