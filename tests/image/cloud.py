"""A cloud of the image service alone, and visitors that speak HTTP to it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from mooring.clients.image import ImageClient
from mooring.image.app import SERVICE
from mooring.image.service import Image, ImageSettings
from mooring.probe import NoProbe, Probe
from mooring.saga.laws import LawProbe
from tests.answers import Answer
from tests.callers import OTHER_PROJECT, PROJECT, session
from tests.cloud import URL, SimulatedCloud

PATCH_21 = "application/openstack-images-v2.1-json-patch"
PATCH_20 = "application/openstack-images-v2.0-json-patch"


class UploadProbe(LawProbe):
    """Tells when an upload has its file, and passes each point on to `other`."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.other = asyncio.Event(), cast("Probe", NoProbe())

    def at(self, point: str) -> None:
        super().at(point)
        if point == "image.upload/file/opened":
            self.begun.set()
        self.other.at(point)


class ImageCloud(SimulatedCloud):
    """The service and everything to talk to it with."""

    root, user = "/image/v2", "member"

    def __init__(self, directory: Path, **how: Any) -> None:
        self.uploads = UploadProbe()
        super().__init__(directory, services=(SERVICE,), hosts=(), probe=self.uploads, **how)
        self.directory = directory / "images"

    async def open_control(self) -> None:
        await super().open_control()
        self.image: Image = self.cloud[SERVICE]
        self.image.settings = ImageSettings(size_bytes=8 << 20)
        self.client = ImageClient(session(self.network, "image", f"{URL}/image"))

    def limit(self, size_bytes: int) -> None:
        self.image.settings = replace(self.image.settings, size_bytes=size_bytes)

    async def make(self, user: str = "member", **attributes: Any) -> str:
        """Make a queued raw image; return its id."""
        body = {"name": "cirros", "disk_format": "raw", "container_format": "bare", **attributes}
        answer = await self.ask("POST", "/images", body, user=user)
        assert answer.status == 201, answer.text
        return answer.body["id"]

    async def upload(
        self,
        image_id: str,
        content: bytes | AsyncIterator[bytes],
        *,
        user: str = "member",
        media: str = "application/octet-stream",
    ) -> Answer:
        headers, path = {"content-type": media}, f"/images/{image_id}/file"
        return await self.ask("PUT", path, content, user=user, headers=headers)

    async def upload_begun(self) -> None:
        """Wait until the first upload has its file. What a client has sent is not there yet."""
        await self.uploads.begun.wait()

    async def filled(self, content: bytes = b"data", **attributes: Any) -> str:
        """Make an active raw image; return its id."""
        image_id = await self.make(**attributes)
        answer = await self.upload(image_id, content)
        assert answer.status == 204, answer.text
        return image_id

    async def show(self, image_id: str, user: str = "admin") -> dict[str, Any]:
        answer = await self.ask("GET", f"/images/{image_id}", user=user)
        assert answer.status == 200, answer.text
        return answer.body

    async def patch(
        self,
        image_id: str,
        *changes: Mapping[str, Any],
        user: str = "member",
        media: str = PATCH_21,
    ) -> Answer:
        path, headers = f"/images/{image_id}", {"Content-Type": media}
        return await self.ask("PATCH", path, list(changes), user=user, headers=headers)

    def files(self) -> list[str]:
        return sorted(path.name for path in self.directory.glob("*"))


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def is_as_before(cloud: ImageCloud, image_id: str) -> bool:
    """Tell whether an image is queued, without data or an upload."""
    shown = await cloud.show(image_id)
    return (shown["status"], shown["size"], cloud.files()) == ("queued", None, [])


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
    "ImageCloud",
    "is_as_before",
    "pieces",
    "qcow2",
]
