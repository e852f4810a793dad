"""Shares as file systems of their own, each btrfs in a file that is mounted through a loop device.

So a share is as big as its file system, which keeps that by itself, grows, shrinks and takes
snapshots while clients are at work (facts/storage_hosts.md 5). In each, `data` is what clients see,
and `snapshots` has the snapshots, each a whole one beside it.

All that is asked of the machine is asked by programs, which can be ended, and can be recorded.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from msgspec import Struct

from mooring.agent import files, limits
from mooring.agent.pool_threads import PoolThreads
from mooring.agent.qemu_img import GIB
from mooring.agent.run import Budget, Output, Programs
from mooring.agent.share_drivers.base import refuse_smaller
from mooring.agent.turns import Turns
from mooring.errors import NoCapacity, NotFound, Unavailable

log = structlog.get_logger()
_IMAGES, _MOUNTS = "images", "mnt"
_PREFIX, _STAGING = "share-", "making-"
_DATA, _SNAPSHOTS = "data", "snapshots"
_OPTIONS = "loop,nodev,nosuid"
# Of mount(8): the kernel refused, and not this machine for want of memory or loop devices.
_MOUNT_FAILED = 32
_COPY = Budget(timeout_s=limits.AGENT_COPY_S, cpu_s=0)
# All that is asked of a share waits for its mount, and what only looks, or writes next to nothing,
# takes no longer. What the kernel does there is not its caller's.
_MOUNT = Budget(timeout_s=limits.AGENT_MOUNT_S, cpu_s=0)


class Space(Struct, frozen=True):
    """The size of a file system and what is used of it, in bytes."""

    size_bytes: int
    used_bytes: int


class Damaged(Unavailable):
    """What a share's file holds is no file system that can be mounted."""


class BtrfsImages:
    """The images of one pool, under its directory."""

    def __init__(self, directory: Path, programs: Programs, threads: PoolThreads) -> None:
        self._programs, self._run = programs, threads.run
        self._images, self._mounts = directory / _IMAGES, directory / _MOUNTS
        self._mounting = Turns()
        """By share: none is mounted while it is being removed."""

    def image(self, share_id: str) -> Path:
        """Return the file of a share. It is there when the share is, whole, and no sooner."""
        return self._images / f"{_PREFIX}{share_id}"

    def data(self, share_id: str) -> Path:
        """Return what clients see of a share. It is there only while the share is mounted."""
        return self._mount_point(share_id) / _DATA

    def ids(self) -> list[str]:
        """Return the ids of all shares. Blocking."""
        found = (path.name for path in self._images.glob(f"{_PREFIX}*"))
        whole = (name for name in found if not name.endswith(files.PARTIAL))
        return sorted(name.removeprefix(_PREFIX) for name in whole)

    async def prepare(self) -> None:
        """Make the directories, and remove what unfinished calls have left."""

        def make() -> list[Path]:
            self._images.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._mounts.mkdir(mode=0o711, exist_ok=True)
            return list(self._mounts.glob(f"{_STAGING}*"))

        def clear() -> None:
            for left in files.partials(self._images / "*"):
                left.unlink()

        for left in await self._run(make):
            try:
                await self._unmount(left)
            except Unavailable as error:
                # Whoever makes its share asks again.
                log.warning("a share's file stays mounted", path=str(left), reason=str(error))
        await self._run(clear)

    async def make(
        self, share_id: str, size_gb: int, source: tuple[str, str] | None, operation_key: str
    ) -> None:
        """Make a share's file, empty or with what a snapshot of another holds. Raises NoCapacity.

        `source` is a share and its snapshot.
        """
        await self._remove_begun(share_id)
        path = self.image(share_id)
        written = files.partial(path, operation_key)
        try:
            await self._run(lambda: written.touch(mode=0o600))
            await self._set_length(written, size_gb)
            await self._do("mkfs.btrfs", "--quiet", "--metadata", "single", "--", str(written))
            staging = self._mounts / f"{_STAGING}{share_id}"
            # To unmount a copy may be to write much of it.
            async with self._staged(written, staging, _MOUNT if source is None else _COPY):
                await self._fill(staging, source)
            await self._run(lambda: files.finish(written, path))
        finally:
            await self._run(lambda: written.unlink(missing_ok=True))

    async def mount(self, share_id: str) -> None:
        """Mount a share, unless it is. Raises NotFound, Damaged."""
        point, image = self._mount_point(share_id), self.image(share_id)
        async with self._mounting.take(share_id):
            if await self._device(point):
                return
            if not await self._run(image.exists):
                raise NotFound(f"Share {share_id} is not in this pool.")
            await self._run(lambda: point.mkdir(mode=0o711, exist_ok=True))
            words = ["mount", "-t", "btrfs", "-o", _OPTIONS, "--", str(image), str(point)]
            output = await self._programs.run(words, _MOUNT)
        if output.code == _MOUNT_FAILED:
            raise Damaged(
                f"The file system of share {share_id} cannot be mounted. Nothing was changed; "
                f"repair the file {image} or restore it from a backup; or move it away, and delete "
                "the share.",
                private=output.err.strip(),
            )
        _check(tuple(words), output)

    async def remove(self, share_id: str) -> None:
        """Unmount a share and remove its file, and all that was begun of it."""
        async with self._mounting.take(share_id):
            await self._unmount(self._mount_point(share_id))
            await self._remove_begun(share_id)
            await self._run(lambda: self.image(share_id).unlink(missing_ok=True))

    async def resize(self, share_id: str, size_gb: int) -> None:
        """Give a mounted share another size. Raises Conflict as `refuse_smaller`, NoCapacity."""
        point, size_bytes = self._mount_point(share_id), size_gb * GIB
        known = await self.space(share_id)
        if known.used_bytes > size_bytes:
            raise refuse_smaller(share_id, size_gb)
        if known.size_bytes > size_bytes:
            await self._shrink(share_id, size_gb)
        await self._set_length(self.image(share_id), size_gb)
        await self._do("losetup", "--set-capacity", await self._device(point), budget=_MOUNT)
        await self._do("btrfs", "filesystem", "resize", "max", str(point))

    async def space(self, share_id: str) -> Space:
        """Return the size of a mounted share, and what is used of it."""
        words = ["--file-system", "--format=%S %b %f", "--", str(self._mount_point(share_id))]
        told = await self._do("stat", *words, budget=_MOUNT)
        unit, blocks, free = (int(word) for word in told.split())
        return Space(unit * blocks, unit * (blocks - free))

    async def take_snapshot(self, share_id: str, snapshot_id: str) -> None:
        """Take a snapshot of a mounted share, unless it is there."""
        if snapshot_id not in await self.snapshots(share_id):
            point = self._mount_point(share_id)
            to = point / _SNAPSHOTS / snapshot_id
            await self._do("btrfs", "subvolume", "snapshot", "-r", str(point), str(to))

    async def delete_snapshot(self, share_id: str, snapshot_id: str) -> None:
        """Remove a snapshot of a mounted share, if it is there."""
        if snapshot_id in await self.snapshots(share_id):
            path = self._mount_point(share_id) / _SNAPSHOTS / snapshot_id
            await self._do("btrfs", "subvolume", "delete", "--commit-after", str(path))

    async def snapshots(self, share_id: str) -> list[str]:
        """Return the ids of the snapshots of a mounted share, sorted."""
        point = str(self._mount_point(share_id))
        told = await self._do("btrfs", "subvolume", "list", "-r", point, budget=_MOUNT)
        paths = (line.rpartition(" path ")[2] for line in told.splitlines())
        found = (path.split("/") for path in paths)
        return sorted(parts[1] for parts in found if parts[0] == _SNAPSHOTS and len(parts) == 2)

    def leftovers(self, known: set[str]) -> list[str]:
        """Return files and mount points of no share among `known`, made or begun. Blocking."""
        # What is begun has its share's name, and then a dot and its operation's.
        images = (path for path in self._images.iterdir() if _id_of(path, _PREFIX) not in known)
        points = (path for path in self._mounts.iterdir() if _id_of(path, _STAGING) not in known)
        return sorted(str(path) for path in (*images, *points))

    async def _fill(self, staging: Path, source: tuple[str, str] | None) -> None:
        await self._do("mkdir", "--mode=755", "--", str(staging / _DATA), budget=_MOUNT)
        await self._do("mkdir", "--mode=700", "--", str(staging / _SNAPSHOTS), budget=_MOUNT)
        if source is None:
            return
        share_id, snapshot_id = source
        await self.mount(share_id)
        content = self._mount_point(share_id) / _SNAPSHOTS / snapshot_id / _DATA
        words = ["cp", "--archive", "--no-target-directory", "--"]
        output = await self._programs.run([*words, str(content), str(staging / _DATA)], _COPY)
        if output.code:
            raise NoCapacity(
                f"What snapshot {snapshot_id} holds could not be copied, and nothing was made. Ask "
                "for a larger share, or see to the pool's disk.",
                private=output.err,
            )

    async def _shrink(self, share_id: str, size_gb: int) -> None:
        point = str(self._mount_point(share_id))
        words = ["btrfs", "filesystem", "resize", str(size_gb * GIB), point]
        output = await self._programs.run(words, _COPY)
        if output.code:
            # btrfs leaves a file system whole that it cannot make so small.
            raise refuse_smaller(share_id, size_gb, private=output.err)
        if (await self.space(share_id)).size_bytes > size_gb * GIB:
            # Its file must never be cut under it.
            raise Unavailable(
                f"The file system of share {share_id} did not get smaller. Nothing was cut off; "
                "ask again."
            )

    @asynccontextmanager
    async def _staged(self, image: Path, staging: Path, ending: Budget) -> AsyncGenerator[None]:
        """Have an image mounted in the body, at a place of its own, and unmounted in `ending`."""
        await self._run(lambda: staging.mkdir(mode=0o700, exist_ok=True))
        try:
            words = ("mount", "-t", "btrfs", "-o", _OPTIONS, "--", str(image), str(staging))
            await self._do(*words, budget=_MOUNT)
            yield
        finally:
            await self._unmount(staging, ending)

    async def _unmount(self, point: Path, budget: Budget = _MOUNT) -> None:
        """Unmount what is mounted at a place, and remove that. Raises Unavailable: in use."""
        if await self._device(point):
            await self._do("umount", "--", str(point), budget=budget)

        def remove() -> None:
            if point.exists():
                point.rmdir()

        await self._run(remove)

    async def _remove_begun(self, share_id: str) -> None:
        def clear() -> None:
            for left in files.partials(self.image(share_id)):
                left.unlink()

        await self._unmount(self._mounts / f"{_STAGING}{share_id}")
        await self._run(clear)

    async def _device(self, point: Path) -> str:
        """Return the loop device that is mounted at a place, "" for none."""
        words = ["findmnt", "--noheadings", "--output", "SOURCE", "--mountpoint", str(point)]
        return (await self._programs.run(words)).out.strip()

    async def _set_length(self, path: Path, size_gb: int) -> None:
        output = await self._programs.run(["truncate", f"--size={size_gb}G", "--", str(path)])
        if output.code:
            raise NoCapacity(
                "The disk of the pool has no room for a share of that size. Nothing was changed.",
                private=output.err,
            )

    async def _do(self, *words: str, budget: Budget = _COPY) -> str:
        """Run a program that must succeed; return what it says. Raises Unavailable.

        The budget is that of one which may write out all that a share has in memory first.
        """
        return _check(words, await self._programs.run(words, budget))

    def _mount_point(self, share_id: str) -> Path:
        return self._mounts / share_id


def _id_of(path: Path, prefix: str) -> str:
    return path.name.removeprefix(prefix).partition(".")[0]


def _check(words: tuple[str, ...], output: Output) -> str:
    if output.code:
        raise Unavailable(
            f"The program {words[0]} failed on a share's file system. Nothing else was begun; see "
            "to the pool's disk, and ask again.",
            private=f"{' '.join(words)}: {output.err.strip()}",
        )
    return output.out
