"""Files that their owner alone may read, and that are there whole or not at all.

What is being written has a name of its own, and its writer holds it by a lock of the kernel's,
which goes with the process. So what nobody holds was left by a process that was killed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from mooring.errors import Unavailable

_PARTIAL = ".partial"
_UNFINISHED = (
    f"????????-????-????-????-????????????{_PARTIAL}",
    # As the releases before called keys on their way.
    "*.key.fresh.*",
    "*.key.*.new",
)


def write_secret(path: Path, content: bytes) -> None:
    """Put a file in place at once, on disk and with mode 0600. Raises Unavailable."""
    with _told(path), _written(path.parent, content, holds=True) as fresh:
        fresh.replace(path)


def ensure_secret(path: Path, make: Callable[[], bytes]) -> bytes:
    """Return what a file has, which is made like that when it is missing.

    Of several processes that make it at the same time all have the first one's. Raises Unavailable
    when it cannot be made, OSError when it cannot be read.
    """
    if not path.exists():
        with (
            _told(path),
            _written(path.parent, make(), holds=True) as fresh,
            suppress(FileExistsError),
        ):
            path.hardlink_to(fresh)
    return path.read_bytes()


def remove_unfinished(directory: Path) -> None:
    """Remove what killed processes have left of secrets in a directory. Raises OSError.

    What another process writes just now stays.
    """
    for pattern in _UNFINISHED:
        for left in directory.glob(pattern):
            with suppress(FileNotFoundError):
                _remove_unless_held(left)


def put(path: Path, content: bytes) -> None:
    """Put a file in place as `write_secret` does, where nobody looks for unfinished ones.

    It does so also beside others, in a directory that is there. Raises OSError.
    """
    with _written(path.parent, content, holds=False) as fresh:
        fresh.replace(path)


def sync_names(directory: Path) -> None:
    """Force the names in a directory to disk. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _told(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"{path} cannot be written: {error.strerror}. It is as it was. See that this user may "
            "write there and that the disk has room, then try again."
        ) from error


@contextmanager
def _written(directory: Path, content: bytes, *, holds: bool) -> Generator[Path]:
    """Write a file and yield it, for a name to be given to it; forced to disk with that name."""
    fresh, descriptor = _begin(directory, holds=holds)
    try:
        # It is held until it has its name.
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            yield fresh
        sync_names(directory)
    finally:
        fresh.unlink(missing_ok=True)


def _begin(directory: Path, *, holds: bool) -> tuple[Path, int]:
    """Make a file, and hold it."""
    while True:
        fresh = directory / f"{uuid4()}{_PARTIAL}"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        if not holds:
            return fresh, descriptor
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return fresh, descriptor
        # Somebody took it for a killed process's before it was held.
        os.close(descriptor)


def _remove_unless_held(left: Path) -> None:
    descriptor = os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # It may have got its name meanwhile, but this is no longer one of its names then.
        left.unlink()
    except BlockingIOError:
        return
    finally:
        os.close(descriptor)
