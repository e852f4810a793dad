"""Files that their owner alone may read, and that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

from mooring.errors import Unavailable


def write_secret(path: Path, content: bytes) -> None:
    """Put a file in place at once, on disk and with mode 0600. Raises Unavailable."""
    try:
        put(path, content)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}.") from error


def put(path: Path, content: bytes) -> None:
    """Do that, also beside others that do so, in a directory that is there. Raises OSError."""
    fresh = path.with_name(f"{uuid4()}.partial")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        sync_names(path.parent)
    finally:
        fresh.unlink(missing_ok=True)


def sync_names(directory: Path) -> None:
    """Force the names in a directory to disk. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
