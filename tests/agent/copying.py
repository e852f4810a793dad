"""Two hosts of this process, and a disk that goes from one to the other."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from msgspec import Struct

from mooring.agent.app import open_agent
from mooring.agent.pace import Pace
from mooring.agent.settings import AgentSettings
from mooring.agent_api.client import AgentClient, Agents
from mooring.agent_api.copies import Offer
from mooring.agent_api.servers import PowerRequest
from mooring.errors import MooringError
from mooring.fence.operation import Operation
from tests.agent.hosts import TestHost, new_id, operation

MIB = 1024**2
OFF = PowerRequest(state="off")


class Pair(Struct):
    """Two hosts of this process, and a guest of the first one, which is off."""

    here: AgentClient
    there: AgentClient
    directory: Path
    server_id: str

    async def offer(self) -> Offer:
        """Have the guest's disk offered."""
        return await self.here.put_offer(self.server_id, operation=operation())

    async def copy(self, offer: Offer, named: Operation | None = None) -> None:
        """Have it copied."""
        await self.there.put_copy(self.server_id, offer, operation=named or operation())

    async def is_coming(self) -> bool:
        """Whether some of it has come."""
        try:
            return (await self.there.show_copy(self.server_id)).copied_bytes > 0
        except MooringError:
            return False

    @property
    def source(self) -> Path:
        """The disk that is offered."""
        return root(self.directory / "a", self.server_id)

    @property
    def copied(self) -> Path:
        """The disk that is made of it."""
        return root(self.directory / "b", self.server_id)


async def never(seconds: float) -> None:
    """Rest for ever."""
    del seconds
    await asyncio.Event().wait()


def root(state_dir: Path, server_id: str) -> Path:
    """Where a simulated host keeps the disk of a guest."""
    return state_dir / "guests" / server_id / "root"


async def stop_a_guest(client: AgentClient, state_dir: Path, pieces: int = 0) -> str:
    """Have a host make a guest that is off, whose disk has so many MiB; return its id."""
    host, server_id = TestHost(client, real=False), new_id()
    await host.boot(server_id)
    await client.set_power(server_id, OFF, operation=operation())
    named = operation()
    await client.put_offer(server_id, operation=named)
    await client.withdraw_offer(server_id, operation=named)
    with root(state_dir, server_id).open("r+b") as disk:
        # As a flavor with a disk of this size would have it.
        os.truncate(disk.fileno(), 2 * (pieces + 1) * MIB)
        for number in range(pieces):
            # Every second MiB of the disk is a hole.
            os.pwrite(disk.fileno(), os.urandom(MIB), 2 * number * MIB)
    return server_id


@asynccontextmanager
async def open_pair(tmp_path: Path, *, stalls: bool = False) -> AsyncGenerator[Pair]:
    """Start two hosts; one that `stalls` gives one MiB, and no more."""
    async with AsyncExitStack() as stack:
        clients: list[AgentClient] = []
        for name in ("a", "b"):
            directory = tmp_path / name
            settings = AgentSettings(name=name, state_dir=directory, hypervisor="simulated")
            running = await stack.enter_async_context(open_agent(settings))
            if stalls:
                running.agent.copying.door.pace = Pace(1, rest=never)
            clients.append(Agents().in_process(name, running.app))
        here, there = clients
        server_id = await stop_a_guest(here, tmp_path / "a", 2 if stalls else 1)
        yield Pair(here, there, tmp_path, server_id)
