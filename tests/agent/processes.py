"""Agents that are processes of their own, to be killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

from mooring.agent.waiting import until
from mooring.agent_api.client import AgentClient, Agents
from tests.agent import run_agent
from tests.agent.hosts import CHECKOUT, TestHost
from tests.kill.processes import NURSERY

READY_S = ENDS_S = 60.0
_ENVIRONMENT = {"PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}", "PATH": os.environ["PATH"]}


class Started(Protocol):
    """An agent's process, from the side of who started it."""

    @property
    def pid(self) -> int: ...

    def kill(self) -> None:
        """Send it SIGKILL."""
        ...

    def poll(self) -> int | None:
        """Return how it ended, or None while it runs."""
        ...

    def wait(self, timeout: float) -> object:
        """Wait for its end, so many seconds at most."""
        ...


class AgentProcess:
    """A running agent and its client."""

    def __init__(self, process: Started, client: AgentClient, *, real: bool) -> None:
        self.process, self.client = process, client
        self.host = TestHost(client, real=real)

    async def kill(self) -> None:
        """End it the hard way."""
        self.process.kill()
        await self.died()

    async def died(self) -> None:
        """Wait until it is gone."""
        await asyncio.to_thread(self.process.wait, ENDS_S)


class Forked:
    """An agent forked from a process that has imported all of it: a tenth of what a start costs."""

    def __init__(self, *words: str) -> None:
        said = Connection(os.dup(2), readable=False)
        self._process = NURSERY.Process(target=_run_forked, args=(words, said))
        self._process.start()
        said.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> object:
        self._process.join(timeout)
        assert self.poll() is not None, f"the agent did not end within {timeout} s"
        return self.poll()


def _run_forked(words: Sequence[str], said: Connection) -> None:
    for number in (1, 2):
        os.dup2(said.fileno(), number)
    run_agent.run(words)


@asynccontextmanager
async def agent_process(
    state_dir: Path, hypervisor: str, kill_at: str = "", storage: str = ""
) -> AsyncGenerator[AgentProcess]:
    """Start an agent, which ends itself with SIGKILL where `kill_at` says."""
    words = (str(state_dir), hypervisor, kill_at, storage)
    # A process that has had libvirt is not forked, and guests outlive theirs.
    if hypervisor == "simulated":
        async with _agent(Forked(*words), state_dir, real=False) as agent:
            yield agent
    else:
        async with agent_behind([], state_dir, *words[1:]) as agent:
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
    async with _agent(process, state_dir, real=hypervisor == "libvirt") as agent:
        yield agent


@asynccontextmanager
async def _agent(process: Started, state_dir: Path, *, real: bool) -> AsyncGenerator[AgentProcess]:
    """Give an agent that was started once it answers, and end it."""
    socket = state_dir / "socket"
    client = Agents().unix("host-1", str(socket))
    try:
        answers = await until(lambda: process.poll() is not None or _listens(socket), READY_S)
        assert answers, "the agent never came up"
        assert process.poll() is None, "the agent ended at once"
        yield AgentProcess(process, client, real=real)
    finally:
        process.kill()
        await asyncio.to_thread(process.wait, ENDS_S)
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
