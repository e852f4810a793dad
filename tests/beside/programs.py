"""Programs of the real services: started from the environment, waited for, ended."""

from __future__ import annotations

import configparser
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

PROGRAMS = Path("build/beside/bin").absolute()
SITE = Path(__file__).parent.absolute()
READY_S, POLL_S = 240.0, 0.1
Sections = Mapping[str, Mapping[str, str]]


class Failed(Exception):
    """A step of the story went otherwise than it was to; says what was seen."""


def write_ini(file: Path, sections: Sections) -> Path:
    """Write a configuration as oslo.config reads it."""
    parser = configparser.RawConfigParser(default_section="")
    parser.read_dict(sections)
    with file.open("w", encoding="utf-8") as out:
        parser.write(out)
    return file


def environment(home: Path) -> dict[str, str]:
    """Return what programs of the environment are started with."""
    path = f"{PROGRAMS}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}


class Running:
    """Processes of one service, each with a log of its own; all end with the context."""

    def __init__(self, home: Path) -> None:
        """Make none yet; `home` is where they live and log."""
        self.home = home
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        home.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes.values():
            _signal(process, signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                _signal(process, signal.SIGKILL)
                process.wait()

    def log(self, name: str) -> Path:
        """Where a process writes what it has to say."""
        return self.home / f"{name}.log"

    def start(
        self, name: str, *command: str | Path, extra: Mapping[str, str] | None = None
    ) -> None:
        """Start a process in a session of its own, so that it ends with its children."""
        with self.log(name).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command,
                env={**environment(self.home), **(extra or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """End a process and its children with SIGKILL."""
        process = self._processes.pop(name)
        _signal(process, signal.SIGKILL)
        process.wait()

    def check(self) -> None:
        """Raise Failed when a process has ended by itself."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                said = self.log(name).read_text("utf-8", "replace")[-2000:]
                raise Failed(f"{name} has ended with {process.returncode}:\n{said}")

    def until_answers(self, port: int) -> None:
        """Wait until somebody takes connections at a port. Raises Failed."""
        deadline = time.monotonic() + READY_S
        while True:
            self.check()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            if time.monotonic() > deadline:
                raise Failed(f"Nobody answers at port {port}; the logs are in {self.home}.")
            time.sleep(POLL_S)


def run(home: Path, *command: str | Path) -> str:
    """Run a program to its end and return what it printed. Raises Failed with what it said."""
    done = subprocess.run(
        command, env=environment(home), capture_output=True, text=True, check=False, cwd=home
    )
    if done.returncode:
        raise Failed(f"{_words(command)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


def serve(running: Running, module: str, port: int, extra: Mapping[str, str]) -> None:
    """Serve the WSGI application of a module at a port of this machine."""
    # Not with this directory on its path: it has modules of the services' names.
    command = (PROGRAMS / "python", "-P", SITE / "serve_wsgi.py", module, str(port))
    running.start(module, *command, extra=extra)


def _words(command: Sequence[str | Path]) -> str:
    return " ".join(map(str, command))


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    if process.poll() is None:
        os.killpg(process.pid, number)
