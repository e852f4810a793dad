"""A server whose root disk lies on its host, and what is seen of that disk on two hosts."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Unavailable
from tests.compute.cloud import ComputeCloud
from tests.compute.extending import GIB
from tests.compute.moving import Moving
from tests.kept import Keeper

HOSTS = ("host1", "host2")
FORMER, LATER = b"what was written before", b"what was written since"
LARGER, SMALLER = {"flavorRef": "2"}, {"flavorRef": "1"}


class Local:
    """A server with a root disk of 1 GiB on its host, and one volume."""

    def __init__(self, moving: Moving) -> None:
        self.moving, self.cloud = moving, moving.cloud

    def disk(self, host: str) -> Path:
        """Where a host keeps the server's root disk."""
        guests = self.cloud.hosts[host].state_dir / "guests"
        return guests / self.moving.server_id / "root"

    def beside(self, host: str) -> list[str]:
        """Return the names of all that a host keeps of the server."""
        found = sorted(path.name for path in self.disk(host).parent.iterdir())
        return [name for name in found if name != "copy.json"]

    def write(self, host: str, words: bytes) -> None:
        """Write where no words of the other kind are, as the guest would."""
        offset = 0 if words == FORMER else 1 << 20
        with self.disk(host).open("r+b") as file:
            os.pwrite(file.fileno(), words, offset)

    def reads(self, host: str) -> tuple[Collection[bytes], int]:
        """Return which words are on a host's disk, and how large it is, in GiB."""
        with self.disk(host).open("rb") as file:
            start = file.read(2 << 20)
        found = [words for words in (FORMER, LATER) if words in start]
        return found, self.disk(host).stat().st_size // GIB

    async def held(self) -> list[dict[str, int]]:
        """Return what source and destination have promised, as DISK_GB by consumer."""
        placement = self.cloud.compute.placement
        known = {one.name: one.uuid for one in await placement.providers()}
        both = (self.moving.source, self.moving.destination)
        found = [await placement.provider_allocations(known[host]) for host in both]
        return [
            {one: held["DISK_GB"] for one, held in of_host.items() if "DISK_GB" in held}
            for of_host in found
        ]

    def lose(self, target: str) -> list[tuple[Request, Forward]]:
        """Lose every PUT of this target from now on; return them, to be delivered late."""
        lost: list[tuple[Request, Forward]] = []

        async def deliver(request: Request, forward: Forward) -> Response:
            if (request.method, request.target) != ("PUT", target):
                return await forward(request)
            lost.append((request, forward))
            raise Unavailable("The host gave no answer.")

        self.cloud.deliver_to_host = deliver
        return lost

    async def why(self) -> str:
        """Return what the last action says went wrong."""
        path = f"/servers/{self.moving.server_id}/os-instance-actions"
        done = (await self.cloud.ask("GET", path, user="admin")).body["instanceActions"]
        one = await self.cloud.ask("GET", f"{path}/{done[0]['request_id']}", user="admin")
        events = one.body["instanceAction"]["events"]
        return " ".join(event["details"] or "" for event in events)

    async def doctor_finds_nothing(self) -> None:
        assert await self.cloud.complaints() == []

    async def stays_whole(self, size_gib: int = 1) -> None:
        """See that the server runs where it was, from the disk that it had, and nothing is left."""
        moving = self.moving
        await moving.stays_whole()
        assert self.reads(moving.source) == ([FORMER], size_gib)
        assert self.beside(moving.source) == ["root"]
        assert not self.disk(moving.destination).parent.exists()
        assert await self.held() == [{moving.server_id: size_gib}, {}]
        await self.doctor_finds_nothing()


async def make_local(cloud: ComputeCloud) -> Local:
    """Make such a server, whose disk says what was written before it moved."""
    server_id, volume_id = await cloud.make_attached()
    source = (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]
    destination = next(host for host in cloud.hosts if host != source)
    made = Local(Moving(cloud, server_id, [volume_id], source, destination))
    disk = made.disk(source)
    disk.parent.mkdir(parents=True, exist_ok=True)
    disk.touch()
    os.truncate(disk, GIB)
    made.write(source, FORMER)
    return made


@asynccontextmanager
async def local_server(
    keeper: Keeper, *, hosts: tuple[str, ...] = HOSTS, **how: Any
) -> AsyncGenerator[Local]:
    """Give such a server in a cloud of these hosts, begun where the first one was made."""

    async def make(cloud: ComputeCloud) -> tuple[str, list[str], str, str]:
        made = (await make_local(cloud)).moving
        return made.server_id, made.volumes, made.source, made.destination

    opened = keeper.open(ComputeCloud, make, "a server with a local disk", hosts=hosts, **how)
    async with opened as (cloud, made):
        yield Local(Moving(cloud, *made))
