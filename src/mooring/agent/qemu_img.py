"""qemu-img under limits, on declared formats only: a raw file is never probed.

Source: facts/block_storage.md 3.5 and 11.4.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from msgspec import Struct

from mooring import qcow2, typed
from mooring.agent import limits
from mooring.agent.run import Budget, Output, Runner
from mooring.errors import Conflict, Invalid, NoCapacity, Unavailable
from mooring.fence.threads import run_to_end

GIB = 1024**3
FORMATS = ("raw", "qcow2")
# With LC_ALL=C. Whatever else qemu-img complains of is a failure, and no reason to ask a guest.
_LOCK = re.compile(r'Failed to get (shared )?"[a-z ]+" lock')
# The last one is what a file system says of a file that is larger than it can have.
_FULL = ("No space left on device", "Disk quota exceeded", "File too large")


class ImageInfo(Struct, frozen=True):
    """What a disk file turned out to be."""

    format: str
    virtual_bytes: int


class InUse(Conflict):
    """QEMU, or another program of its family, holds the file; nothing was changed."""


class QemuImg:
    """Makes and copies disk files. All paths are absolute and our own."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def create(
        self,
        path: Path,
        disk_format: str,
        size_bytes: int,
        *,
        backing: tuple[str, str] | None = None,
        preallocation: str = "",
        operation_key: str = "",
    ) -> None:
        """Make an empty disk, or one over a backing file (a name in its directory, format)."""
        argv = ["qemu-img", "create", "-q", "-f", disk_format]
        if preallocation:
            argv += ["-o", f"preallocation={preallocation}"]
        if backing is not None:
            argv += ["-b", backing[0], "-F", backing[1]]
        argv += ["--", str(path), str(size_bytes)]
        output = await self._runner.run(argv, operation_key=operation_key)
        _expect_success(output, f"making {path.name}")

    async def convert(
        self,
        source: tuple[Path, str],
        target: tuple[Path, str],
        *,
        operation_key: str = "",
    ) -> None:
        """Copy a disk from (path, format) to (path, format), leaving holes as holes."""
        argv = ["qemu-img", "convert", "-q", "-f", source[1], "-O", target[1], "--"]
        output = await self._runner.run(
            [*argv, str(source[0]), str(target[0])], _copying(), operation_key=operation_key
        )
        _expect_success(output, f"copying to {target[0].name}")

    async def resize(
        self,
        path: Path,
        disk_format: str,
        size_bytes: int,
        *,
        shrink: bool = False,
        operation_key: str = "",
    ) -> None:
        """Grow a disk, or `shrink` it. Raises InUse when somebody has it open, NoCapacity."""
        argv = ["qemu-img", "resize", "-q", *(["--shrink"] if shrink else ())]
        argv += ["-f", disk_format, "--", str(path), str(size_bytes)]
        output = await self._runner.run(argv, operation_key=operation_key)
        _refuse_held(output, path)
        _expect_success(output, f"resizing {path.name}")

    async def commit(self, overlay: Path, *, operation_key: str = "") -> None:
        """Write what a qcow2 overlay holds into the file below it; the overlay keeps it too.

        The file below grows with it. Raises InUse, NoCapacity.
        """
        argv = ["qemu-img", "commit", "-q", "-f", "qcow2", "-d", "--", str(overlay)]
        output = await self._runner.run(argv, _copying(), operation_key=operation_key)
        _refuse_held(output, overlay)
        _expect_success(output, f"committing {overlay.name}")

    async def rebase(
        self,
        overlay: Path,
        backing: tuple[str, str] | None,
        *,
        rename: bool = False,
        operation_key: str = "",
    ) -> None:
        """Put a qcow2 overlay on another file (a name in its directory, format), or on none.

        What it loses thereby is copied into it; with `rename` nothing is, because the other file
        reads the same. Raises InUse, NoCapacity.
        """
        argv = ["qemu-img", "rebase", "-q", "-f", "qcow2", *(["-u"] if rename else [])]
        argv += ["-b", backing[0], "-F", backing[1]] if backing else ["-b", ""]
        argv += ["--", str(overlay)]
        output = await self._runner.run(argv, _copying(), operation_key=operation_key)
        _refuse_held(output, overlay)
        _expect_success(output, f"rebasing {overlay.name}")

    async def check(self, path: Path, disk_format: str) -> ImageInfo:
        """Return what a foreign file is. Raises Invalid unless it is as declared and alone."""
        if disk_format not in FORMATS:
            raise Invalid(f"Disk format {disk_format} is not taken; convert to qcow2 or raw first.")
        claimed = await run_to_end(lambda: read_virtual_bytes(path, disk_format))
        if disk_format == "raw":
            return ImageInfo("raw", claimed)
        argv = ["qemu-img", "info", "-f", disk_format, "--output=json", "--", str(path)]
        output = await self._runner.run(argv)
        _expect_success(output, f"reading {path.name}")
        found = typed.decode(output.out.encode(), dict[str, Any])
        if "backing-filename" in found or found.get("virtual-size") != claimed:
            raise Invalid("The qcow2 data contradicts itself. Convert the image anew.")
        return ImageInfo(disk_format, claimed)


def read_virtual_bytes(path: Path, disk_format: str) -> int:
    """Return the size of the disk in a file of a declared format, without any program."""
    if disk_format == "raw":
        return round_up(path.stat().st_size)
    return qcow2.read_virtual_bytes(path)


def read_own_bytes(path: Path, disk_format: str) -> int:
    """Return the size of the disk in a file that we made, 0 when its header is damaged.

    Works while QEMU has the file open. Unlike an image of a user, it may be a layer over another.
    """
    if disk_format == "raw":
        # A host remembers for a minute how big a file of an NFS server is, and asks anew when it
        # opens the file: QEMU on another host may have made it grow.
        with path.open("rb") as file:
            return round_up(os.fstat(file.fileno()).st_size)
    return qcow2.read_claimed_bytes(path)


def round_up(size_bytes: int, unit: int = 512) -> int:
    """Return a size in whole units, the way a guest sees it."""
    return -(-size_bytes // unit) * unit


def _copying() -> Budget:
    return Budget(
        timeout_s=limits.AGENT_COPY_S,
        cpu_s=int(limits.AGENT_COPY_S),
        memory_bytes=limits.AGENT_COPY_MEMORY_BYTES,
    )


def _refuse_held(output: Output, path: Path) -> None:
    if output.code and _LOCK.search(output.err):
        raise InUse(
            f"The disk {path.name} is open in another program and was left as it is. Let whoever "
            "has it change it, or stop them first.",
            private=output.err.strip(),
        )


def _expect_success(output: Output, what: str) -> None:
    if output.code == 0:
        return
    said = output.err.strip()
    if any(words in said for words in _FULL):
        raise NoCapacity(
            f"The disk is full: {what} failed and was undone. Make room and ask again.",
            private=said,
        )
    raise Unavailable(
        f"qemu-img failed while {what}; nothing was kept. The agent's log says why.", private=said
    )
