"""Streams that become files: taken in where there is room, compared with what was declared."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mooring.errors import Invalid, NoCapacity, Unavailable
from mooring.fence.threads import run_to_end

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mooring.agent_api.images import ImageSpec

_WRITE_BYTES = 1024**2


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


async def take_in(
    path: Path, spec: ImageSpec, chunks: AsyncIterator[bytes], reserve_bytes: int
) -> None:
    """Write a stream to a file, after what has come before, and compare the whole with `spec`.

    Raises Invalid: not as declared; NoCapacity: it would take from the `reserve_bytes` that stay
    free; Unavailable: the file has less than what the stream goes on from.
    """
    digest = None if spec.begins_at else _digest_of(spec)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if (has := os.fstat(handle).st_size) < spec.begins_at:
            raise Unavailable(
                f"Of the {spec.begins_at} bytes that have come {has} are here. Ask how many have "
                "come, and send those that follow."
            )
        os.ftruncate(handle, spec.begins_at)
        os.lseek(handle, spec.begins_at, os.SEEK_SET)
        await _write(handle, spec, chunks, digest, reserve_bytes)
    finally:
        os.close(handle)
    found = digest or await run_to_end(lambda: _read(path, _digest_of(spec)))
    if not spec.os_hash_value or found.hexdigest() == spec.os_hash_value.lower():
        return
    if spec.begins_at:
        # A machine that lost its power may have lost what had come before.
        os.truncate(path, 0)
        raise Unavailable("What had come before was damaged, and is gone; send all of it again.")
    raise Invalid("The image's hash is not the one declared; upload the image again.")


async def _write(
    handle: int,
    spec: ImageSpec,
    chunks: AsyncIterator[bytes],
    digest: _Hash | None,
    reserve_bytes: int,
) -> None:
    size_bytes, waiting = spec.begins_at, bytearray()
    try:
        async for chunk in chunks:
            size_bytes += len(chunk)
            if size_bytes > spec.size_bytes:
                raise Invalid(f"The image is larger than the {spec.size_bytes} bytes declared.")
            waiting += chunk
            if len(waiting) >= _WRITE_BYTES:
                await _put(handle, bytes(waiting), digest, reserve_bytes)
                waiting.clear()
    except Unavailable:
        # What has come before the stream broke off need not come again.
        await _put(handle, bytes(waiting), digest, reserve_bytes)
        raise
    await _put(handle, bytes(waiting), digest, reserve_bytes)
    if size_bytes != spec.size_bytes:
        raise Invalid(
            f"The image has {size_bytes} bytes instead of the {spec.size_bytes} declared."
        )


async def _put(handle: int, data: bytes, digest: _Hash | None, reserve_bytes: int) -> None:
    def put() -> None:
        space = os.fstatvfs(handle)
        if data and space.f_bavail * space.f_frsize < len(data) + reserve_bytes:
            raise no_room(len(data), reserve_bytes)
        if digest is not None:
            digest.update(data)
        left = memoryview(data)
        while left:
            left = left[os.write(handle, left) :]

    await run_to_end(put)


def no_room(wanted_bytes: int, reserve_bytes: int) -> NoCapacity:
    """Return the error of a host whose disk has no room for an image."""
    return NoCapacity(
        f"This host has no room for {wanted_bytes} bytes more of an image beside the "
        f"{reserve_bytes >> 20} MiB that images leave free. Delete servers, make room, or choose "
        "another host."
    )


def _digest_of(spec: ImageSpec) -> _Hash:
    return hashlib.new(spec.os_hash_algo or "sha512", usedforsecurity=False)


def _read(path: Path, digest: _Hash) -> _Hash:
    with path.open("rb") as file:
        while data := file.read(_WRITE_BYTES):
            digest.update(data)
    return digest
