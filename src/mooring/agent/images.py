"""The host's cache of images: streamed in, checked, then given their name.

`<id>` is the data, `<id>.json` says what it is and makes it count; when that was touched last, the
image was used last. A guest's root disk keeps the data by a link of its own, so an image may leave
the cache while guests use it. It does when nobody has used it for `AGENT_IMAGE_KEEP_S`, or earlier
when another one needs the room. `<id>.<operation>.arriving` is what has come of an image that an
operation brings for itself, and goes on with.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import structlog
from msgspec import Struct

from mooring.agent import files, streams
from mooring.agent.limits import (
    AGENT_IMAGE_BYTES,
    AGENT_IMAGE_KEEP_S,
    AGENT_IMAGE_LEAST_S,
    AGENT_IMAGE_SWEEP_S,
)
from mooring.agent.qemu_img import FORMATS, ImageInfo
from mooring.agent_api.images import CachedImage, ImageSpec
from mooring.errors import Invalid, Unavailable
from mooring.fence.threads import run_to_end
from mooring.limits import AGENT_PATIENCE_S

log = structlog.get_logger()
Check = Callable[[Path, str], Awaitable[ImageInfo]]
ARRIVING = ".arriving"


class _Record(Struct, frozen=True):
    """What a cached image is, and the hash that it was checked by."""

    image: CachedImage
    os_hash_value: str = ""
    for_operation: str = ""
    """The key of the one that it was brought for, if it was for one alone."""


class ImageCache:
    """The images of one host. `reserve_bytes` of its disk stay free of them."""

    def __init__(self, directory: Path, check: Check, *, reserve_bytes: int = 0) -> None:
        self._directory, self._check, self._reserve_bytes = directory, check, reserve_bytes
        self._over: dict[str, asyncio.Event] = {}
        """When what comes of an image now has come, or was broken off."""

    def prepare(self) -> None:
        """Make the directory, and remove what calls have left that nobody goes on with.

        Data of which no record says what they are count as no image, and would never make room.
        """
        self._directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        for left in map(Path, self.leftovers()):
            if left.is_file():
                left.unlink(missing_ok=True)

    def path(self, image_id: str) -> Path:
        """Return where an image's data is."""
        return self._directory / image_id

    def find(self, image_id: str) -> CachedImage | None:
        """Return an image that is here whole, or None."""
        record = self._read(image_id)
        return record.image if record is not None and self.path(image_id).is_file() else None

    def use(self, image_id: str) -> CachedImage | None:
        """Return an image that is here whole, which was used now; or None."""
        found = self.find(image_id)
        if found is not None:
            os.utime(self._record_path(image_id))
        return found

    def images(self) -> list[CachedImage]:
        """Return all images."""
        found = (self.find(name) for name in self._names())
        return [image for image in found if image is not None]

    def leftovers(self) -> list[str]:
        """Return files that belong to no image, and to none that comes for an operation."""
        held = [image.image_id for image in self.images()]
        known = {self.path(one) for one in held} | {self._record_path(one) for one in held}
        known.update(self._directory.glob(f"*{ARRIVING}"))
        return sorted(str(path) for path in self._directory.iterdir() if path not in known)

    def brought(self) -> dict[str, str]:
        """Return what operations brought for themselves, or bring: the operation's key by id."""
        found: dict[str, str] = {}
        for path in self._directory.glob(f"*{ARRIVING}"):
            image_id, _, key = path.name.removesuffix(ARRIVING).partition(".")
            found[image_id] = key
        for name in self._names():
            record = self._read(name)
            if record is not None and record.for_operation:
                found[name] = record.for_operation
        return found

    async def arrived_bytes(self, image_id: str) -> int:
        """Return how much of an image has come that an operation brings for itself.

        A stream that was broken off is waited for until that is noticed, but not for long.
        """
        if image_id in self._over:
            with suppress(TimeoutError):
                async with asyncio.timeout(AGENT_PATIENCE_S):
                    await self._over[image_id].wait()
        return max((one.stat().st_size for one in self._arriving(image_id)), default=0)

    async def put(
        self, image_id: str, spec: ImageSpec, chunks: AsyncIterator[bytes], operation_key: str
    ) -> CachedImage:
        """Take an image in unless it is here.

        Raises Invalid: not as declared; NoCapacity; Unavailable: the stream was broken off, or goes
        on from more than has come.
        """
        known = self._read(image_id)
        if known is not None and _is_same(known, spec) and (found := self.use(image_id)):
            return found
        _check_spec(spec)
        path, written = self.path(image_id), self._written(image_id, spec, operation_key)
        for left in self._unfinished(image_id):
            if left != written:
                left.unlink(missing_ok=True)
        goes_on, over = False, self._over.setdefault(image_id, asyncio.Event())
        try:
            self._make_room(spec.size_bytes - spec.begins_at)
            with files.full_disk_told(path):
                await streams.take_in(written, spec, chunks, self._reserve_bytes)
            info = await self._check(written, spec.disk_format)
            image = CachedImage(
                image_id=image_id,
                disk_format=info.format,
                size_bytes=spec.size_bytes,
                virtual_bytes=info.virtual_bytes,
            )
            owner = operation_key if spec.for_operation else ""
            record = _Record(image, spec.os_hash_value, owner)
            await run_to_end(lambda: self._keep(written, record))
        except (Unavailable, asyncio.CancelledError):
            goes_on = spec.for_operation
            raise
        finally:
            if not goes_on:
                written.unlink(missing_ok=True)
            self._over.pop(image_id, None)
            over.set()
        return image

    def _keep(self, written: Path, record: _Record) -> None:
        """Give an image its name, and write down what it is: without that it does not stay."""
        path = self.path(record.image.image_id)
        record_path = self._record_path(record.image.image_id)
        record_path.unlink(missing_ok=True)
        files.finish(written, path)
        try:
            files.write_record(record_path, record, forced=True)
        except BaseException:
            for left in (path, *files.partials(path)):
                left.unlink(missing_ok=True)
            raise

    def delete(self, image_id: str) -> None:
        """Take an image out; nothing when it is not here."""
        self._record_path(image_id).unlink(missing_ok=True)
        for left in (self.path(image_id), *self._unfinished(image_id)):
            left.unlink(missing_ok=True)

    def sweep(self, now: float) -> list[str]:
        """Take out what nobody has used for long; return the ids. `now`: seconds of the epoch."""
        gone: list[str] = []
        for used, image_id in self._unused():
            if used > now - AGENT_IMAGE_KEEP_S:
                break
            log.info("a cached image goes, nobody uses it", image_id=image_id)
            self.delete(image_id)
            gone.append(image_id)
        return gone

    async def keep_small(self) -> None:
        """Take it out again and again, until cancelled."""
        while True:
            try:
                self.sweep(time.time())
            except Exception:
                # Nobody waits for this loop, so that nobody would hear of its end.
                log.exception("cached images that nobody uses stay")
            await asyncio.sleep(AGENT_IMAGE_SWEEP_S)

    def _make_room(self, wanted_bytes: int) -> None:
        """Take out images that nobody uses, the ones longest unused first. Raises NoCapacity."""
        unused, now = self._unused(), time.time()
        while self._free_bytes() < wanted_bytes + self._reserve_bytes:
            used, image_id = next(unused, (now, ""))
            if used > now - AGENT_IMAGE_LEAST_S:
                raise streams.no_room(wanted_bytes, self._reserve_bytes)
            log.info("a cached image goes, space is short", image_id=image_id)
            self.delete(image_id)

    def _unused(self) -> Iterator[tuple[float, str]]:
        """Yield what no guest's disk is made of: when it was used last, and its id, in that order.

        What was brought for an operation is not among them.
        """
        times: list[tuple[float, str]] = []
        for name in self._names():
            record = self._read(name)
            if record is None or record.for_operation or self._is_linked(name):
                continue
            times.append((self._record_path(name).stat().st_mtime, name))
        yield from sorted(times)

    def _is_linked(self, image_id: str) -> bool:
        path = self.path(image_id)
        return path.is_file() and path.stat().st_nlink > 1

    def _free_bytes(self) -> int:
        space = os.statvfs(self._directory)
        return space.f_bavail * space.f_frsize

    def _names(self) -> list[str]:
        return sorted(path.stem for path in self._directory.glob("*.json"))

    def _written(self, image_id: str, spec: ImageSpec, operation_key: str) -> Path:
        path = self.path(image_id)
        if not spec.for_operation:
            return files.partial(path, operation_key)
        return path.with_name(f"{path.name}.{operation_key}{ARRIVING}")

    def _arriving(self, image_id: str) -> Iterator[Path]:
        return self._directory.glob(f"{image_id}.*{ARRIVING}")

    def _unfinished(self, image_id: str) -> list[Path]:
        return [*files.partials(self.path(image_id)), *self._arriving(image_id)]

    def _read(self, image_id: str) -> _Record | None:
        """Return an image's record. An image whose record is damaged leaves the cache."""
        try:
            return files.read_record(self._record_path(image_id), _Record)
        except Unavailable as damaged:
            log.warning("a cached image goes, its record is damaged", error=damaged.public)
            for left in (self._record_path(image_id), self.path(image_id)):
                left.unlink(missing_ok=True)
            return None

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
