"""How many attaches a second one control plane ends on PostgreSQL, and how many two of them.

They share a machine and a host, so a second one gives less than twice as much, and nothing at all
where the machine's cores are busy already.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import psycopg

from bench.machine import scratch
from bench.process import Process, User, lift_quotas, make_image
from bench.recovery import COMPUTE, VOLUMES, has_none, make_server, make_volume
from bench.rows import Row, tell
from tests.postgres import run_server

SERVERS, PER_SERVER, LOOK_S = 20, 10, 0.05


class Site:
    """A host, and as many control planes as one wants, on one database."""

    def __init__(self, directory: Path, database: str, processes: int) -> None:
        state, socket = directory / "state", directory / "bench.sock"
        self.state = state
        self._all = [
            Process(
                "agent",
                *("--name", "bench", "--hypervisor", "simulated"),
                *("--state-dir", str(directory / "host"), "--socket", str(socket)),
                log=directory / "agent.log",
            )
        ]
        for number in range(processes):
            self._all.append(
                Process(
                    "serve",
                    *("--state-dir", str(state), "--listen", "127.0.0.1:0"),
                    *("--agent", f"bench={socket}", "--database", database),
                    log=directory / f"control{number}.log",
                )
            )
        self.urls = [process.url for process in self._all[1:]]

    def end(self) -> None:
        """End all of them."""
        for process in reversed(self._all):
            process.kill()


def attach_all(site: Site) -> float:
    """Return how many attaches a second end, asked of all control planes alike."""
    admin = User(site.state, site.urls[0], "admin")
    lift_quotas(admin)
    admin.close()
    users = [User(site.state, url) for url in site.urls]
    first = users[0]
    first.until(lambda: bool(first.ask("GET", "/volume/v3/types")), 0.1)
    image = make_image(first)
    servers = [make_server(first, image) for _ in range(SERVERS)]
    volumes = [make_volume(first) for _ in range(SERVERS * PER_SERVER)]
    first.until(lambda: has_none(first, COMPUTE, "servers", "BUILD"), 0.2)
    first.until(lambda: has_none(first, VOLUMES, "volumes", "creating"), 0.2)
    pairs = list(zip(servers * PER_SERVER, volumes, strict=True))

    def ask(number: int) -> None:
        for server, volume in pairs[number :: len(users)]:
            path = f"{COMPUTE}/{server}/os-volume_attachments"
            users[number].ask("POST", path, {"volumeAttachment": {"volumeId": volume}})

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(users))]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for status in ("available", "reserved", "attaching"):
        first.until(lambda status=status: has_none(first, VOLUMES, "volumes", status), LOOK_S)
    spent = time.perf_counter() - started
    for user in users:
        user.close()
    return len(pairs) / spent


def main() -> None:
    """Measure with one, and with two."""
    rates: list[float] = []
    with run_server() as server:
        for processes in (1, 2):
            with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE bench{processes}".encode())
            with scratch() as directory:
                site = Site(directory, server.url(f"bench{processes}"), processes)
                try:
                    rates.append(attach_all(site))
                finally:
                    site.end()
    one, two = rates
    note = f"{two / one:.2f} times as many as with one"
    what = "attaches on PostgreSQL"
    tell(
        Row(what=f"{what}, one serve", measured=one, unit="a second"),
        Row(what=f"{what}, two serves", measured=two, unit="a second", note=note),
    )


if __name__ == "__main__":
    main()
