"""Captures as files: `<image id>.capture`, and beside it a record that makes it count.

Whoever captures writes to another name first, so that what has this one is whole.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

from mooring.agent import files
from mooring.agent_api.captures import Capture
from mooring.errors import Invalid
from mooring.fence.threads import run_to_end
from mooring.limits import CAPTURE_PIECE_BYTES

_SUFFIX = ".capture"


def path_in(directory: Path, image_id: str) -> Path:
    """Return where the capture for an image is, or would be."""
    return directory / f"{image_id}{_SUFFIX}"


def find(path: Path) -> Capture | None:
    """Return a capture that is whole, or None."""
    return files.read_record(_record_path(path), Capture) if path.exists() else None


def show(path: Path, image_id: str) -> Capture | None:
    """Return a capture, or how much of one is there; None where none was begun."""
    if (known := find(path)) is not None:
        return known
    for being_made in (path, *files.partials(path)):
        if being_made.exists():
            return Capture(image_id=image_id, size_bytes=being_made.stat().st_blocks * 512)
    return None


async def make(
    path: Path, image_id: str, operation_key: str, copy: Callable[[Path], Awaitable[None]]
) -> Capture:
    """Have a copy written under another name, and make it a capture. Raises NoCapacity."""
    written = files.partial(path, operation_key)
    try:
        with files.full_disk_told(path):
            await copy(written)
        return await run_to_end(lambda: _keep(written, path, image_id))
    finally:
        written.unlink(missing_ok=True)


def _keep(written: Path, path: Path, image_id: str) -> Capture:
    """Make a file that was written a capture, on disk, and return it. Blocking."""
    files.finish(written, path)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size_bytes = file.seek(0, os.SEEK_END)
    capture = Capture(image_id=image_id, size_bytes=size_bytes, sha256=digest)
    files.write_record(_record_path(path), capture, forced=True)
    return capture


def read(path: Path, offset: int, length: int) -> bytes:
    """Return a piece of the data. Blocking. Raises Invalid for what is no piece."""
    if offset < 0 or not 0 < length <= CAPTURE_PIECE_BYTES:
        raise Invalid(f"A piece has 1 to {CAPTURE_PIECE_BYTES} bytes, from an offset of 0 on.")
    with path.open("rb") as file:
        return os.pread(file.fileno(), length, offset)


def remove(path: Path) -> None:
    """Remove a capture, and what was begun of it; nothing when there is none."""
    for left in (_record_path(path), path, *files.partials(path)):
        left.unlink(missing_ok=True)


def remove_others(path: Path) -> None:
    """Remove all captures of the same directory, and what was begun of this one too."""
    for left in path.parent.glob(f"*{_SUFFIX}*"):
        left.unlink(missing_ok=True)


def remove_all(directory: Path) -> None:
    """Remove a directory that holds captures alone."""
    if directory.exists():
        shutil.rmtree(directory)


def strays(directory: Path, known: Collection[str]) -> list[str]:
    """Return the directories below one that are named after nothing that is known."""
    if not directory.exists():
        return []
    return sorted(str(path) for path in directory.iterdir() if path.name not in known)


def _record_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")
