"""A server with volumes on one of two hosts, and what tests of its moves ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from tests.answers import Answer
from tests.compute.cloud import ComputeCloud
from tests.kept import Keeper, named_after
from tests.waiting import until

LIVE = "os-migrateLive"


class Moving(Struct):
    """The server, its volumes, and the two hosts: where it is, and where it is to go."""

    cloud: ComputeCloud
    server_id: str
    volumes: list[str]
    source: str
    destination: str

    async def migrate(self, **more: Any) -> int:
        """Ask for the move, whatever time has passed; return the status code."""
        await self.cloud.look_at_hosts()
        return await self.ask(**more)

    async def ask(self, **more: Any) -> int:
        """Ask for the move of hosts as they were last seen; return the status code."""
        value = {"host": None, "block_migration": False, **more}
        return await self.cloud.act(self.server_id, LIVE, value, user="admin", version="2.90")

    async def move(self, **more: Any) -> None:
        """Ask for the move and let everything come to rest."""
        assert await self.migrate(**more) == 202
        await self.cloud.settle()

    async def migrations(self, **query: str) -> list[dict[str, Any]]:
        """Return the records of moves, the newest first."""
        words = "&".join(f"{key}={value}" for key, value in query.items())
        answer = await self.cloud.ask("GET", f"/os-migrations?{words}", user="admin")
        return answer.body["migrations"]

    async def under_way(self) -> list[dict[str, Any]]:
        """Return the moves of the server that last."""
        path = f"/servers/{self.server_id}/migrations"
        return (await self.cloud.ask("GET", path, user="admin")).body["migrations"]

    async def ask_of(
        self, method: str, move: int | str, body: Any = None, *, suffix: str = ""
    ) -> Answer:
        """Ask something of a move."""
        path = f"/servers/{self.server_id}/migrations/{move}{suffix}"
        return await self.cloud.ask(method, path, body, user="admin")

    async def status(self) -> str:
        """Return how the server's newest move stands."""
        return (await self.migrations(instance_uuid=self.server_id))[0]["status"]

    async def host(self) -> str:
        """Return where the server says it is."""
        return (await self.cloud.server(self.server_id))["OS-EXT-SRV-ATTR:host"]

    async def states(self) -> list[str]:
        """Return what source and destination hold of the guest."""
        found: list[str] = []
        for host in (self.source, self.destination):
            guest = await self.cloud.known_agents[host].show_server(self.server_id)
            found.append("absent" if guest is None else guest.state)
        return found

    async def connected(self) -> list[int]:
        """Return how many volumes source and destination have connected."""
        return [len(await self.cloud.connections(host)) for host in (self.source, self.destination)]

    async def attachments(self) -> int:
        """Return how many attachments the server's volumes have."""
        return len(await self.cloud.compute.volumes.attachments(None, server_id=self.server_id))

    async def claims(self) -> list[set[str]]:
        """Return the consumers that hold room on source and destination."""
        placement = self.cloud.compute.placement
        known = {one.name: one.uuid for one in await placement.providers()}
        held = [
            await placement.provider_allocations(known[host])
            for host in (self.source, self.destination)
        ]
        return [set(one) for one in held]

    async def stays_whole(self) -> None:
        """See that the server is where it was, as if nothing had been asked for."""
        assert await self.host() == self.source
        assert (await self.cloud.server(self.server_id))["status"] == "ACTIVE"
        assert await self.states() == ["running", "absent"]
        assert await self.connected() == [len(self.volumes), 0]
        assert await self.attachments() == len(self.volumes)
        assert await self.claims() == [{self.server_id}, set()]


async def server_that_moves(
    cloud: ComputeCloud, *, volumes: int = 2, group: str = "", flavor: str = "1"
) -> Moving:
    """Make a server that boots from a volume, with so many volumes, as a member of a group."""
    root = await cloud.make_volume(bootable=True)
    mapping = {"source_type": "volume", "destination_type": "volume", "uuid": root}
    wanted: dict[str, Any] = {"name": "s", "flavorRef": flavor, "networks": "none"}
    wanted["block_device_mapping_v2"] = [{**mapping, "boot_index": 0}]
    hints = {"os:scheduler_hints": {"group": group}} if group else {}
    made = await cloud.ask("POST", "/servers", {"server": wanted, **hints})
    server_id = made.body["server"]["id"]
    await cloud.settle()
    others = [await cloud.make_volume() for _ in range(volumes - 1)]
    for other in others:
        assert (await cloud.attach(server_id, other)).status == 200
        await cloud.settle()
    source = (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]
    destination = next(host for host in cloud.hosts if host != source)
    return Moving(cloud, server_id, [root, *others], source, destination)


@asynccontextmanager
async def moving_server(
    keeper: Keeper,
    *,
    volumes: int = 2,
    hosts: tuple[str, ...] = ("host1", "host2"),
    then: Callable[[Moving], Awaitable[object]] | None = None,
    **how: Any,
) -> AsyncGenerator[Moving]:
    """Give such a server in a cloud of these hosts, begun where the first one was made.

    `then` has befallen it, once for all who begin there.
    """

    async def make(cloud: ComputeCloud) -> tuple[str, list[str], str, str]:
        made = await server_that_moves(cloud, volumes=volumes)
        if then is not None:
            await then(made)
        return made.server_id, made.volumes, made.source, made.destination

    what = f"a server with {volumes} volumes {named_after(then)}"
    async with keeper.open(ComputeCloud, make, what, hosts=hosts, **how) as (cloud, made):
        yield Moving(cloud, *made)


async def held(moving: Moving) -> dict[str, list[tuple[str, str]]]:
    """Return server and host of each attachment of each volume, and see what the server shows."""
    found: dict[str, list[tuple[str, str]]] = {}
    for volume_id in moving.volumes:
        shown = await moving.cloud.volume_api("GET", f"/volumes/{volume_id}", user="admin")
        found[volume_id] = sorted(
            (one["server_id"], one["host_name"]) for one in shown["volume"]["attachments"]
        )
    return found


async def named(moving: Moving) -> dict[str, str]:
    """Return the attachment of each volume that the server's block devices name."""
    listed = await moving.cloud.attachments(moving.server_id)
    return {one["volumeId"]: one["attachment_id"] for one in listed}


async def begun(moving: Moving) -> asyncio.Task[None]:
    """Begin to move, and return when the guest is on its way and goes no further."""
    moving.cloud.hypervisor(moving.source).knobs.hold("send_memory")
    assert await moving.migrate(host=moving.destination) == 202
    settling = asyncio.create_task(moving.cloud.settle())

    async def is_on_its_way() -> bool:
        return await moving.states() == ["running", "prelaunched"]

    await until(is_on_its_way, "the guest is sent")
    return settling


async def writers(cloud: ComputeCloud, volume_id: str) -> list[str]:
    """Return the hosts with a guest that may write to a volume now."""
    return [
        host
        for host in sorted(cloud.hosts)
        for one in cloud.hypervisor(host).ledger()
        if one.volume_id == volume_id and one.until is None
    ]
