"""Files that share their blocks until one of them is written to: copies at once, and of one moment.

Btrfs, XFS and NFS 4.2 over such make them, ext4 does not. Whoever writes to the source meanwhile
does so wholly before or wholly behind the copy (ioctl_ficlonerange(2)).
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

_FICLONE = 0x40049409
"""`fcntl` has no name for it before Python 3.12."""
_CANNOT = frozenset(
    (errno.EOPNOTSUPP, errno.ENOTTY, errno.ENOSYS, errno.EINVAL, errno.EXDEV, errno.EPERM)
)


def clone(source: Path, target: Path) -> bool:
    """Let a file be what another one is now; False where their file system cannot. Blocking.

    The target is made, or emptied first, whatever the answer. Raises OSError.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with source.open("rb") as read:
        written = os.open(target, flags, 0o644)
        try:
            fcntl.ioctl(written, _FICLONE, read.fileno())
        except OSError as error:
            if error.errno in _CANNOT:
                return False
            raise
        finally:
            os.close(written)
    return True
