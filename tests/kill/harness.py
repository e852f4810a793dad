"""Real processes, real SIGKILL: a control plane and an agent, killed at a point, started again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from msgspec import Struct

from tests.answers import version_header
from tests.kill.processes import ForkedProcess

ENDS_S = 240.0
FIRST, OTHER = "h1", "h2"
POLL_S = 0.1
SETTLES_S, LONGEST_S = 0.3, 1.5
"""How long to wait between two looks whether all has ended, at first, and at most: each is work for
what has to end."""
_SETTINGS = 'fence_command = ["true", "{host}"]\nshelved_offload_time = 600\n'
"""Hosts are fenced by a command that ends none. A shelved server stays until it is asked for."""
_TWO_POOLS = """\
[[pools]]
name = "local"
driver = "simulated"

[[pools]]
name = "beside"
driver = "simulated"
total_gib = 100
"""
"""What nobody chooses a pool for goes to the larger one."""


class Answer(Struct, frozen=True):
    status: int
    body: Any


class KilledCloud:
    """One cloud in one directory, with the agent `h1` in a process of its own.

    What goes to another host has the agent `h2` besides, started before the control plane.
    """

    def __init__(self, directory: Path, database: str = "") -> None:
        self.directory, self.database = directory, database
        self.control: ForkedProcess
        self.agent: ForkedProcess
        self.other: ForkedProcess | None = None
        self._pools: tuple[str, ...] = ()
        self._client = httpx2.Client()
        self._tokens: dict[str, str] = {}

    # -- processes --------------------------------------------------------------------------

    def give_two_pools(self) -> None:
        """Let the hosts that start from now on have another pool beside their own."""
        storage, settings = (self.directory / f"{name}.toml" for name in ("storage", "agent"))
        storage.write_text(_TWO_POOLS, "utf-8")
        settings.write_text(f'storage = "{storage}"\n', "utf-8")
        self._pools = ("--config", str(settings))

    def start_agent(self, kill_at: str = "", held_at: str = "") -> None:
        self.agent = self._start_host(FIRST, kill_at, held_at)

    def start_other(self, kill_at: str = "") -> None:
        self.other = self._start_host(OTHER, kill_at)

    def _start_host(self, name: str, kill_at: str, held_at: str = "") -> ForkedProcess:
        return ForkedProcess(
            "agent",
            *("--name", name, "--hypervisor", "simulated", "--role", "all"),
            *("--state-dir", str(self.directory / name)),
            *("--socket", str(self._socket(name))),
            *self._pools,
            log=self.directory / "agent.log",
            kill_at=kill_at,
            held_at=held_at,
        )

    def start_control(self, kill_at: str = "") -> None:
        database = ("--database", self.database) if self.database else ()
        hosts = (FIRST, OTHER) if self.other else (FIRST,)
        agents = [word for name in hosts for word in ("--agent", f"{name}={self._socket(name)}")]
        settings = self.directory / "settings.toml"
        settings.write_text(_SETTINGS, "utf-8")
        self.control = ForkedProcess(
            "serve",
            *("--state-dir", str(self.directory / "state"), "--listen", "127.0.0.1:0"),
            *("--config", str(settings)),
            *(*agents, *database),
            log=self.directory / "control.log",
            kill_at=kill_at,
        )
        self._client.close()
        self._client = httpx2.Client(base_url=self.control.ready, timeout=60.0)
        self._tokens.clear()

    @contextmanager
    def agent_frozen(self) -> Generator[None]:
        """Let the agent hear nothing and do nothing meanwhile."""
        os.kill(self.agent.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.agent.pid, signal.SIGCONT)

    def _socket(self, host: str) -> Path:
        return self.directory / f"{host}.sock"

    def kill(self) -> None:
        """End with SIGKILL whoever lives."""
        for process in (self.control, self.agent, self.other):
            if process is not None and not process.is_dead():
                process.kill()

    def stop(self) -> None:
        self.kill()
        self._client.close()

    # -- a client ---------------------------------------------------------------------------

    def ask(
        self, method: str, path: str, body: Any = None, *, user: str = "demo", version: str = ""
    ) -> Answer:
        """Send one request; a process that dies meanwhile answers 0."""
        headers = {"X-Auth-Token": self._token(user)}
        if user == "compute":
            headers["X-Service-Token"] = headers["X-Auth-Token"]
        headers |= version_header(path, version)
        try:
            response = self._client.request(method, path, headers=headers, json=body)
        except httpx2.TransportError:
            return Answer(0, None)
        return Answer(response.status_code, response.json() if response.content else None)

    def upload(self, path: str, content: bytes) -> None:
        """Send the data of an image."""
        headers = {
            "X-Auth-Token": self._token("demo"),
            "Content-Type": "application/octet-stream",
        }
        response = self._client.put(path, headers=headers, content=content)
        assert response.status_code == 204, response.text

    def _token(self, user: str) -> str:
        if user not in self._tokens:
            passwords = json.loads((self.directory / "state" / "passwords.json").read_text())
            who = {"name": user, "domain": {"id": "default"}, "password": passwords[user]}
            project = "service" if user == "compute" else user
            scope = {"project": {"name": project, "domain": {"id": "default"}}}
            auth = {"identity": {"methods": ["password"], "password": {"user": who}}}
            response = self._client.post(
                "/identity/v3/auth/tokens", json={"auth": {**auth, "scope": scope}}
            )
            self._tokens[user] = response.headers["X-Subject-Token"]
        return self._tokens[user]

    def at_once(self, *work: Callable[[], Any]) -> list[Any]:
        """Do all of it in parallel and return what came of each."""
        for user in ("demo", "admin"):
            self._token(user)
        with ThreadPoolExecutor(len(work)) as pool:
            return [future.result() for future in [pool.submit(each) for each in work]]

    @contextmanager
    def meanwhile(self, *work: Callable[[], Any]) -> Generator[None]:
        """Do all of it in parallel while the block runs, and wait for the last at its end."""
        for user in ("demo", "admin"):
            self._token(user)
        with ThreadPoolExecutor(len(work)) as pool:
            for each in work:
                pool.submit(each)
            yield

    # -- what must hold ---------------------------------------------------------------------

    def until(
        self,
        holds: Callable[[], Any],
        what: str,
        within_s: float = ENDS_S,
        *,
        poll_s: float = POLL_S,
        longest_s: float = POLL_S,
    ) -> Any:
        """Ask again until it holds, ever less often; fail when it does not in time."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            found = holds()
            if found:
                return found
            time.sleep(poll_s)
            poll_s = min(1.5 * poll_s, longest_s)
        raise AssertionError(f"{what} within {within_s} s; {self.operations()}")

    def operations(self) -> list[dict[str, Any]]:
        """The operations that have not ended."""
        return [one for each in self._operations() for one in each]

    def _operations(self) -> Generator[list[dict[str, Any]]]:
        for root in ("/compute/v2.1", "/volume/v3", "/share/v2"):
            answer = self.ask("GET", f"{root}/mooring/operations", user="admin")
            yield answer.body["operations"]

    def settle(self) -> None:
        """Wait until every operation has ended."""
        self.until(
            lambda: not any(self._operations()),
            "every operation ends",
            poll_s=SETTLES_S,
            longest_s=LONGEST_S,
        )

    def findings(self) -> list[dict[str, Any]]:
        """What the doctor of the running cloud finds."""
        return self.ask("GET", "/mooring/doctor", user="admin").body["findings"]


@contextmanager
def running(directory: Path, database: str = "") -> Generator[KilledCloud]:
    """A cloud whose processes end with the block."""
    cloud = KilledCloud(directory, database)
    (directory / "state").mkdir(parents=True, exist_ok=True)
    cloud.start_agent()
    try:
        cloud.start_control()
        yield cloud
    finally:
        cloud.stop()


def put_away(directory: Path) -> Path:
    """Keep what a stopped cloud left as a template; `copy_template` puts a copy in its place."""
    return directory.rename(directory.with_name("template"))


def copy_template(template: Path) -> Path:
    """Copy a template to where it was made, its socket and logs aside: hosts remember paths."""
    place = template.with_name("cloud")
    shutil.rmtree(place, ignore_errors=True)
    ignored = shutil.ignore_patterns("*.sock", "*.log")
    return Path(shutil.copytree(template, place, ignore=ignored))
