"""Several hosts of `mooring up`, opened and made known."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from mooring.errors import Invalid
from mooring.lab.processes import SOCKET, HostCommand, host_process

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AsyncExitStack

    from mooring.agent_api.client import Agents
    from mooring.config import Settings


async def open_lab(
    settings: Settings,
    names: Sequence[str],
    agents: Agents,
    stack: AsyncExitStack,
    say: Callable[[str], None],
) -> None:
    """Start hosts of these names and make them known, until the stack is left.

    Raises Invalid where this machine cannot have them, Unavailable when one does not come up.
    """
    if settings.hypervisor == "libvirt":
        raise Invalid(
            f"This machine is one host to libvirt, not {settings.hosts}. Leave --hosts out, or "
            "choose --hypervisor simulated."
        )
    opened = await asyncio.gather(
        *(_open(settings, name, agents, stack, say) for name in names), return_exceptions=True
    )
    for failure in opened:
        if failure is not None:
            raise failure


async def _open(
    settings: Settings,
    name: str,
    agents: Agents,
    stack: AsyncExitStack,
    say: Callable[[str], None],
) -> None:
    directory = settings.state_path / "hosts" / name
    directory.mkdir(mode=0o711, parents=True, exist_ok=True)
    command = HostCommand(
        name=name,
        directory=directory,
        options=("--hypervisor", "simulated"),
        settings={
            "log_level": settings.log_level,
            "copy_mib_per_s": str(settings.copy_mib_per_s),
        },
    )
    pid = await stack.enter_async_context(host_process(command, say))
    # The path of a socket must be short, and a state directory's need not be.
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(os.close, handle)
    agents.unix(name, f"/proc/self/fd/{handle}/{SOCKET}")
    say(f"host {name}: simulated, process {pid}")
