"""A volume that its service began to extend and waits for the completion of: any Cinder's part."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace
from sqlalchemy import select

from mooring.clients.transport import Forward, Request, Response
from mooring.compute.tables import BlockDevice, Fault
from mooring.fence.operation import HEADER, Operation
from tests.answers import Answer
from tests.compute.cloud import ComputeCloud

GIB = 1 << 30
EVENTS = "/os-server-external-events"
COMPLETION = "os-extend_volume_completion"


class Extending:
    """Stands before the volume service: shows one volume as extending, and takes its completion."""

    def __init__(self, cloud: ComputeCloud, volume_id: str, **metadata: str) -> None:
        self.cloud, self.volume_id = cloud, volume_id
        self.status, self.size_gib = "extending", 1
        self.metadata = metadata or {"extend_new_size": "2"}
        self.completions: list[bool] = []
        """What every completion that came said of an error."""
        self.versions: set[str] = set()
        self.refusals: list[int] = []
        """Statuses that the next completions are answered with."""
        self.operation = Operation("11111111-1111-4111-8111-111111111111", "send_event", 1, 7)
        cloud.deliver = self.deliver

    async def deliver(self, request: Request, forward: Forward) -> Response:
        """Pass on what is not about this volume."""
        path = request.path
        if request.method == "POST" and path.endswith(f"/volumes/{self.volume_id}/action"):
            body = json.loads(request.content)
            if COMPLETION in body:
                self.versions.add(request.headers["openstack-api-version"])
                return answer(self._complete(body[COMPLETION]["error"]))
        response = await forward(request)
        if request.method != "GET" or not path.endswith(f"/volumes/{self.volume_id}"):
            return response
        shown = json.loads(await response.whole())
        if "volume" in shown:
            seen = {"status": self.status, "size": self.size_gib, "metadata": self.metadata}
            shown["volume"] |= seen
        return answer(response.status, shown)

    def _complete(self, error: bool) -> int:
        self.completions.append(error)
        if self.refusals:
            return self.refusals.pop(0)
        if self.status != "extending":
            return 400
        self.finish(error=error)
        return 202

    def finish(self, *, error: bool) -> None:
        """Let the volume service come to an end, by a completion or by itself."""
        self.status = "error_extending" if error else "in-use"
        if not error:
            self.size_gib = int(self.metadata["extend_new_size"])

    async def send(
        self,
        server_id: str,
        *,
        version: str = "2.105",
        fenced: bool = True,
        step: str = "send_event",
    ) -> Answer:
        """Send the event, under an operation unless it is not `fenced`."""
        event = {"server_uuid": server_id, "name": "volume-extended", "tag": self.volume_id}
        operation = replace(self.operation, step=step)
        return await self._call("POST", EVENTS, {"events": [event]}, version, fenced and operation)

    async def bury(self, step: str = "send_event") -> Answer:
        """Tell compute to give the event's operation up."""
        path = f"/mooring/operations/{self.operation.saga}.{step}"
        return await self._call("DELETE", path, None, "2.105", False)

    async def _call(
        self, method: str, path: str, body: Any, version: str, operation: Operation | bool
    ) -> Answer:
        headers = {"X-Service-Token": "volume", HEADER: str(operation or "")}
        return await self.cloud.ask(
            method, path, body, user="volume", version=version, headers=headers
        )


def answer(status: int, body: Any = None) -> Response:
    """Return an answer as the volume service gives it."""
    body = {"badRequest": {"message": "No.", "code": status}} if status >= 400 else body
    content = b"" if body is None else json.dumps(body).encode()
    return Response(status, content, {"content-type": "application/json"})


async def attached(cloud: ComputeCloud, **metadata: str) -> tuple[str, Extending]:
    """Make a server with a volume that is being extended from 1 to 2 GiB."""
    server_id, volume_id = await cloud.make_attached()
    return server_id, Extending(cloud, volume_id, **metadata)


async def sizes_gib(cloud: ComputeCloud, server_id: str, volume_id: str) -> tuple[float, float]:
    """Return how big guest and image are."""
    size = await cloud.known_agents["host1"].show_disk_size(server_id, volume_id)
    return size.guest_bytes / GIB, size.image_bytes / GIB


async def noted_gib(cloud: ComputeCloud, volume_id: str) -> int | None:
    """Return the size that the server's block device has."""
    query = select(BlockDevice.volume_size_gib).where(BlockDevice.volume_id == volume_id)
    return await cloud.stores["compute"].read(lambda tx: tx.execute(query).scalar())


async def faults(cloud: ComputeCloud, server_id: str) -> list[str]:
    """Return the messages of a server's faults."""
    query = select(Fault.message).where(Fault.server_id == server_id).order_by(Fault.id)
    return await cloud.stores["compute"].read(lambda tx: list(tx.execute(query).scalars()))


async def event_of(cloud: ComputeCloud, server_id: str) -> dict[str, Any]:
    """Return the newest action's only event."""
    path = f"/servers/{server_id}/os-instance-actions"
    listed = (await cloud.ask("GET", path, user="admin")).body["instanceActions"]
    newest = f"{path}/{listed[0]['request_id']}"
    (event,) = (await cloud.ask("GET", newest, user="admin")).body["instanceAction"]["events"]
    return event
