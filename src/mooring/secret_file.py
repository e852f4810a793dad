"""Files that their owner alone may read."""

from __future__ import annotations

import os
from pathlib import Path

from mooring.errors import Unavailable


def write_secret(path: Path, content: bytes) -> None:
    """Put a file in place at once, on disk and with mode 0600. Raises Unavailable."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}.") from error
