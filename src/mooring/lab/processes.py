"""One host of a lab: an agent in a process of its own, which is started again when it dies.

It ends with the process that started it, however that ends; what it was at goes on with the next.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import structlog
from msgspec import Struct

from mooring.agent.run import find_program
from mooring.config import environment_for
from mooring.errors import Unavailable
from mooring.limits import AGENT_STOP_S
from mooring.process_groups import check_pid

log = structlog.get_logger()
SOCKET = "agent.sock"
"""Where a host's agent listens, in the host's directory."""
_TRIES, _PAUSE_S, _LONGEST_PAUSE_S = 6, 1.0, 30.0
_STOP_S = AGENT_STOP_S + 5.0
_READY = b"ready "


class HostCommand(Struct, frozen=True, kw_only=True):
    """How one host's agent is started.

    before  words before the agent's own command, which end by executing what follows them
    options further options of `mooring agent`
    settings by name, for its environment; those of this process are not handed on
    """

    name: str
    directory: Path
    hypervisor: str
    before: Sequence[str] = ()
    options: Sequence[str] = ()
    settings: Mapping[str, str] = {}

    @property
    def words(self) -> list[str]:
        """The whole command. Raises Unavailable where `setpriv` is missing."""
        tied = [find_program("setpriv"), "--pdeathsig", "KILL", "--"]
        agent = [*agent_words(self.name, self.directory), "--hypervisor", self.hypervisor]
        return [*tied, *self.before, sys.executable, *agent, *self.options]


def agent_words(name: str, directory: Path) -> list[str]:
    """Return the words by which a host's agent is started, and known among processes."""
    agent = ["-m", "mooring.main", "agent", "--name", name, "--socket", SOCKET]
    return [*agent, "--state-dir", str(directory)]


@asynccontextmanager
async def host_process(command: HostCommand, say: Callable[[str], None]) -> AsyncGenerator[int]:
    """Run a host until the block ends; gives the id of its first process, which answers by then.

    Raises Unavailable when it does not come up.
    """
    async with AsyncExitStack() as stack:
        process = await _begin_patiently(command)
        keeping = asyncio.create_task(_keep(command, process, say))
        stack.push_async_callback(_cancel, keeping)
        yield process.pid


async def _keep(command: HostCommand, process: Process, say: Callable[[str], None]) -> None:
    """Start the agent again each time it ends, until cancelled; then end it."""
    pause_s = _PAUSE_S
    while True:
        code = await _wait(process)
        _tell(say, f"host {command.name}: process {process.pid} ended ({_ending(code)})")
        await asyncio.sleep(_PAUSE_S)
        while (again := await _begin_again(command)) is None:
            log.warning("a host does not start", host=command.name, again_in_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        process, pause_s = again, _PAUSE_S
        _tell(say, f"host {command.name}: started again, process {process.pid}")


def _tell(say: Callable[[str], None], text: str) -> None:
    """Say something to whoever may not listen any more, a closed pipe say."""
    try:
        say(text)
    except Exception as error:  # noqa: BLE001  (nobody waits for whoever keeps the host)
        log.warning("nobody heard what became of a host", said=text, reason=repr(error))


async def _begin_again(command: HostCommand) -> Process | None:
    """Start an agent as `_begin` does; None also when something else went wrong."""
    try:
        return await _begin(command)
    except Exception:
        # Nobody waits for whoever keeps the host, so that nobody would hear of its end.
        log.exception("a host cannot be started", host=command.name)
        return None


async def _begin_patiently(command: HostCommand) -> Process:
    """Start an agent, whose predecessor may still be about to end. Raises Unavailable."""
    for _ in range(_TRIES):
        if (process := await _begin(command)) is not None:
            return process
        await asyncio.sleep(_PAUSE_S)
    raise Unavailable(
        f"Host {command.name} does not start; the lines above say why. Its directory is "
        f"{command.directory}."
    )


async def _begin(command: HostCommand) -> Process | None:
    """Start an agent and return it once it answers; None when it ended instead."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command.words,
            cwd=command.directory,
            env=environment_for(**command.settings),
            stdin=DEVNULL,
            stdout=PIPE,
            # A key that interrupts this process is not for the hosts.
            start_new_session=True,
        )
    except (OSError, Unavailable) as error:
        log.warning("a host cannot be started", host=command.name, error=str(error))
        return None
    try:
        if process.stdout is not None and await _says_ready(process.stdout):
            return process
        await process.wait()
    except BaseException:
        await _end(process)
        raise
    return None


async def _says_ready(said: asyncio.StreamReader) -> bool:
    async for line in said:
        if line.startswith(_READY):
            return True
    return False


async def _wait(process: Process) -> int:
    """Return how a process ended. When this is cancelled, the process is ended first."""
    try:
        return await process.wait()
    except asyncio.CancelledError:
        await _end(process)
        raise


async def _end(process: Process) -> None:
    """End an agent as an operator would, or with force when it takes too long."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(check_pid(process.pid), signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), _STOP_S)
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.kill(check_pid(process.pid), signal.SIGKILL)
        await process.wait()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
