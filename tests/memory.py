"""Where tests keep what they write often and need for a run alone: in memory, if it has room."""

from __future__ import annotations

import os
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 4 * 2**30
"""What all workers of a whole run write at most, with as much to spare."""


def find_memory() -> Path | None:
    """Return a directory in memory with room for a run, or None: then files go to the disk.

    PostgreSQL copies a database ten times faster there, as it waits for each file that it makes.
    """
    if not _MEMORY.is_dir():
        return None
    room = os.statvfs(_MEMORY)
    return _MEMORY if room.f_bavail * room.f_frsize >= _ROOM_BYTES else None
