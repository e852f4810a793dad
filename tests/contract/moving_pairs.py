"""Two hosts of each kind between which guests move, and a guest that is to move.

Real ones are two libvirt daemons, each in namespaces of its own (facts/real_hosts.md 4).
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from mooring.agent import swap_disks
from mooring.agent.app import RunningAgent
from mooring.agent.settings import HypervisorKind
from mooring.agent.simulated import SimulatedHypervisor
from mooring.agent.waiting import until_told
from mooring.agent_api.disks import DiskSpec
from mooring.errors import Invalid
from mooring.lab.namespaces import check_able
from mooring.lab.real_hosts import RealHosts
from tests.agent.daemons import open_daemon
from tests.agent.hosts import GUEST_IMAGE, TestHost, new_id, open_host, operation
from tests.agent.processes import AgentProcess, agent_behind

_NAMES = ("moor-a", "moor-b")
_ANSWERS_S = 30.0
FAST_MIB_S, SLOW_MIB_S = 10_000, 1
"""How fast a real guest may leave."""


class Hosts(Struct, frozen=True):
    """Where a guest is, and where it is to go; `directory` is one that both see."""

    here: TestHost
    there: TestHost
    directory: Path
    sources: tuple[RunningAgent | Path, RunningAgent | Path]
    """Of both: the agent of a simulated one, the directory of a real one."""

    def swapped(self) -> Hosts:
        """Return them for the way back."""
        first, second = self.sources
        return Hosts(self.there, self.here, self.directory, (second, first))

    @contextmanager
    def slow(self, server_id: str) -> Generator[None]:
        """Let the guest leave so slowly in the body that it does not get there."""
        source = self.sources[0]
        if isinstance(source, Path):
            _pace(source, server_id, SLOW_MIB_S)
            yield
            _pace(source, server_id, FAST_MIB_S)
            return
        hypervisor = source.agent.hypervisor
        assert isinstance(hypervisor, SimulatedHypervisor)
        hypervisor.knobs.hold("send_rest")
        yield
        hypervisor.knobs.release("send_rest")


def _pace(host: Path, server_id: str, mib_s: int) -> None:
    with open_daemon(host) as connection:
        connection.lookupByName(f"mooring-{server_id}").migrateSetMaxSpeed(mib_s)


class Moving(Struct, frozen=True):
    """A guest of the first host with a volume, and by what attachment the second one has that."""

    hosts: Hosts
    server_id: str
    disk: DiskSpec
    second: str

    def swaps(self) -> tuple[Path, Path]:
        """Return where both hosts keep the guest's swap disk."""
        first, second = (
            source / "state" if isinstance(source, Path) else source.agent.settings.state_dir
            for source in self.hosts.sources
        )
        own = Path("guests") / self.server_id / swap_disks.FILE
        return first / own, second / own

    async def states(self) -> tuple[str, str]:
        """Return what both hosts hold of the guest."""
        both = (self.hosts.here.client, self.hosts.there.client)
        found = [await client.show_server(self.server_id) for client in both]
        first, second = ("absent" if guest is None else guest.state for guest in found)
        return first, second

    async def until(self, first: str, second: str) -> None:
        """Wait until the hosts hold the guest so."""

        async def holds() -> bool:
            return await self.states() == (first, second)

        assert await until_told(holds, _ANSWERS_S), await self.states()

    async def expect(self) -> None:
        """Let the other host expect the guest as it is."""
        portrait = await self.hosts.here.client.show_portrait(self.server_id)
        client = self.hosts.there.client
        await client.put_arrival(self.server_id, portrait, operation=operation())

    async def connect(self) -> None:
        """Let the other host connect the volume."""
        names = self.second, self.disk.volume_id, self.disk.connection
        client = self.hosts.there.client
        await client.connect(*names, server_id=self.server_id, operation=operation())

    async def turn_away(self) -> None:
        """Let the other host expect the guest no more, nor have its volume."""
        client = self.hosts.there.client
        await client.delete_arrival(self.server_id, operation=operation())
        await client.disconnect(self.second, operation=operation())

    async def send(self, **otherwise: Any) -> None:
        """Send the guest, with what is otherwise than the other host says."""
        arrival = await self.hosts.there.client.show_arrival(self.server_id)
        client, arrival = self.hosts.here.client, replace(arrival, **otherwise)
        await client.put_departure(self.server_id, arrival, operation=operation())


@asynccontextmanager
async def open_hosts(kind: HypervisorKind, directory: Path) -> AsyncGenerator[Hosts]:
    """Start two hosts. Skips where no real ones can be made of this machine."""
    async with AsyncExitStack() as stack:
        if kind == "simulated":
            opened = [open_host(directory / name, name=name) for name in ("a", "b")]
            found = [await stack.enter_async_context(one) for one in opened]
            (here, first), (there, second) = found
            sources: Any = (first, second)
        else:
            agents = await stack.enter_async_context(open_real_agents(directory))
            here, there = (agent.host for agent in agents)
            sources = tuple(directory / "hosts" / name for name in _NAMES)
        yield Hosts(here, there, directory, sources)
        for host in (here, there):
            for guest in await host.client.list_servers():
                await host.remove(guest.server_id)
            assert (await host.client.inventory()).leftovers == []


@asynccontextmanager
async def open_real_agents(directory: Path) -> AsyncGenerator[tuple[AgentProcess, AgentProcess]]:
    """Start two libvirt daemons with their agents. Skips where this machine cannot have them."""
    try:
        await check_able(2)
    except Invalid as error:
        pytest.skip(error.public)
    lab = RealHosts(directory, _NAMES)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(lab.close, guests=True)
        await lab.open()
        found: list[AgentProcess] = []
        for host in lab.hosts:
            more = ("", "", host.name, host.namespace.address)
            agent = agent_behind(host.before(), host.directory / "state", "libvirt", *more)
            found.append(await stack.enter_async_context(agent))
        yield found[0], found[1]


async def boot(hosts: Hosts, swap_mib: int = 0) -> Moving:
    """Make a guest that is up, with a volume of both hosts, and perhaps a swap disk."""
    server_id, second, disk = new_id(), new_id(), await _disk(hosts)
    await hosts.here.boot(server_id, [disk], swap_mib=swap_mib)
    await hosts.there.push_image()
    return Moving(hosts, server_id, disk, second)


async def _disk(hosts: Hosts) -> DiskSpec:
    if not hosts.here.real:
        return await hosts.here.make_disk()
    image = hosts.directory / "volume.qcow2"
    await asyncio.to_thread(shutil.copyfile, GUEST_IMAGE, image)
    data = {"device_path": str(image), "format": "qcow2"}
    connection = {"driver_volume_type": "local", "data": data}
    return DiskSpec(volume_id=new_id(), attachment_id=new_id(), connection=connection)
