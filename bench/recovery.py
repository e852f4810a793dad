"""kill -9 with 1000 operations in flight: how soon the next process goes on, and has ended all.

Once they are creations of volumes, once attaches of volumes to servers, and once both beside each
other, 2000. The agent is stopped meanwhile, so that nothing ends before the kill.
"""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from bench.machine import median, quantile, scratch
from bench.process import Process, User, lift_quotas, make_image
from bench.rows import Row, tell

OPERATIONS = 1000
SERVERS = 100
ASK_S, LOOK_S = 0.05, 0.25
ENDS_S = 300.0
VOLUMES, COMPUTE = "/volume/v3/volumes", "/compute/v2.1/servers"


def count_unfinished(state: Path) -> int:
    """Return how many sagas of all services have not ended, from their files."""
    found = 0
    for name in ("volume", "compute"):
        with closing(sqlite3.connect(f"file:{state / name}.sqlite?mode=ro", uri=True)) as file:
            query = "SELECT count(*) FROM saga_sagas WHERE state <> 'ended'"
            found += file.execute(query).fetchone()[0]
    return found


def count_attempts(state: Path) -> int:
    """Return how many attempts at steps the services' timelines have."""
    found = 0
    for name in ("volume", "compute"):
        with closing(sqlite3.connect(f"file:{state / name}.sqlite?mode=ro", uri=True)) as file:
            found += file.execute("SELECT count(*) FROM saga_history").fetchone()[0]
    return found


class Customer(threading.Thread):
    """Somebody who lists volumes all the while, and notes how long each answer takes."""

    def __init__(self, user: User) -> None:
        super().__init__(daemon=True)
        self._user, self.done = user, threading.Event()
        self.spent_ms: list[float] = []

    def run(self) -> None:
        """Ask until it is done."""
        while not self.done.wait(ASK_S):
            started = time.perf_counter()
            self._user.ask("GET", f"{VOLUMES}/detail?limit=10")
            self.spent_ms.append((time.perf_counter() - started) * 1000)


class Site:
    """A control plane and an agent, each a process of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory, self.state = directory, directory / "state"
        self._socket = directory / "bench.sock"
        self.agent = Process(
            "agent",
            *("--name", "bench", "--hypervisor", "simulated"),
            *("--state-dir", str(directory / "host"), "--socket", str(self._socket)),
            log=directory / "agent.log",
        )
        self.control = self.start()

    def start(self) -> Process:
        """Start the control plane."""
        return Process(
            "serve",
            *("--state-dir", str(self.state), "--listen", "127.0.0.1:0"),
            *("--agent", f"bench={self._socket}"),
            log=self._directory / "control.log",
        )


def create_volumes(user: User, stop: Callable[[], None]) -> None:
    """Stop the agent, and ask for volumes."""
    stop()
    for _ in range(OPERATIONS):
        make_volume(user)


def attach_volumes(user: User, stop: Callable[[], None]) -> None:
    """Make servers and volumes, stop the agent, and ask to attach them."""
    image = make_image(user)
    servers = [make_server(user, image) for _ in range(SERVERS)]
    volumes = [make_volume(user) for _ in range(OPERATIONS)]
    user.until(lambda: has_none(user, COMPUTE, "servers", "BUILD"), 1.0)
    user.until(lambda: has_none(user, VOLUMES, "volumes", "creating"), 1.0)
    stop()
    for number, volume in enumerate(volumes):
        path = f"{COMPUTE}/{servers[number % SERVERS]}/os-volume_attachments"
        user.ask("POST", path, {"volumeAttachment": {"volumeId": volume}})


def attach_beside_creations(user: User, stop: Callable[[], None]) -> None:
    """Ask for both: services that recover at one time, on one host."""
    attach_volumes(user, stop)
    for _ in range(OPERATIONS):
        make_volume(user)


def make_volume(user: User) -> str:
    """Ask for a volume of 1 GiB and return its id."""
    return user.ask("POST", VOLUMES, {"volume": {"size": 1}})["volume"]["id"]


def make_server(user: User, image: str) -> str:
    """Ask for a small server and return its id."""
    wanted = {"name": "bench", "flavorRef": "42", "imageRef": image, "networks": "none"}
    return user.ask("POST", COMPUTE, {"server": wanted})["server"]["id"]


def has_none(user: User, path: str, kind: str, status: str) -> bool:
    """Whether no server or volume of the project has a status."""
    return not user.ask("GET", f"{path}?status={status}&limit=1")[kind]


def fill(site: Site, begin: Callable[[User, Callable[[], None]], None]) -> int:
    """Start the operations while the agent stands still; return how many are in flight."""
    admin = User(site.state, site.control.url, "admin")
    lift_quotas(admin)
    admin.close()
    user = User(site.state, site.control.url)
    user.until(lambda: bool(user.ask("GET", "/volume/v3/types")), 0.1)
    begin(user, lambda: site.agent.popen.send_signal(signal.SIGSTOP))
    user.close()
    return count_unfinished(site.state)


def recover(site: Site, what: str) -> list[Row]:
    """Kill the control plane, start it again, and see how it recovers."""
    in_flight = fill(site, KINDS[what])
    site.control.kill()
    attempts = count_attempts(site.state)
    site.agent.popen.send_signal(signal.SIGCONT)
    started = time.perf_counter()
    resumed: list[float] = []

    def await_first() -> None:
        while count_attempts(site.state) == attempts:
            time.sleep(0.01)
        resumed.append(time.perf_counter() - started)

    watch = threading.Thread(target=await_first, daemon=True)
    watch.start()
    site.control = site.start()
    customer = Customer(User(site.state, site.control.url))
    customer.start()
    while count_unfinished(site.state) and time.perf_counter() - started < ENDS_S:
        time.sleep(LOOK_S)
    ended_s, left = time.perf_counter() - started, count_unfinished(site.state)
    customer.done.set()
    customer.join()
    watch.join(LOOK_S)
    spent = customer.spent_ms
    note = f"{in_flight} in flight; from the start of the new process"
    p95 = f"{len(spent)} requests, median {median(spent):.0f} ms"
    return [
        Row(what=f"{what}: first resumed", measured=resumed[0], unit="s", budget=2, note=note),
        Row(what=f"{what}: all ended", measured=ended_s, unit="s", budget=60),
        Row(what=f"{what}: stuck", measured=left, unit="", budget=0),
        Row(
            what=f"{what}: API p95 meanwhile",
            measured=quantile(spent, 0.95),
            unit="ms",
            budget=300,
            note=p95,
        ),
    ]


KINDS = {
    "recovery": create_volumes,
    "recovery of attaches": attach_volumes,
    "recovery of attaches beside creations": attach_beside_creations,
}


def main() -> None:
    """Measure each kind once: it takes a while."""
    for what in KINDS:
        with scratch() as directory:
            site = Site(directory)
            try:
                tell(*recover(site, what))
            finally:
                site.control.kill()
                site.agent.kill()


if __name__ == "__main__":
    main()
