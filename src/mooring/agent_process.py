"""`mooring agent`: one host's agent as a process of its own, behind a Unix socket."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from mooring import sockets
from mooring.agent.app import open_agent
from mooring.agent.settings import AgentSettings
from mooring.http_server import listening

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.config import Settings


async def run_agent(
    settings: Settings, name: str, socket_path: Path, say: Callable[[str], None]
) -> None:
    """Serve one host until a signal ends it; its guests go on. Raises as `open_agent` does."""
    async with AsyncExitStack() as stack:
        wanted = AgentSettings(
            name=name, state_dir=settings.state_path, hypervisor=settings.hypervisor
        )
        running = await stack.enter_async_context(open_agent(wanted))
        listener = sockets.open_unix(socket_path)
        stack.callback(listener.close)
        served = await stack.enter_async_context(listening(running.app, listener))
        say(f"ready {socket_path}" + (f" ({running.notice})" if running.notice else ""))
        await served
