"""Servers to rebuild, and who stands between the services meanwhile."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from mooring.clients.transport import Forward, Request, Response
from tests.answers import Answer
from tests.compute.cloud import IMAGE, NEW, ComputeCloud
from tests.kept import Keeper
from tests.waiting import until


class Between:
    """Stands between the services: `answers` calls by itself, by method and end of the path.

    `seen` has every call that compute made to the volume service.
    """

    def __init__(self, cloud: ComputeCloud) -> None:
        self.answers: dict[tuple[str, str], list[tuple[int, Any]]] = {}
        self.seen: list[str] = []
        cloud.deliver = self._deliver

    def answer(self, method: str, path: str, status: int, body: Any = None) -> None:
        """Let the next call to such a path be answered so."""
        self.answers.setdefault((method, path), []).append((status, body))

    async def _deliver(self, request: Request, forward: Forward) -> Response:
        path = request.path
        if request.headers.get("user-agent") == "mooring" and "/volume/" in path:
            body = request.content
            action = next(iter(msgspec.json.decode(body)), "") if path.endswith("/action") else ""
            path += f" {action}" if action else ""
            self.seen.append(f"{request.method} {path}")
            for (method, end), answers in self.answers.items():
                if answers and request.method == method and path.endswith(end):
                    return _respond(*answers.pop(0))
        return await forward(request)


def _respond(status: int, body: Any) -> Response:
    content = msgspec.json.encode(body or {"badRequest": {"message": "It will not go."}})
    return Response(status, content, {"content-type": "application/json"})


async def make_booted(cloud: ComputeCloud, size_gib: int = 1, **more: Any) -> tuple[str, str]:
    """Return the ids of a server that boots from a volume made of the first image, and of that."""
    if size_gib == 1 and not more and (found := cloud.take_prepared()) is not None:
        return found
    body = {"volume": {"size": size_gib, "imageRef": IMAGE}}
    volume_id = (await cloud.volume_api("POST", "/volumes", body))["volume"]["id"]
    await cloud.settle()
    return await boot(cloud, volume_id, **more), volume_id


async def boot(cloud: ComputeCloud, volume_id: str, **more: Any) -> str:
    """Make a server that boots from a volume."""
    root = {
        "source_type": "volume",
        "destination_type": "volume",
        "uuid": volume_id,
        "boot_index": 0,
    }
    server = {"name": "s", "flavorRef": "1", "networks": "none", **more}
    body = {"server": {**server, "block_device_mapping_v2": [root]}}
    answer = await cloud.ask("POST", "/servers", body)
    assert answer.status == 202, answer.text
    await cloud.settle()
    return answer.body["server"]["id"]


async def rebuild(
    cloud: ComputeCloud, server_id: str, image: str = NEW, *, version: str = "2.93", **more: Any
) -> Answer:
    """Ask for a rebuild."""
    how = {name: more.pop(name) for name in ("user",) if name in more}
    body = {"rebuild": {"imageRef": image, **more}}
    return await cloud.ask("POST", f"/servers/{server_id}/action", body, version=version, **how)


async def rebuild_well(cloud: ComputeCloud, server_id: str, image: str = NEW, **more: Any) -> None:
    """Rebuild, and wait until it is over."""
    answer = await rebuild(cloud, server_id, image, **more)
    assert answer.status == 202, answer.text
    await cloud.settle()


async def state(cloud: ComputeCloud, server_id: str) -> tuple[str, str | None]:
    """Return a server's status and task."""
    server = await cloud.server(server_id)
    return server["status"], server["OS-EXT-STS:task_state"]


async def volume(cloud: ComputeCloud, volume_id: str) -> dict[str, Any]:
    """Return a volume, whole."""
    return (await cloud.volume_api("GET", f"/volumes/{volume_id}", user="admin"))["volume"]


async def image_of(cloud: ComputeCloud, volume_id: str) -> str:
    """Return the image that a volume was made from."""
    return (await volume(cloud, volume_id))["volume_image_metadata"]["image_id"]


async def until_volume(cloud: ComputeCloud, volume_id: str, status: str) -> None:
    """Return once a volume is in a status to which what runs by itself takes it."""

    async def holds() -> bool:
        return await cloud.volume_status(volume_id) == status

    await until(holds, f"the volume is {status}")


async def attachments_of(cloud: ComputeCloud, volume_id: str) -> list[tuple[str, str]]:
    """Return id and status of a volume's attachments."""
    found = await cloud.compute.volumes.attachments(None, volume_id=volume_id)
    return [(one.id, one.status) for one in found]


@asynccontextmanager
async def booted_cloud(keeper: Keeper, **how: Any) -> AsyncGenerator[ComputeCloud]:
    """Give a cloud with what `make_booted` makes, begun where the first one had that."""
    opened = keeper.open(ComputeCloud, make_booted, "a server that boots from a volume", **how)
    async with opened as (cloud, cloud.prepared):
        yield cloud
