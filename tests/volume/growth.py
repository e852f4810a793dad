"""A compute service on the wire, as the volume service meets it when a volume grows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct

from mooring.agent_api.disks import DiskSpec
from mooring.agent_api.servers import PowerRequest, ServerSpec
from mooring.clients.compute import ComputeClient
from mooring.clients.transport import Network
from tests.answers import Answer
from tests.callers import PROJECT, session
from tests.volume.cloud import SERVER, VolumeCloud, connector

GIB = 1024**3
SHORT_S = 50.0
"""Enough for calls to be tried again, and not for anybody's deadline."""
_EVENTS = "/compute/v2.1/os-server-external-events"
_OPERATIONS = "/compute/v2.1/mooring/operations/"


class Event(Struct, frozen=True):
    """A request that compute got: its version, its operation without epoch, its events."""

    version: str
    operation: str
    events: list[dict[str, Any]]


class Nova:
    """Takes events as compute does. `answers` are given first, one for each request."""

    def __init__(self) -> None:
        self.taken: list[Event] = []
        self.buried: list[str] = []
        self.answers: list[tuple[int, Any]] = []
        self.maximum: tuple[int, int] = (2, 105)
        self.knows_operations = True
        self.refusal = 0
        """The status with which it refuses to give up an operation, or 0."""
        self.meanwhile: Callable[[], Awaitable[Any]] | None = None
        """What happens before an event is answered."""

    def client(self) -> ComputeClient:
        network = Network()
        network.serve("http://cloud/compute", self)
        return ComputeClient(session(network, "compute", "http://cloud/compute/v2.1"))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        status, body = await self._answer(scope["path"], headers, message.get("body", b""))
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        sent = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": sent})
        await send({"type": "http.response.body", "body": content})

    async def _answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any]:
        if path.startswith(_OPERATIONS):
            if not self.knows_operations:
                return 404, {"itemNotFound": {"message": "Not found."}}
            if self.refusal:
                return self.refusal, {"forbidden": {"message": "Policy does not allow this."}}
            self.buried.append(path.removeprefix(_OPERATIONS))
            return 200, {"made": []}
        assert path == _EVENTS
        version = headers["openstack-api-version"].partition(" ")[2]
        if tuple(map(int, version.split("."))) > self.maximum:
            return 406, {"computeFault": {"message": f"Version {version} is not supported."}}
        events = msgspec.json.decode(body)["events"]
        operation = headers["mooring-operation"].partition(";")[0]
        self.taken.append(Event(version, operation, events))
        if self.meanwhile is not None:
            await self.meanwhile()
        if self.answers:
            return self.answers.pop(0)
        answered = [{**event, "code": 200, "status": "completed"} for event in events]
        return 200, {"events": answered}


class Harbour:
    """A cloud with guests that have its volumes, and a compute service that is told of them."""

    def __init__(self, cloud: VolumeCloud) -> None:
        self.cloud, self.nova = cloud, Nova()
        cloud.neighbour = cloud.volume.compute = self.nova.client()

    async def attach(self, volume_id: str, server_id: str = SERVER, *, running: bool = True) -> str:
        """Attach a volume, whole, and let a guest have it, which holds its lock while it runs."""
        attachment_id = await self.cloud.attach(volume_id, server_id)
        agent = self.cloud.known_agents["host1"]
        connection = await agent.export_volume(volume_id, attachment_id, connector("host1"))
        disk = DiskSpec(
            volume_id=volume_id,
            attachment_id=attachment_id,
            connection=connection,
            boot_index=0,
        )
        await agent.put_server(
            server_id, ServerSpec(name="guest", vcpus=1, memory_mib=64, disks=[disk])
        )
        if not running:
            await agent.set_power(server_id, PowerRequest(state="off"))
        return attachment_id

    async def made(self, size: int = 1, **fields: Any) -> str:
        """Make a volume that a running guest has."""
        volume_id = await self.cloud.make(size=size, **fields)
        await self.attach(volume_id)
        return volume_id

    async def grow(self, volume_id: str, size_gib: int = 2) -> None:
        """Let the guest's hypervisor do what compute would ask it for."""
        await self.cloud.known_agents["host1"].resize_disk(SERVER, volume_id, size_gib * GIB)

    async def extend(self, volume_id: str, size: Any = 2, **more: Any) -> Answer:
        """Ask for a new size, and let it go on until nothing moves but slow timers."""
        how = {"version": "3.71", **more}
        answer = await self.cloud.act(volume_id, "os-extend", {"new_size": size}, **how)
        await self.rest()
        return answer

    async def complete(self, volume_id: str, *, error: Any = False, **more: Any) -> Answer:
        """Complete as compute's service user does."""
        how = {"version": "3.71", "user": "compute", **more}
        body = {"error": error}
        answer = await self.cloud.act(volume_id, "os-extend_volume_completion", body, **how)
        await self.rest()
        return answer

    async def rest(self) -> None:
        """Let everything go on that does not wait for minutes."""
        await self.cloud.settle(SHORT_S)

    async def reset(self, volume_id: str, **words: str) -> Answer:
        """Reset a status, whoever is at work on it."""
        asking = self.cloud.act(volume_id, "os-reset_status", words, user="admin")
        answer = await self.cloud.drive(asking, turn_s=1.0)
        await self.cloud.settle(0.0)
        return answer

    async def state(self, volume_id: str) -> tuple[str, int]:
        """Return status and size in GiB."""
        shown = await self.cloud.show(volume_id, version="3.71")
        return shown["status"], shown["size"]

    async def file_gib(self, volume_id: str) -> int:
        """Return how big the storage has it."""
        file = await self.cloud.known_agents["host1"].show_volume(volume_id)
        assert file is not None
        return file.size_gib

    async def gigabytes(self) -> tuple[int, int]:
        """Return what the project uses, and what is reserved besides."""
        answer = await self.cloud.ask("GET", f"/os-quota-sets/{PROJECT}?usage=True")
        used = answer.body["quota_set"]["gigabytes"]
        typed = answer.body["quota_set"]["gigabytes___DEFAULT__"]
        assert (used["in_use"], used["reserved"]) == (typed["in_use"], typed["reserved"])
        return used["in_use"], used["reserved"]

    async def messages(self) -> list[str]:
        """Return the ids of what the project was told, newest first."""
        answer = await self.cloud.ask("GET", "/messages")
        return [row["event_id"] for row in answer.body["messages"]]

    async def told(self) -> str:
        """Return the text of what the project was told last."""
        return (await self.cloud.ask("GET", "/messages")).body["messages"][0]["user_message"]

    async def is_at_peace(self) -> bool:
        """Whether nothing rests, nothing is reserved, and row and file have the same size."""
        assert await self.cloud.complaints() == []
        assert (await self.gigabytes())[1] == 0
        for file in await self.cloud.storage.volumes():
            assert (await self.state(file.volume_id))[1] == file.size_gib
        return True
