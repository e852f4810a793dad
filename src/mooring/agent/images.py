"""The host's cache of images: streamed in, checked, then given their name.

`<id>` is the data, `<id>.json` says what it is and makes it count. A guest's root disk keeps the
data by a link of its own, so an image may leave the cache while guests use it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from mooring.agent import files
from mooring.agent.limits import AGENT_IMAGE_BYTES
from mooring.agent.qemu_img import FORMATS, ImageInfo
from mooring.agent_api.images import CachedImage, ImageSpec
from mooring.errors import Invalid
from mooring.fence.threads import run_to_end

Check = Callable[[Path, str], Awaitable[ImageInfo]]
_WRITE_BYTES = 1024**2


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


class _Record(Struct, frozen=True):
    """What a cached image is, and the hash that it was checked by."""

    image: CachedImage
    os_hash_value: str = ""


class ImageCache:
    """The images of one host."""

    def __init__(self, directory: Path, check: Check) -> None:
        self._directory, self._check = directory, check

    def prepare(self) -> None:
        """Make the directory, and remove what unfinished calls have left."""
        self._directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        for left in self._directory.glob(f"*{files.PARTIAL}"):
            left.unlink(missing_ok=True)

    def path(self, image_id: str) -> Path:
        """Return where an image's data is."""
        return self._directory / image_id

    def find(self, image_id: str) -> CachedImage | None:
        """Return an image that is here whole, or None."""
        record = files.read_record(self._record_path(image_id), _Record)
        return record.image if record is not None and self.path(image_id).is_file() else None

    def images(self) -> list[CachedImage]:
        """Return all images."""
        names = sorted(path.stem for path in self._directory.glob("*.json"))
        found = (self.find(name) for name in names)
        return [image for image in found if image is not None]

    def leftovers(self) -> list[str]:
        """Return files that belong to no image."""
        held = [image.image_id for image in self.images()]
        known = {self.path(one) for one in held} | {self._record_path(one) for one in held}
        return sorted(str(path) for path in self._directory.iterdir() if path not in known)

    async def put(
        self, image_id: str, spec: ImageSpec, chunks: AsyncIterator[bytes], operation_key: str
    ) -> CachedImage:
        """Take an image in unless it is here. Raises Invalid: not as declared; NoCapacity."""
        known = files.read_record(self._record_path(image_id), _Record)
        if known is not None and self.find(image_id) and _is_same(known, spec):
            return known.image
        _check_spec(spec)
        path = self.path(image_id)
        for left in files.partials(path):
            left.unlink(missing_ok=True)
        written = files.partial(path, operation_key)
        try:
            with files.full_disk_told(path):
                await _write(written, spec, chunks)
            info = await self._check(written, spec.disk_format)
            image = CachedImage(
                image_id=image_id,
                disk_format=info.format,
                size_bytes=spec.size_bytes,
                virtual_bytes=info.virtual_bytes,
            )
            self._record_path(image_id).unlink(missing_ok=True)
            await run_to_end(lambda: files.finish(written, path))
            files.write_record(self._record_path(image_id), _Record(image, spec.os_hash_value))
        finally:
            written.unlink(missing_ok=True)
        return image

    def delete(self, image_id: str) -> None:
        """Take an image out; nothing when it is not here."""
        self._record_path(image_id).unlink(missing_ok=True)
        for left in (self.path(image_id), *files.partials(self.path(image_id))):
            left.unlink(missing_ok=True)

    def _record_path(self, image_id: str) -> Path:
        return self._directory / f"{image_id}.json"


def _is_same(known: _Record, spec: ImageSpec) -> bool:
    image = known.image
    same_hash = not spec.os_hash_value or spec.os_hash_value == known.os_hash_value
    return same_hash and (image.disk_format, image.size_bytes) == (
        spec.disk_format,
        spec.size_bytes,
    )


def _check_spec(spec: ImageSpec) -> None:
    if spec.disk_format not in FORMATS:
        raise Invalid(
            f"Disk format {spec.disk_format} is not taken; convert the image to qcow2 or raw."
        )
    if not 0 < spec.size_bytes <= AGENT_IMAGE_BYTES:
        raise Invalid(
            f"An image of {spec.size_bytes} bytes is not taken; 1 to {AGENT_IMAGE_BYTES} are."
        )
    if spec.os_hash_algo and spec.os_hash_algo not in hashlib.algorithms_guaranteed:
        raise Invalid(f"The hash {spec.os_hash_algo} is not known here; use sha512.")


async def _write(path: Path, spec: ImageSpec, chunks: AsyncIterator[bytes]) -> None:
    """Write a stream down and compare it with what was declared."""
    digest: _Hash = hashlib.new(spec.os_hash_algo or "sha512", usedforsecurity=False)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        size_bytes, waiting = 0, bytearray()
        async for chunk in chunks:
            size_bytes += len(chunk)
            if size_bytes > spec.size_bytes:
                raise Invalid(f"The image is larger than the {spec.size_bytes} bytes declared.")
            waiting += chunk
            if len(waiting) >= _WRITE_BYTES:
                await _put(handle, bytes(waiting), digest)
                waiting.clear()
        await _put(handle, bytes(waiting), digest)
    finally:
        os.close(handle)
    if size_bytes != spec.size_bytes:
        raise Invalid(
            f"The image has {size_bytes} bytes instead of the {spec.size_bytes} declared."
        )
    if spec.os_hash_value and digest.hexdigest() != spec.os_hash_value.lower():
        raise Invalid("The image's hash is not the one declared; upload the image again.")


async def _put(handle: int, data: bytes, digest: _Hash) -> None:
    def put() -> None:
        digest.update(data)
        left = memoryview(data)
        while left:
            left = left[os.write(handle, left) :]

    await run_to_end(put)
