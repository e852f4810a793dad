"""A cloud of several pools, between which volumes go under the guests that have them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent.settings import PoolSettings
from tests.answers import Answer
from tests.compute.cloud import ComputeCloud
from tests.kept import Keeper, named_after

SLOW, FAST = "host1@simulated#slow", "host1@simulated#fast"
FAR, OWN = "host2@simulated#far", "host2@simulated#own"
_POOLS = {"host1": ("slow", "fast"), "host2": ("far", "own")}


class MovingVolumes(ComputeCloud):
    """A host with two pools, of which the first gets new volumes, and two of another host's.

    What is in `OWN` the other host alone may have.
    """

    def __init__(self, directory: Path, **how: Any) -> None:
        roles = {"host1": ("compute", "volume"), "host2": ("volume",)}
        super().__init__(directory, hosts=_POOLS, roles=roles, **how)
        for host, names in _POOLS.items():
            pools = tuple(
                PoolSettings(
                    driver="simulated",
                    name=name,
                    total_gib=0 if name == "slow" else 100,
                    hosts=("host2",) if name == "own" else (),
                )
                for name in names
            )
            self.hosts[host] = replace(self.hosts[host], pools=pools)

    def pool(self, backend: str) -> SimulatedDriver:
        host, _, rest = backend.partition("@")
        found = self.agents[host].agent.drivers[rest.partition("#")[2]]
        assert isinstance(found, SimulatedDriver)
        return found

    async def there(self) -> dict[str, list[str]]:
        """Return which volumes lie in which pool; those without any are left out."""
        found = dict[str, list[str]]()
        for host, names in _POOLS.items():
            for name in names:
                backend = f"{host}@simulated#{name}"
                ids = [file.volume_id for file in await self.pool(backend).volumes()]
                found |= {backend: ids} if ids else {}
        return found

    async def prepare(self) -> tuple[str, str]:
        """Return a server on the first host, with a volume of its first pool."""
        if (found := self.take_prepared()) is not None:
            return found
        server_id = await self.make_server()
        volume_id = await self.make_volume()
        assert (await self.attach(server_id, volume_id)).status < 300
        await self.settle()
        return server_id, volume_id

    async def act_on(self, volume_id: str, action: str, value: Any, **how: Any) -> Answer:
        path = f"/volume/v3/volumes/{volume_id}/action"
        how = {"version": "3.67", **how}
        return await self.ask("POST", path, {action: value}, **how)

    async def migrate(self, volume_id: str, pool: str) -> Answer:
        """Ask for it. Hosts have said how they are, whatever time passed for whoever waited."""
        await self.look_at_hosts()
        return await self.act_on(volume_id, "os-migrate_volume", {"host": pool}, user="admin")

    async def show_volume(self, volume_id: str) -> dict[str, Any]:
        return (await self.volume_api("GET", f"/volumes/{volume_id}", user="admin"))["volume"]

    async def stands(self, volume_id: str) -> tuple[str, str | None, str]:
        """Return status, migration status and pool."""
        shown = await self.show_volume(volume_id)
        return shown["status"], shown["migration_status"], shown["os-vol-host-attr:host"]

    async def copy_of(self, volume_id: str) -> str:
        """Return the id of a volume's copy, as an administrator's list tells of it."""
        listed = await self.volume_api("GET", "/volumes/detail?all_tenants=1", user="admin")
        target = f"target:{volume_id}"
        found = [one["id"] for one in listed["volumes"] if one["migration_status"] == target]
        assert len(found) == 1, listed
        return found[0]

    async def check(self, server_id: str, volume_id: str, migration: str | None, pool: str) -> None:
        """See that server, guest, host and volume service have one volume in one pool."""
        stands = await self.stands(volume_id)
        assert stands == ("in-use", migration, pool), stands
        assert await self.there() == {pool: [volume_id]}
        [attachment] = await self.attachments(server_id)
        assert attachment["volumeId"] == volume_id
        inventory = await self.known_agents["host1"].inventory()
        [connected] = inventory.connections
        assert (connected.volume_id, connected.attachment_id) == (
            volume_id,
            attachment["attachment_id"],
        )
        guest = await self.known_agents["host1"].show_server(server_id)
        assert guest is not None
        there = [(one.volume_id, one.attachment_id) for one in guest.disks]
        assert there == [(volume_id, attachment["attachment_id"])]
        file = await self.pool(pool).find(volume_id)
        assert file is not None
        assert (file.exports, file.becomes) == ([attachment["attachment_id"]], "")
        shown = (await self.show_volume(volume_id))["attachments"]
        assert [one["attachment_id"] for one in shown] == [attachment["attachment_id"]]
        listed = await self.volume_api("GET", "/volumes/detail?all_tenants=1", user="admin")
        assert [one["id"] for one in listed["volumes"]] == [volume_id]


@asynccontextmanager
async def prepared_volumes(
    keeper: Keeper,
    prepare: Callable[[MovingVolumes], Awaitable[tuple[str, str]]] = MovingVolumes.prepare,
    **how: Any,
) -> AsyncGenerator[MovingVolumes]:
    """Give such a cloud with what is prepared, begun where the first one had that."""
    opened = keeper.open(MovingVolumes, prepare, named_after(prepare), **how)
    async with opened as (cloud, cloud.prepared):
        yield cloud
