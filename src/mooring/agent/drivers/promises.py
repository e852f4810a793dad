"""How much the volumes of a pool of files promise, without reading anew what has not changed.

A host is asked for its state every few seconds, and a pool may have thousands of volumes, behind a
network. What changes a volume's size changes a file: its record, or the file that a guest opens.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from mooring.agent.drivers.records import PREFIX
from mooring.agent.identities import RECORDS
from mooring.agent_api.volumes import VolumeFile

_SETTLED_NS = 5_000_000_000
"""A file may change twice in a tick of its file system's clock: a younger one is read again."""
_Mark: TypeAlias = tuple[int, int, int]
"""Inode, size in bytes and time of change of a file, in ns."""
_UNSEEN: _Mark = (0, 0, 0)
"""Of a file that its storage does not let be looked at."""


class _Kept(Struct, frozen=True):
    size_gib: int
    file: str
    """The one that tells the size."""
    record: _Mark
    data: _Mark


class Promises:
    """The promises of one pool. Two threads have their turns."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._turn = threading.Lock()

    def read(
        self, directory: Path, look: Callable[[str], tuple[VolumeFile, str] | None]
    ) -> list[int]:
        """Return what each volume of a directory promises, in GiB.

        `look` reads one, and names the file that tells its size, "" when that is not known. On NFS
        a file that another host has made grow may look unchanged for as long as the kernel keeps
        what it knows of files, a minute. A directory without records has no volumes. Raises
        OSError.
        """
        with self._turn:
            data = _marks(directory)
            records = _marks(directory / RECORDS) if RECORDS in data else {}
            found: list[int] = []
            kept: dict[str, _Kept] = {}
            for name, mark in records.items():
                if not (name.startswith(PREFIX) and name.endswith(".json")):
                    continue
                volume_id = name.removeprefix(PREFIX).removesuffix(".json")
                known = self._kept.get(volume_id)
                if known is None or (known.record, known.data) != (mark, data.get(known.file)):
                    if (seen := look(volume_id)) is None:
                        continue
                    size_gib = seen[0].size_gib
                    known = _keep(size_gib, seen[1], mark, data)
                else:
                    size_gib = known.size_gib
                found.append(size_gib)
                if known is not None:
                    kept[volume_id] = known
            self._kept = kept
        return found


def _keep(size_gib: int, file: str, record: _Mark, data: Mapping[str, _Mark]) -> _Kept | None:
    """Return what is remembered of a volume; None where it may have changed since it was marked."""
    mark = data.get(file)
    if mark is None or _UNSEEN in (record, mark):
        return None
    if time.time_ns() - max(record[2], mark[2]) < _SETTLED_NS:
        return None
    return _Kept(size_gib, file, record, mark)


def _marks(directory: Path) -> dict[str, _Mark]:
    found: dict[str, _Mark] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                seen = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                # It went since its name was read.
                continue
            except OSError:
                # One of a storage that fails as a whole would be waited for anew in each file.
                os.statvfs(directory)
                found[entry.name] = _UNSEEN
                continue
            found[entry.name] = seen.st_ino, seen.st_size, seen.st_mtime_ns
    return found
