"""A host as an operator starts it: that of `mooring up`, and that of `mooring agent`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from pathlib import Path

from mooring.agent_api.client import AgentClient, Agents
from mooring.agent_process import Way, run_agent
from mooring.config import Settings
from mooring.up import host_names, open_hosts

Start = Callable[[Settings], AbstractAsyncContextManager[tuple[AgentClient, Path]]]


@asynccontextmanager
async def up(settings: Settings) -> AsyncGenerator[tuple[AgentClient, Path]]:
    """The host of `mooring up`, and its directory."""
    agents, [name] = Agents(), host_names(settings)
    async with AsyncExitStack() as stack:
        await open_hosts(settings, agents, stack, lambda _: None)
        yield agents[name], settings.state_path / "hosts" / name


@asynccontextmanager
async def agent(settings: Settings) -> AsyncGenerator[tuple[AgentClient, Path]]:
    """The host of `mooring agent`, and its directory."""
    is_ready, path = asyncio.Event(), settings.state_path / "socket"
    way = Way(name="a", socket_path=path)
    serving = asyncio.create_task(run_agent(settings, way, lambda _: is_ready.set()))
    client = Agents().unix("a", str(path))
    try:
        await is_ready.wait()
        yield client, settings.state_path
    finally:
        await client.close()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


STARTS: list[Start] = [up, agent]
