"""Images as files of a share, so that its array can clone volumes from them."""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from pathlib import Path

import structlog
from msgspec import Struct

from mooring.agent import files
from mooring.agent.drivers.base import SourceImage
from mooring.agent.pool_threads import PoolThreads
from mooring.agent.qemu_img import QemuImg

log = structlog.get_logger()
CACHED = "img-cache-"
"""Upstream's name for such files, before the image's id."""


class CachePolicy(Struct, frozen=True):
    """When cached images go: below `start_percent` free space, until `stop_percent` are free."""

    start_percent: int = 20
    stop_percent: int = 60
    expiry_minutes: int = 720
    """One that was used since is kept."""


class ShareCache:
    """The cached images of one share. An image never changes, so its id names its content."""

    def __init__(
        self,
        host: str,
        qemu_img: QemuImg,
        threads: PoolThreads,
        policy: CachePolicy | None = None,
    ) -> None:
        self._host, self._qemu_img, self._policy = host, qemu_img, policy or CachePolicy()
        self._run = threads.run
        self._turns: defaultdict[Path, asyncio.Lock] = defaultdict(asyncio.Lock)

    def prepare(self, directory: Path) -> None:
        """Remove copies that this host's agent before this one did not finish."""
        for left in files.partials(directory / f"{CACHED}*", self._host):
            left.unlink(missing_ok=True)

    async def keep(
        self, directory: Path, source: SourceImage, disk_format: str, operation_key: str
    ) -> Path:
        """Return an image's file on the share, made when it is first wanted. Raises NoCapacity."""
        path = directory / f"{CACHED}{source.image_id}.{disk_format}"
        async with self._turns[path]:
            if await self._run(lambda: _use(path)):
                return path
            await self._run(lambda: self._clear(directory, path))
            written = files.partial(path, operation_key, self._host)
            try:
                await self._qemu_img.convert(
                    source.file(),
                    (written, disk_format),
                    operation_key=operation_key,
                )
                await self._run(lambda: files.finish(written, path))
            finally:
                await self._run(lambda: written.unlink(missing_ok=True))
        return path

    def _clear(self, directory: Path, wanted: Path) -> None:
        """Remove what earlier copies left, and images that nobody used when space is short."""
        for left in files.partials(wanted, self._host):
            left.unlink(missing_ok=True)
        if _free_percent(directory) >= self._policy.start_percent:
            return
        oldest = time.time() - self._policy.expiry_minutes * 60
        for path in sorted(directory.glob(f"{CACHED}*"), key=lambda one: one.stat().st_mtime):
            if path.stat().st_mtime > oldest:
                return
            if _free_percent(directory) >= self._policy.stop_percent:
                return
            log.info("a cached image goes, space is short", file=path.name)
            path.unlink(missing_ok=True)


def _use(path: Path) -> bool:
    """Return whether a file is there, and note that it was used now."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _free_percent(directory: Path) -> float:
    space = os.statvfs(directory)
    return 100 * space.f_bavail / max(1, space.f_blocks)
