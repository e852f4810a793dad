"""Directories that a process of the tests has until it ends, and what killed ones left of theirs.

A run that is killed removes nothing: images of guests' disks fill a disk after some of those, and
then every pool of the tests is full. So each directory is locked by the process that made it, and
whoever makes another one removes those whose lock nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


def make(prefix: str, within: Path | None = None, *, keep: int = 0) -> Path:
    """Make a directory with this prefix, and remove those of processes that are gone.

    `keep` of them stay, the latest: where somebody may still look for what failed.
    """
    _sweep(prefix, within or Path(tempfile.gettempdir()), keep)
    while True:
        made = Path(tempfile.mkdtemp(prefix=prefix, dir=within))
        # The descriptor stays open for as long as the process lives, and no program inherits it.
        # Until it is there, another run's sweep may take this one for abandoned.
        with suppress(OSError):
            if os.fstat(_lock(made)).st_nlink:
                return made


def _sweep(prefix: str, within: Path, keep: int) -> None:
    left = [(when, path) for path in within.glob(f"{prefix}*") if (when := _abandoned_at(path))]
    for _, path in sorted(left, reverse=True)[keep:]:
        # Another run may sweep at the same moment, and what is mounted in one stays.
        shutil.rmtree(path, ignore_errors=True)


def _abandoned_at(path: Path) -> int:
    """Return when a directory was last written to (ns), or 0 when somebody has it, or nobody."""
    try:
        descriptor = _lock(path)
        try:
            return os.fstat(descriptor).st_mtime_ns
        finally:
            os.close(descriptor)
    except OSError:
        return 0


def _lock(path: Path) -> int:
    """Lock a directory, and return what holds it. Raises OSError when another process does."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
