"""A yard with several images, and servers to rebuild with them."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx2
import msgspec

from mooring.clients.transport import Forward, Request, Response
from tests.compute.yard import DATA, IMAGE, URLS, Yard

NEW = "5b1c9c77-6a3b-4f6e-8a55-0c1b2d3e4f50"
NEW_DATA = b"new!" * 16384


class Shelf:
    """An image service: `images` by id, with what is said of each; `data` by id."""

    def __init__(self) -> None:
        self.data = {IMAGE: DATA, NEW: NEW_DATA}
        self.images: dict[str, dict[str, Any]] = {}
        for image_id, data in self.data.items():
            self.images[image_id] = {
                "id": image_id,
                "status": "active",
                "name": "new" if image_id == NEW else "tiny",
                "disk_format": "raw",
                "container_format": "bare",
                "size": len(data),
                "min_disk": 0,
                "min_ram": 0,
                "os_hash_algo": "sha512",
                "os_hash_value": hashlib.sha512(data).hexdigest(),
            }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path, status, body = scope["path"], 404, b"{}"
        _, _, rest = path.partition("/images/")
        image_id, _, what = rest.partition("/")
        if image_id in self.images:
            status, body = 200, msgspec.json.encode(self.images[image_id])
            body = self.data[image_id] if what == "file" else body
        length = b"%d" % len(body)
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def stock(yard: Yard) -> Shelf:
    """Give a yard an image service with several images."""
    shelf = Shelf()
    yard.network.serve(URLS["image"], shelf)
    return shelf


class Between:
    """Stands between the services: `answers` calls by itself, by method and end of the path.

    `seen` has every call that compute made to the volume service.
    """

    def __init__(self, yard: Yard) -> None:
        self.answers: dict[tuple[str, str], list[tuple[int, Any]]] = {}
        self.seen: list[str] = []
        yard.network.deliver = self._deliver

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


async def make_booted(yard: Yard, size_gib: int = 1, **more: Any) -> tuple[str, str]:
    """Make a server that boots from a volume made of the first image; return both ids."""
    body = {"volume": {"size": size_gib, "imageRef": IMAGE}}
    volume_id = (await yard.volume_api("POST", "/volumes", body))["volume"]["id"]
    await yard.settle()
    return await boot(yard, volume_id, **more), volume_id


async def boot(yard: Yard, volume_id: str, **more: Any) -> str:
    """Make a server that boots from a volume."""
    root = {
        "source_type": "volume",
        "destination_type": "volume",
        "uuid": volume_id,
        "boot_index": 0,
    }
    server = {"name": "s", "flavorRef": "1", "networks": "none", **more}
    body = {"server": {**server, "block_device_mapping_v2": [root]}}
    answer = await yard.ask("POST", "/servers", body)
    assert answer.status_code == 202, answer.text
    await yard.settle()
    return answer.json()["server"]["id"]


async def rebuild(
    yard: Yard, server_id: str, image: str = NEW, *, version: str = "2.93", **more: Any
) -> httpx2.Response:
    """Ask for a rebuild."""
    how = {name: more.pop(name) for name in ("who",) if name in more}
    body = {"rebuild": {"imageRef": image, **more}}
    return await yard.ask("POST", f"/servers/{server_id}/action", body, version=version, **how)


async def rebuild_well(yard: Yard, server_id: str, image: str = NEW, **more: Any) -> None:
    """Rebuild, and wait until it is over."""
    answer = await rebuild(yard, server_id, image, **more)
    assert answer.status_code == 202, answer.text
    await yard.settle()


async def state(yard: Yard, server_id: str) -> tuple[str, str | None]:
    """Return a server's status and task."""
    server = await yard.server(server_id)
    return server["status"], server["OS-EXT-STS:task_state"]


async def volume(yard: Yard, volume_id: str) -> dict[str, Any]:
    """Return a volume, whole."""
    return (await yard.volume_api("GET", f"/volumes/{volume_id}", who="admin"))["volume"]


async def image_of(yard: Yard, volume_id: str) -> str:
    """Return the image that a volume was made from."""
    return (await volume(yard, volume_id))["volume_image_metadata"]["image_id"]


async def attachments_of(yard: Yard, volume_id: str) -> list[tuple[str, str]]:
    """Return id and status of a volume's attachments."""
    found = await yard.compute.volumes.attachments(None, volume_id=volume_id)
    return [(one.id, one.status) for one in found]
