"""Processes of a cloud that say `ready`, and that can be ended with SIGKILL."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

from mooring.agent.knobs import Knobs

READY_S = 240.0
NURSERY = multiprocessing.get_context("forkserver")
"""Whoever starts processes of `mooring` forks them from its server, which has imported it all."""
# Importing the services takes twenty times what starting them takes, and a kill test starts three
# processes. `pytest` is what the children would otherwise import as their main module.
PRELOADED = [
    "pytest",
    "mooring.main",
    "mooring.up",
    "mooring.agent_process",
    "mooring.host_command",
    "tests.agent.run_agent",
    "tests.kill.warmed",
]
NURSERY.set_forkserver_preload(PRELOADED)


class Process(Protocol):
    """A part of a cloud, in a process of its own."""

    ready: str
    """What it said when it was: the address where it answers."""

    @property
    def pid(self) -> int:
        """Its number, to send signals to."""
        ...

    def kill(self) -> None:
        """End it with SIGKILL, now."""
        ...

    def wait(self, timeout_s: float = READY_S) -> int:
        """Wait for its end and return how it ended: the exit code, or minus the signal."""
        ...

    def is_dead(self) -> bool:
        """Whether it has ended, however."""
        ...


class CommandProcess:
    """One `mooring` command, started as an operator starts it; `before` ends as the command."""

    def __init__(
        self, *arguments: str, log: Path, kill_at: str = "", before: Sequence[str] = ()
    ) -> None:
        environment = {**os.environ, "MOORING_KILL_AT": kill_at}
        self.log = log.open("ab")
        self.popen = subprocess.Popen(
            [*before, sys.executable, "-m", "mooring.main", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        assert self.popen.stdout is not None
        self._said = self.popen.stdout
        self.ready = _await_ready(self._said, self)

    @property
    def pid(self) -> int:
        return self.popen.pid

    def kill(self) -> None:
        self.popen.send_signal(signal.SIGKILL)
        self.wait()

    def wait(self, timeout_s: float = READY_S) -> int:
        code = self.popen.wait(timeout_s)
        self._said.close()
        self.log.close()
        return code

    def is_dead(self) -> bool:
        return self.popen.poll() is not None


class ForkedProcess:
    """One `mooring` command, forked from a process that has imported all of it already.

    Where it simulates a world, all wait at the point `held_at` of that until something releases it.
    """

    def __init__(self, *arguments: str, log: Path, kill_at: str = "", held_at: str = "") -> None:
        reading, writing = NURSERY.Pipe(duplex=False)
        self._process = NURSERY.Process(
            target=_run_command, args=(arguments, writing, str(log), kill_at, held_at)
        )
        self._process.start()
        writing.close()
        self._said = os.fdopen(os.dup(reading.fileno()), encoding="utf-8")
        reading.close()
        self.ready = _await_ready(self._said, self)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()
        self.wait()

    def wait(self, timeout_s: float = READY_S) -> int:
        self._process.join(timeout_s)
        code = self._process.exitcode
        assert code is not None, f"it did not end within {timeout_s} s"
        self._said.close()
        return code

    def is_dead(self) -> bool:
        return not self._process.is_alive()


def run_forked(*arguments: str) -> tuple[int, str, str]:
    """Run one `mooring` command to its end; return its exit code, and what it said and warned."""
    with tempfile.TemporaryDirectory() as directory:
        said, warned = Path(directory) / "said", Path(directory) / "warned"
        process = NURSERY.Process(target=_run_quietly, args=(arguments, str(said), str(warned)))
        process.start()
        process.join(READY_S)
        assert process.exitcode is not None, f"it did not end within {READY_S} s"
        return process.exitcode, said.read_text("utf-8"), warned.read_text("utf-8")


def _run_quietly(arguments: tuple[str, ...], said: str, warned: str) -> None:
    from mooring.main import cli

    for place, number in ((said, 1), (warned, 2)):
        with Path(place).open("wb") as file:
            os.dup2(file.fileno(), number)
    cli(list(arguments))


def _await_ready(said: Iterable[str], process: Process) -> str:
    for line in said:
        if line.startswith("ready "):
            return line.split()[1]
    raise AssertionError(f"it ended before it was ready, with {process.wait()}")


def _run_command(
    arguments: tuple[str, ...],
    writing: Connection,
    log: str,
    kill_at: str,
    held_at: str,
) -> None:
    from mooring.main import cli

    with Path(log).open("ab") as file:
        os.dup2(file.fileno(), 2)
    os.dup2(writing.fileno(), 1)
    writing.close()
    os.environ["MOORING_KILL_AT"] = kill_at
    if held_at:
        _hold(held_at)
    cli(list(arguments))


def _hold(point: str) -> None:
    """Let every simulated world that this process begins hold a point (`mooring.agent.knobs`)."""
    begin = Knobs.__init__

    def begin_held(self: Knobs) -> None:
        begin(self)
        self.hold(point)

    Knobs.__init__ = begin_held
