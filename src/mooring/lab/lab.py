"""Several hosts of `mooring up`, opened and made known: simulated, or real in namespaces."""

from __future__ import annotations

import asyncio
import os
from ipaddress import ip_address
from typing import TYPE_CHECKING

from mooring.lab import real_hosts
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
        commands = await real_hosts.prepare(settings, names, stack, say)
    else:
        commands = [_simulated(settings, name, at) for at, name in enumerate(names, 1)]
    for command in commands:
        command.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
    opened = await asyncio.gather(
        *(_open(command, agents, stack, say) for command in commands), return_exceptions=True
    )
    for failure in opened:
        if failure is not None:
            raise failure


def _simulated(settings: Settings, name: str, number: int) -> HostCommand:
    directory = settings.state_path / "hosts" / name
    directory.mkdir(mode=0o711, parents=True, exist_ok=True)
    storage = directory / "storage.toml"
    # Rules of shares tell hosts apart by their addresses.
    address = ip_address("127.0.0.0") + number
    storage.write_text(f'[mounts.shares]\nshare_address = "{address}"\n', "utf-8")
    return HostCommand(
        name=name,
        directory=directory,
        hypervisor="simulated",
        options=("--role", "all"),
        settings={
            "log_level": settings.log_level,
            "copy_mib_per_s": str(settings.copy_mib_per_s),
            "storage": str(storage),
        },
    )


async def _open(
    command: HostCommand, agents: Agents, stack: AsyncExitStack, say: Callable[[str], None]
) -> None:
    pid = await stack.enter_async_context(host_process(command, say))
    # The path of a socket must be short, and a state directory's need not be.
    handle = os.open(command.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(os.close, handle)
    agents.unix(command.name, f"/proc/self/fd/{handle}/{SOCKET}")
    say(f"host {command.name}: {command.hypervisor}, process {pid}")
