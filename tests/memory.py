"""Where tests keep what they write often and need for a run alone: in memory, if it has room."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests import scratch

_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 4 * 2**30
"""What all workers of a whole run write at most, with as much to spare."""
_PREFIX = "mooring-memory-"
_ON_DISK = {"agent", "contract", "hosts"}
"""Tests of hosts: what they keep disks of guests in is a file system as hosts have it."""
_failed = pytest.StashKey[bool]()


def find_memory() -> Path | None:
    """Return a directory in memory with room for a run, or None: then files go to the disk.

    PostgreSQL copies a database ten times faster there, as it waits for each file that it makes.
    """
    if not _MEMORY.is_dir():
        return None
    room = os.statvfs(_MEMORY)
    return _MEMORY if room.f_bavail * room.f_frsize >= _ROOM_BYTES else None


@pytest.fixture(scope="session")
def memory_path() -> Generator[Path]:
    """A directory of the session's own, in memory if it has room.

    What tests that failed have left stays in it until another run begins.
    """
    directory = scratch.make(_PREFIX, find_memory(), keep=1)
    yield directory
    if not any(directory.iterdir()):
        directory.rmdir()


@pytest.fixture
def tmp_path(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Path]:
    """A directory of the test's own, which goes when the test has passed.

    A third of what the start of a simulated cloud takes would be waiting for a disk.
    """
    name = re.sub(r"\W", "_", request.node.name)[:30]
    if _is_of_hosts(request.node):
        yield tmp_path_factory.mktemp(name)
        return
    base: Path = request.getfixturevalue("memory_path")
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=base))
    yield directory
    if _failed not in request.node.stash:
        shutil.rmtree(directory)


def note_failure(item: pytest.Item, report: pytest.TestReport) -> None:
    """Remember that a test failed, so that what it wrote is kept."""
    if report.failed:
        item.stash[_failed] = True


def _is_of_hosts(item: pytest.Item) -> bool:
    """Whether a test may start guests, or asks what only a disk can answer."""
    [folder, *_] = item.path.relative_to(Path(__file__).parent).parts
    return folder in _ON_DISK or item.get_closest_marker("hosts") is not None
