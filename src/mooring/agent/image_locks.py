"""Who writes to a disk file, as QEMU's own locks on it tell.

QEMU holds a lock on one byte for each right that it has on an image; the one on byte 101 stands for
writing. Asking for it changes nothing, and works on raw files too, which `qemu-img info` opens
beside a writer without a word.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path

from mooring.errors import Conflict

_WRITING_BYTE = 101
_FLOCK = struct.Struct("hhqqi4x")
_WITHOUT_LOCKS = frozenset((errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS))


def is_written(path: Path) -> bool | None:
    """Return whether a QEMU has a file open to write to; None where the file system cannot tell."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _WRITING_BYTE, 1, 0)
    with path.open("rb") as file:
        try:
            found: bytes = fcntl.fcntl(file.fileno(), fcntl.F_OFD_GETLK, asked)
        except OSError as error:
            if error.errno in _WITHOUT_LOCKS:
                return None
            raise
    return _FLOCK.unpack(found)[0] != fcntl.F_UNLCK


def image_in_use(said: str) -> Conflict:
    """Return the refusal of an image that another emulator has open: it may pass (`busy`)."""
    return Conflict(
        "A disk of the guest is in use by another program or guest; the guest was not started. "
        "End the other one, then try again.",
        private=said,
        busy=True,
    )


def open_elsewhere(server_id: str, volume_id: str) -> Conflict:
    """Return the refusal to grow the image of a guest that is off while another one has it."""
    return Conflict(
        f"Volume {volume_id} is open in another program than the guest of server {server_id}; it "
        "was left as it is. Stop that one, then try again.",
        busy=True,
    )
