"""An image service on a temporary directory, and visitors that speak HTTP to it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
from msgspec.structs import replace

from mooring.clients.image import ImageClient
from mooring.clients.transport import Network
from mooring.clock import SimulatedClock
from mooring.image.app import SERVICE
from mooring.image.service import Image, ImageSettings
from mooring.probe import NoProbe, Probe
from mooring.store.base import Store
from tests.callers import OTHER_PROJECT, PROJECT, Tokens, session

URL = "http://cloud/image"
PATCH_21 = "application/openstack-images-v2.1-json-patch"
PATCH_20 = "application/openstack-images-v2.0-json-patch"


class Opened:
    """A probe that tells when an upload has its file, and passes each point on to another."""

    def __init__(self, other: Probe) -> None:
        self.event, self._other = asyncio.Event(), other

    def at(self, point: str) -> None:
        if point == "image.upload/file/opened":
            self.event.set()
        self._other.at(point)


class Gallery:
    """The service and everything to talk to it with."""

    def __init__(
        self, store: Store, directory: Path, *, owner: str = "one", probe: Probe | None = None
    ) -> None:
        self.clock = SimulatedClock()
        self.directory = directory
        self._opened = Opened(probe or NoProbe())
        self.image = Image(
            store=store,
            directory=directory,
            clock=self.clock,
            owner=owner,
            probe=self._opened,
            settings=ImageSettings(size_bytes=8 << 20),
        )
        self.app = SERVICE.build(self.image, validator=Tokens(), public_url=URL)
        self.network = Network()
        self.network.serve(URL, self.app)
        # No bound of its own: a machine that has more to do answers late.
        self.http = httpx2.AsyncClient(transport=self.network, timeout=None)
        self.client = ImageClient(session(self.network, "image", URL))

    def limit(self, size_bytes: int) -> None:
        self.image.settings = replace(self.image.settings, size_bytes=size_bytes)

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        who: str = "member",
        content: bytes | AsyncIterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        sent = {"X-Auth-Token": who, "Accept": "application/json", **(headers or {})}
        url = f"{URL}/v2{path}"
        if content is not None:
            return await self.http.request(method, url, content=content, headers=sent)
        return await self.http.request(method, url, json=body, headers=sent)

    async def make(self, who: str = "member", **attributes: Any) -> str:
        """Make a queued raw image; return its id."""
        body = {"name": "cirros", "disk_format": "raw", "container_format": "bare", **attributes}
        answer = await self.ask("POST", "/images", body, who=who)
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    async def upload(
        self,
        image_id: str,
        content: bytes | AsyncIterator[bytes],
        *,
        who: str = "member",
        media: str = "application/octet-stream",
    ) -> httpx2.Response:
        headers = {"Content-Type": media} if media else {}
        path = f"/images/{image_id}/file"
        return await self.ask("PUT", path, content=content, who=who, headers=headers)

    async def upload_begun(self) -> None:
        """Wait until the first upload has its file. What a client has sent is not there yet."""
        await self._opened.event.wait()

    async def filled(self, content: bytes = b"data", **attributes: Any) -> str:
        """Make an active raw image; return its id."""
        image_id = await self.make(**attributes)
        answer = await self.upload(image_id, content)
        assert answer.status_code == 204, answer.text
        return image_id

    async def show(self, image_id: str, who: str = "admin") -> dict[str, Any]:
        answer = await self.ask("GET", f"/images/{image_id}", who=who)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def patch(
        self, image_id: str, *changes: Mapping[str, Any], who: str = "member", media: str = PATCH_21
    ) -> httpx2.Response:
        path, headers = f"/images/{image_id}", {"Content-Type": media}
        return await self.ask("PATCH", path, list(changes), who=who, headers=headers)

    def files(self) -> list[str]:
        return sorted(path.name for path in self.directory.glob("*"))


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def is_as_before(gallery: Gallery, image_id: str) -> bool:
    """Tell whether an image is queued, without data or an upload."""
    shown = await gallery.show(image_id)
    return (shown["status"], shown["size"], gallery.files()) == ("queued", None, [])


def qcow2(
    size: int = 1 << 20,
    *,
    backing: int = 0,
    version: int = 3,
    features: int = 0,
    encryption: int = 0,
) -> bytes:
    """Return an empty qcow2's header, and some bytes behind it."""
    name_bytes = 16 if backing else 0
    fixed = struct.pack(">4sIQIIQI", b"QFI\xfb", version, backing, name_bytes, 16, size, encryption)
    return (fixed.ljust(72, b"\0") + struct.pack(">QQQII", features, 0, 0, 4, 104)).ljust(
        512, b"\0"
    )


__all__ = [
    "OTHER_PROJECT",
    "PATCH_20",
    "PATCH_21",
    "PROJECT",
    "URL",
    "Gallery",
    "is_as_before",
    "pieces",
    "qcow2",
]
