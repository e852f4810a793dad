"""What a failure of storage means: it is asked again, and never an answer to what was asked.

Storage that fails once, such as a stale handle, or a share that is not mounted just now, tells
nothing about what was asked for: a saga that took that for an answer would give up what the next
try does.
"""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager

from mooring.agent_api.disks import STORAGE_AWAY
from mooring.errors import MooringError, NoCapacity, Unavailable

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_OF_STORAGE = frozenset(
    {
        errno.EIO,
        errno.ESTALE,
        errno.EREMOTEIO,
        errno.ENOTCONN,
        errno.ETIMEDOUT,
        errno.EHOSTDOWN,
    }
)
"""What a kernel says of storage alone: no mistake of ours is told so."""


def as_told(error: OSError, *, full: str, failed: str) -> MooringError:
    """Return a failure of storage as NoCapacity for one that is full, else as Unavailable."""
    private = f"{errno.errorcode.get(error.errno or 0, 'no errno')}: {error}"
    if error.errno in _FULL:
        return NoCapacity(full, private=private)
    return Unavailable(failed, private=private, **{STORAGE_AWAY: True})


@contextmanager
def disk_failure_told(volume_id: str) -> Generator[None]:
    """Turn a failure of the storage below a connected volume into Unavailable or NoCapacity.

    A file that is not there is one too: after a reboot nothing of a share is, until it is mounted.
    """
    try:
        yield
    except OSError as error:
        raise as_told(
            error,
            full=f"The storage of volume {volume_id} is full. Make room and ask again.",
            failed=(
                f"The files of volume {volume_id} cannot be used on this host, and what was asked "
                "for may be done in part. See that its storage is up and mounted there; then ask "
                "again."
            ),
        ) from error


@contextmanager
def device_failure_told() -> Generator[None]:
    """Turn what a kernel says of failing storage alone into Unavailable, wherever that lies.

    Every other OSError, as of a file that should be there, may be a mistake of ours and stays one.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_STORAGE:
            raise
        raise as_told(
            error,
            full="",
            failed=(
                "Storage of this host failed, and what was asked for may be done in part. See to "
                "its disks and mounts; then ask again."
            ),
        ) from error
