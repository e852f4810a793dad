"""`mooring agent`: one host's agent as a process of its own, behind a Unix socket."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mooring.agent.main import serve
from mooring.agent.settings import AgentSettings
from mooring.agent.storage_file import read_storage
from mooring.probe import from_setting

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.agent.app import RunningAgent
    from mooring.config import Settings


async def run_agent(
    settings: Settings, name: str, socket_path: Path, say: Callable[[str], None]
) -> None:
    """Serve one host until a signal ends it; its guests go on. Raises as `serve` does."""
    storage = read_storage(settings.storage)
    wanted = AgentSettings(
        name=name,
        state_dir=settings.state_path,
        hypervisor=settings.hypervisor,
        pools=storage.pools,
        mounts=storage.mounts,
    )

    def ready(running: RunningAgent) -> None:
        say(f"ready {socket_path}" + (f" ({running.notice})" if running.notice else ""))

    await serve(wanted, socket_path, probe=from_setting(settings.kill_at), ready=ready)
