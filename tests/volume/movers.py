"""A cloud of several pools, between which volumes go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent.settings import PoolSettings
from mooring.agent_api import wire
from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Conflict, Unavailable
from tests.answers import Answer
from tests.cloud import SimulatedCloud

VOLUMES = "/volume/v3/volumes"
SLOW, FAST, FAR = "h1@simulated#slow", "h1@simulated#fast", "h2@simulated#far"
SMALL, SMALL_GIB = "h1@simulated#small", 1
REFUSALS = 6
POOLS = {"h1": ("slow", "fast", "small"), "h2": ("far",)}


def is_admin(**how: Any) -> dict[str, Any]:
    return {"version": "3.67", "user": "admin", **how}


class Movers(SimulatedCloud):
    """A host with three pools, the first and largest of which gets new volumes, and another."""

    def __init__(self, directory: Path, database: str) -> None:
        super().__init__(directory, database=database, hosts=POOLS)
        for host, names in POOLS.items():
            sizes = {"small": SMALL_GIB, "slow": 0}
            pools = tuple(
                PoolSettings(driver="simulated", name=name, total_gib=sizes.get(name, 100))
                for name in names
            )
            self.hosts[host] = replace(self.hosts[host], pools=pools)

    def pool(self, backend: str) -> SimulatedDriver:
        host, _, rest = backend.partition("@")
        driver = self.agents[host].agent.drivers[rest.partition("#")[2]]
        assert isinstance(driver, SimulatedDriver)
        return driver

    async def there(self) -> dict[str, list[str]]:
        """Return which volumes lie in which pool; those without any are left out."""
        found = dict[str, list[str]]()
        for host, names in POOLS.items():
            for name in names:
                backend = f"{host}@simulated#{name}"
                ids = [file.volume_id for file in await self.pool(backend).volumes()]
                found |= {backend: ids} if ids else {}
        return found

    async def make(self, **fields: Any) -> str:
        answer = await self.ask("POST", VOLUMES, {"volume": {"size": 1, **fields}})
        assert answer.status == 202, answer.content
        await self.settle()
        return answer.key("volume")["id"]

    async def act(self, volume_id: str, action: str, value: Any, **how: Any) -> Answer:
        path = f"{VOLUMES}/{volume_id}/action"
        answer = await self.do("POST", path, {action: value}, **is_admin(**how))
        assert answer is not None
        return answer

    async def migrate(self, volume_id: str, host: str, **fields: Any) -> Answer:
        return await self.act(volume_id, "os-migrate_volume", {"host": host, **fields})

    async def show(self, volume_id: str) -> Any:
        return (await self.ask("GET", f"{VOLUMES}/{volume_id}", **is_admin())).key("volume")

    async def stands(self, volume_id: str) -> tuple[str, str | None, str]:
        """Return status, migration status and pool."""
        shown = await self.show(volume_id)
        return shown["status"], shown["migration_status"], shown["os-vol-host-attr:host"]

    async def captures(self) -> list[Path]:
        return sorted(self.settings.state_path.glob("hosts/*/captures/*/*"))

    async def images(self) -> list[str]:
        agents = [running.agent for running in self.agents.values()]
        return [image.image_id for agent in agents for image in agent.images.images()]


class Silence:
    """Keeps calls to hosts from being answered: those of a method whose path has this part.

    A PUT that is `heard` is done all the same; what is `spared` is answered.
    """

    def __init__(
        self,
        cloud: SimulatedCloud,
        *calls: tuple[str, str, str],
        heard: bool = False,
        spared: str = "",
    ) -> None:
        self.cloud, self.calls, self.heard, self.spared = cloud, set(calls), heard, spared
        self.before, cloud.deliver_to_host = cloud.deliver_to_host, self

    async def __call__(self, request: Request, forward: Forward) -> Response:
        is_spared = self.spared and self.spared in request.target
        for host, method, part in () if is_spared else self.calls:
            at = request.headers["host"]
            if (at, request.method) == (host, method) and part in request.target:
                if self.heard and method == "PUT":
                    await self.before(request, forward)
                raise Unavailable("The agent gave no answer.")
        return await self.before(request, forward)

    def end(self) -> None:
        self.cloud.deliver_to_host = self.before


class Reluctant:
    """Hosts that refuse to delete what has this in its path, some times in a row."""

    def __init__(self, cloud: SimulatedCloud, part: str) -> None:
        self.part, self.left = part, REFUSALS
        self.before, cloud.deliver_to_host = cloud.deliver_to_host, self

    async def __call__(self, request: Request, forward: Forward) -> Response:
        if self.left and request.method == "DELETE" and self.part in request.target:
            self.left -= 1
            refused = wire.body_of(Conflict("It is being read."))
            return Response(409, refused, {"content-type": "application/json"})
        return await self.before(request, forward)
