"""Agents that are processes of their own, to be killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from mooring.agent.waiting import until
from mooring.agent_api.client import AgentClient, Agents
from tests.agent.hosts import CHECKOUT, TestHost

_ENVIRONMENT = {"PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}", "PATH": os.environ["PATH"]}


class AgentProcess:
    """A running agent and its client."""

    def __init__(
        self, process: subprocess.Popen[bytes], client: AgentClient, *, real: bool
    ) -> None:
        self.process, self.client = process, client
        self.host = TestHost(client, real=real)

    async def kill(self) -> None:
        """End it the hard way."""
        self.process.kill()
        await self.died()

    async def died(self) -> None:
        """Wait until it is gone."""
        await asyncio.to_thread(self.process.wait, 60)


@asynccontextmanager
async def agent_process(
    state_dir: Path, hypervisor: str, kill_at: str = "", storage: str = ""
) -> AsyncGenerator[AgentProcess]:
    """Start an agent, which ends itself with SIGKILL where `kill_at` says."""
    async with agent_behind([], state_dir, hypervisor, kill_at, storage) as agent:
        yield agent


@asynccontextmanager
async def agent_behind(
    before: Sequence[str], state_dir: Path, hypervisor: str, *more: str
) -> AsyncGenerator[AgentProcess]:
    """Start an agent by a command that ends as the agent; `more` as `run_agent.py` takes it."""
    script = Path(__file__).with_name("run_agent.py")
    command = [*before, sys.executable, str(script), str(state_dir), hypervisor, *more]
    process = await asyncio.to_thread(
        lambda: subprocess.Popen(command, env=_ENVIRONMENT, cwd=CHECKOUT)
    )
    socket = state_dir / "socket"
    client = Agents().unix("host-1", str(socket))
    try:
        answers = await until(lambda: process.poll() is not None or _listens(socket), 60)
        assert answers, "the agent never came up"
        assert process.poll() is None, "the agent ended at once"
        yield AgentProcess(process, client, real=hypervisor == "libvirt")
    finally:
        process.kill()
        await asyncio.to_thread(process.wait, 60)
        await client.close()


def _listens(path: Path) -> bool:
    import socket

    with socket.socket(socket.AF_UNIX) as trying:
        try:
            trying.connect(str(path))
        except OSError:
            return False
    return True


def emulators(words: str) -> list[int]:
    """Return the pids of QEMU processes whose command line has these words."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if "qemu-system" in line.split(" ", 1)[0] and words in line:
            found.append(int(process.name))
    return found
