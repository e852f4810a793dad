"""/images/{image_id}/file: the data, streamed in and out.

Source: facts/identity_image_placement.md 8.7.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, BinaryIO

from mooring import limits
from mooring.errors import Forbidden, Invalid, NotFound
from mooring.image import files, images, uploads
from mooring.image.service import Image
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from mooring.image.records import Record

api = Api[Image]()

_MEDIA = "application/octet-stream"
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


@api.put("/images/{image_id}/file", policy=None)
async def upload(call: Call[Image]) -> Reply:
    """Take the data of a queued image."""
    headers = call.request.headers
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != _MEDIA:
        raise Invalid(f"Image data come as {_MEDIA}, not as {media[:64]!r}.", status=415)
    declared = headers.get("content-length", "")
    most = call.service.settings.size_bytes
    if declared.isdecimal() and int(declared) > most:
        raise uploads.too_large(most)
    chunks = aiter(call.request.stream())
    await uploads.receive(
        call.service, call.who, call.path["image_id"], chunks, require=call.require
    )
    return Reply(204)


@api.get("/images/{image_id}/file", policy=None)
async def download(call: Call[Image]) -> Reply:
    """Return the data, or the part of them that a Range header names."""
    image_id = call.path["image_id"]
    image = await call.service.store.read(lambda tx: images.visible(tx, call.who, image_id))
    call.require("download_image", image.target())
    if image.status == "deactivated" and not call.who.is_admin:
        raise Forbidden(
            f"Image {image_id} is deactivated: its data cannot be read until it is reactivated."
        )
    if image.data_name is None or not image.size_bytes:
        return Reply(204)
    start, end = _range(call, image.size_bytes)
    # Not in a thread: whoever is cancelled while one opens a file never gets it to close it.
    file = files.open_data(call.service.directory, image.data_name)
    return Reply(
        200 if (start, end) == (0, image.size_bytes) and not _asked(call) else 206,
        headers=_headers(call, image, start, end),
        stream=_Reading(file, start, end),
    )


@api.head("/images/{image_id}/file", policy=None)
async def refuse_head(call: Call[Image]) -> Reply:
    """Refuse: what is known of the data stands in the image itself."""
    raise NotFound("The method HEAD is not allowed for this resource.", status=405)


class _Reading:
    """The bytes of a file from `start` to before `end`, and its end: begun or not, it is closed."""

    def __init__(self, file: BinaryIO, start: int, end: int) -> None:
        self._file, self._end = file, end
        self._chunks = self._read(start)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._chunks)

    async def aclose(self) -> None:
        """Close the file; a generator that nobody began would not."""
        await self._chunks.aclose()
        self._file.close()

    async def _read(self, start: int) -> AsyncGenerator[bytes, None]:
        await asyncio.to_thread(self._file.seek, start)
        left = self._end - start
        while left > 0:
            size = min(left, limits.IMAGE_CHUNK_BYTES)
            chunk = await asyncio.to_thread(self._file.read, size)
            if not chunk:
                return
            left -= len(chunk)
            yield chunk


def _asked(call: Call[Image]) -> str:
    return call.request.headers.get("range", "")


def _range(call: Call[Image], size: int) -> tuple[int, int]:
    """Return the first byte that is wanted, and the one behind the last. Raises Invalid (416)."""
    asked = _asked(call)
    if not asked:
        return 0, size
    found = _RANGE.fullmatch(asked.strip())
    if found is None or not (found[1] or found[2]):
        raise _unsatisfiable(asked, size)
    if not found[1]:
        start, end = max(0, size - int(found[2])), size
    else:
        start, end = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
    if start >= end:
        raise _unsatisfiable(asked, size)
    return start, end


def _unsatisfiable(asked: str, size: int) -> Invalid:
    return Invalid(
        f"The range {asked[:64]!r} cannot be given: the image has {size} bytes.", status=416
    )


def _headers(call: Call[Image], image: Record, start: int, end: int) -> dict[str, str]:
    headers = {"content-type": _MEDIA, "content-length": str(end - start)}
    if _asked(call):
        headers["content-range"] = f"bytes {start}-{end - 1}/{image.size_bytes}"
    elif image.checksum:
        headers["content-md5"] = image.checksum
    return headers
