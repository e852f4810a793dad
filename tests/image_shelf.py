"""An image service as others meet it: it shows what it has, and gives it out."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec


class ImageShelf:
    """Small raw images by id, each with what is said of it. An application."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.images: dict[str, dict[str, Any]] = {}
        self.downloads = 0

    def put(self, image_id: str, data: bytes, **said: Any) -> None:
        """Put an image on the shelf, of which `said` is told besides."""
        self.data[image_id] = data
        self.images[image_id] = {
            "id": image_id,
            "status": "active",
            "disk_format": "raw",
            "container_format": "bare",
            "size": len(data),
            "min_disk": 0,
            "min_ram": 0,
            "os_hash_algo": "sha512",
            "os_hash_value": hashlib.sha512(data).hexdigest(),
            **said,
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request for an image or its content."""
        del receive
        status, body = 404, b"{}"
        image_id, _, what = scope["path"].partition("/images/")[2].partition("/")
        if image_id in self.images:
            status, body = 200, msgspec.json.encode(self.images[image_id])
            if what == "file":
                self.downloads += 1
                body = self.data[image_id]
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
