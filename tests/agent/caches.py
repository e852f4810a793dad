"""A cache of images in a directory of its own, as tests have it."""

from __future__ import annotations

from pathlib import Path

from mooring.agent.images import ImageCache
from mooring.agent.qemu_img import ImageInfo, read_virtual_bytes


async def look(path: Path, disk_format: str) -> ImageInfo:
    """Look at an image as a simulated host does."""
    return ImageInfo(disk_format, read_virtual_bytes(path, disk_format))


def make_cache(directory: Path, *, reserve_bytes: int = 0) -> ImageCache:
    """Return a cache that is ready for images."""
    cache = ImageCache(directory, look, reserve_bytes=reserve_bytes)
    cache.prepare()
    return cache
