"""The same operations at any OpenStack cloud and at ours, in turns: medians and ratios.

    make bench PEER=clouds.yaml CLOUD=name

The cloud needs an active image, a flavor and room for one server and one volume; all that is made
there is deleted again. It is asked as any client asks, by openstacksdk, and looked at every 5 ms.
Ours is started beside, with a simulated host. What a hypervisor adds is in the peer's figures if it
has a real one: compare with its fake driver, or read them as that.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openstack.config import OpenStackConfig
from openstack.connection import Connection

from bench.machine import flush_ms, median, scratch
from bench.process import User, make_image, start_up

ROUNDS, LISTINGS = 5, 5
LOOK_S, ENDS_S = 0.005, 300.0
NOVA, CINDER = "2.60", "3.44"
NAME = "mooring-bench"


class Peer:
    """One cloud, and the times of what was done there, in ms by operation."""

    def __init__(self, clouds: Path, cloud: str) -> None:
        config = OpenStackConfig(config_files=[str(clouds)], load_envvars=False)
        self._connection = Connection(config=config.get_one(cloud=cloud))
        self.times: dict[str, list[float]] = {}
        compute: Any = self._connection.compute
        images: Any = self._connection.image
        flavors = sorted(compute.flavors(), key=lambda flavor: (flavor.ram, flavor.disk))
        active = sorted(images.images(status="active"), key=lambda image: image.size)
        if not flavors or not active:
            raise SystemExit(f"The cloud {cloud} has no flavor or no active image.")
        self._flavor, self._image = flavors[0].id, active[0].id

    def ask(self, service: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send one request; return its status and decoded body. Raises RuntimeError above 404."""
        adapter: Any = getattr(self._connection, service)
        version = NOVA if service == "compute" else CINDER
        answer = adapter.request(path, method, json=body, microversion=version)
        if answer.status_code >= 400 and answer.status_code != 404:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.status_code, answer.json() if answer.content else None

    def status(self, service: str, path: str) -> str:
        """Return the status of a server or volume, `gone` when there is none. Raises RuntimeError.

        One in error will never get where it was to be.
        """
        code, body = self.ask(service, "GET", path)
        status = "gone" if code == 404 else str(next(iter(body.values()))["status"])
        if status.lower().startswith("error"):
            raise RuntimeError(f"{path} is in status {status}")
        return status

    def await_status(self, service: str, path: str, status: str) -> None:
        """Look until a server or volume has a status. Raises RuntimeError when it never does."""
        deadline = time.monotonic() + ENDS_S
        while self.status(service, path) != status:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{path} was not {status} within {ENDS_S:g} s")
            time.sleep(LOOK_S)

    @contextmanager
    def timed(self, what: str) -> Generator[None]:
        """Note how long the block took."""
        started = time.perf_counter()
        yield
        self.times.setdefault(what, []).append((time.perf_counter() - started) * 1000)

    def go_round(self) -> None:
        """Do each operation once, on a server and a volume that go again."""
        with self.timed("server create until ACTIVE"):
            server = self._make_server()
            self.await_status("compute", server, "ACTIVE")
        try:
            with self.timed("volume create until available"):
                volume = self._make_volume()
                self.await_status("block_storage", volume, "available")
            try:
                self._use(server, volume)
            finally:
                self.await_status("block_storage", volume, "available")
                with self.timed("volume delete until gone"):
                    self.ask("block_storage", "DELETE", volume)
                    self.await_status("block_storage", volume, "gone")
        finally:
            with self.timed("server delete until gone"):
                self.ask("compute", "DELETE", server)
                self.await_status("compute", server, "gone")

    def _make_server(self) -> str:
        wanted = {"name": NAME, "flavorRef": self._flavor, "imageRef": self._image}
        body = {"server": {**wanted, "networks": "none"}}
        return f"/servers/{self.ask('compute', 'POST', '/servers', body)[1]['server']['id']}"

    def _make_volume(self) -> str:
        body = {"volume": {"size": 1, "name": NAME}}
        return f"/volumes/{self.ask('block_storage', 'POST', '/volumes', body)[1]['volume']['id']}"

    def _use(self, server: str, volume: str) -> None:
        """Extend, attach, extend and detach a volume, and list the servers."""
        path, volume_id = f"{server}/os-volume_attachments", volume.rpartition("/")[2]
        with self.timed("extend until available"):
            self.ask("block_storage", "POST", f"{volume}/action", {"os-extend": {"new_size": 2}})
            self.await_status("block_storage", volume, "available")
        with self.timed("attach until in-use"):
            self.ask("compute", "POST", path, {"volumeAttachment": {"volumeId": volume_id}})
            self.await_status("block_storage", volume, "in-use")
        with self.timed("extend until in-use"):
            self.ask("block_storage", "POST", f"{volume}/action", {"os-extend": {"new_size": 3}})
            self.await_status("block_storage", volume, "in-use")
        for _ in range(LISTINGS):
            with self.timed("list servers with details"):
                self.ask("compute", "GET", "/servers/detail")
        with self.timed("detach until available"):
            self.ask("compute", "DELETE", f"{path}/{volume_id}")
            self.await_status("block_storage", volume, "available")


def compare(ours: Peer, theirs: Peer, cloud: str) -> str:
    """Return the medians of both and their ratio, as a Markdown table."""
    lines = [f"| what | ours | {cloud} | ratio |", "|---|---|---|---|"]
    for what, spent in sorted(ours.times.items()):
        here, there = median(spent), median(theirs.times[what])
        lines.append(f"| {what} | {here:.1f} ms | {there:.1f} ms | {there / here:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure both in turns, and print."""
    parser = argparse.ArgumentParser(prog="bench.peer", description="Compare with another cloud.")
    parser.add_argument("clouds", type=Path, help="a clouds.yaml")
    parser.add_argument("cloud", help="the cloud's name in it")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often, at each cloud")
    given = parser.parse_args()
    theirs = Peer(given.clouds, given.cloud)
    with scratch() as directory:
        flush = flush_ms(directory)
        process = start_up(directory)
        try:
            user = User(directory / "state", process.url)
            make_image(user)
            user.close()
            ours = Peer(directory / "state" / "clouds.yaml", "demo")
            for number in range(given.rounds + 1):
                turn = (ours, theirs) if number % 2 else (theirs, ours)
                for peer in turn:
                    peer.go_round()
                    if number == 0:  # which only warms caches
                        peer.times.clear()
        finally:
            process.end()
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} CPUs, load {load:.1f}, fdatasync {flush:.2f} ms (median)")
    print(f"medians of {given.rounds} rounds in turns; ratio: how many times as long they take\n")
    print(compare(ours, theirs, given.cloud))


if __name__ == "__main__":
    main()
