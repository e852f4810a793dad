"""What attaching and detaching a volume costs: commits, CPU, and the time until it is done."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench.inside import Cost, open_inside
from bench.machine import median, scratch
from bench.process import Process, User, make_image, start_up
from bench.rows import Row, tell

VOLUMES, ROUNDS = 10, 4
IDLE_S, ENDS_S, LOOK_S = 2.0, 0.25, 0.004
SERVERS = "/compute/v2.1/servers"
BUDGETS = {"attach": (12, 15.0, 30.0), "detach": (10, 10.0, 25.0)}
"""Commits, CPU and wall time until the volume's status says so, in ms."""


async def measure_inside(directory: Path) -> dict[str, list[Cost]]:
    """Attach and detach in this process; the first round warms caches and does not count."""
    costs: dict[str, list[Cost]] = {"attach": [], "detach": []}
    async with open_inside(directory) as cloud:
        server = await cloud.make_server(await cloud.make_image())
        volumes = [await cloud.make_volume() for _ in range(VOLUMES)]
        await cloud.rest()
        path = f"{SERVERS}/{server}/os-volume_attachments"
        for number in range(ROUNDS):
            bodies = [{"volumeAttachment": {"volumeId": volume}} for volume in volumes]
            attached = [await cloud.cost("POST", path, body) for body in bodies]
            detached = [await cloud.cost("DELETE", f"{path}/{volume}") for volume in volumes]
            if number:
                costs["attach"] += attached
                costs["detach"] += detached
    return costs


class Socket:
    """A user who attaches and detaches through HTTP, at a cloud in another process."""

    def __init__(self, process: Process, user: User) -> None:
        self._process, self._user = process, user
        body = {"name": "bench", "flavorRef": "42", "imageRef": make_image(user)}
        wanted = {"server": {**body, "networks": "none"}}
        server = user.ask("POST", SERVERS, wanted)["server"]["id"]
        self.volumes = [self._make_volume() for _ in range(VOLUMES)]
        user.until(lambda: self._status(f"{SERVERS}/{server}", "server") == "ACTIVE", 0.1)
        for volume in self.volumes:
            self._await_status(volume, "available")
        self._path = f"{SERVERS}/{server}/os-volume_attachments"

    def turn(self, verb: str, volume: str) -> float:
        """Do one and look until it is done; return how many ms that took."""
        started = time.perf_counter()
        self._send(verb, volume)
        self._await_status(volume, "in-use" if verb == "attach" else "available")
        took = time.perf_counter() - started
        time.sleep(ENDS_S)
        return took * 1000

    def cpu_ms(self, verb: str) -> float:
        """Do one with each volume without looking; return the server's CPU for one, in ms."""
        idle, started = self._process.cpu_s(), time.perf_counter()
        time.sleep(IDLE_S)
        idle_part = (self._process.cpu_s() - idle) / (time.perf_counter() - started)
        before, started = self._process.cpu_s(), time.perf_counter()
        for volume in self.volumes:
            self._send(verb, volume)
            time.sleep(ENDS_S)
        spent = self._process.cpu_s() - before - idle_part * (time.perf_counter() - started)
        return spent * 1000 / len(self.volumes)

    def _send(self, verb: str, volume: str) -> None:
        if verb == "attach":
            self._user.ask("POST", self._path, {"volumeAttachment": {"volumeId": volume}})
        else:
            self._user.ask("DELETE", f"{self._path}/{volume}")

    def _make_volume(self) -> str:
        made = self._user.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
        return made["volume"]["id"]

    def _await_status(self, volume: str, status: str) -> None:
        path = f"/volume/v3/volumes/{volume}"
        self._user.until(lambda: self._status(path, "volume") == status, LOOK_S)

    def _status(self, path: str, name: str) -> str:
        return self._user.ask("GET", path)[name]["status"]


def measure_by_socket(directory: Path) -> dict[str, tuple[float, float]]:
    """Return, by verb, the median wall time until done, and the server's CPU, in ms."""
    process = start_up(directory)
    user = User(directory / "state", process.url)
    socket = Socket(process, user)
    walls: dict[str, list[float]] = {"attach": [], "detach": []}
    for _ in range(2):
        for verb, spent in walls.items():
            spent += [socket.turn(verb, volume) for volume in socket.volumes]
    found = {verb: (median(spent), socket.cpu_ms(verb)) for verb, spent in walls.items()}
    user.close()
    process.end()
    return found


def main() -> None:
    """Measure both ways."""
    with scratch() as directory:
        inside = asyncio.run(measure_inside(directory / "inside"))
        by_socket = measure_by_socket(directory)
    for verb, costs in inside.items():
        commits = max(cost.commits for cost in costs)
        cpu, wall = (cost.cpu_ms for cost in costs), median(cost.wall_ms for cost in costs)
        least, note = min(cost.cpu_ms for cost in costs), "in one process"
        until, served = by_socket[verb]
        end = "until in-use, by socket" if verb == "attach" else "until available, by socket"
        most, most_cpu, most_wall = BUDGETS[verb]
        tell(
            Row(what=f"{verb}: commits", measured=commits, unit="", budget=most),
            Row(what=f"{verb}: CPU", measured=median(cpu), unit="ms", budget=most_cpu, note=note),
            Row(what=f"{verb}: CPU, least", measured=least, unit="ms", budget=most_cpu),
            Row(what=f"{verb}: CPU by socket", measured=served, unit="ms", note="the server's"),
            Row(what=f"{verb}: wall", measured=wall, unit="ms", note="until its saga has ended"),
            Row(what=f"{verb}: {end}", measured=until, unit="ms", budget=most_wall),
        )


if __name__ == "__main__":
    main()
