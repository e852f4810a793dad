"""The files that images' data lie in: written beside, then renamed; read in pieces.

Everything here blocks, so it is called in a thread.
"""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from collections.abc import Collection
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct

from mooring.errors import MooringError, NoCapacity, NotFound, Unavailable

if TYPE_CHECKING:
    from pathlib import Path

HASH = "sha512"
_PART = ".part"
# Two uploads can never fill one file.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Written(Struct, frozen=True):
    """What was written: how much, its hashes as hexadecimal text, and its first bytes."""

    size_bytes: int
    checksum: str
    """MD5: no proof of anything, but what old clients compare."""
    hash_value: str
    start: bytes


class Writer:
    """One file on its way to its name. Its methods may be called from any thread.

    Raises NoCapacity when the disk is full, Unavailable when it fails.
    """

    def __init__(
        self, directory: Path, name: str, *, start_bytes: int, reserve_bytes: int = 0
    ) -> None:
        self._reserve_bytes = reserve_bytes
        self._directory, self._name, self._start_bytes = directory, name, start_bytes
        self._path = directory / (name + _PART)
        self._lock = threading.Lock()
        self._size, self._start = 0, b""
        self._md5, self._hash = hashlib.md5(usedforsecurity=False), hashlib.new(HASH)
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file: BinaryIO = os.fdopen(os.open(self._path, _NEW, 0o600), "wb")
        except OSError as error:
            raise _failure(error) from error

    def write(self, chunk: bytes) -> None:
        """Append a chunk."""
        with self._lock:
            try:
                self._leave(len(chunk))
                self._file.write(chunk)
            except OSError as error:
                raise _failure(error) from error
            self._size += len(chunk)
            self._md5.update(chunk)
            self._hash.update(chunk)
            if len(self._start) < self._start_bytes:
                self._start = (self._start + chunk)[: self._start_bytes]

    def _leave(self, size: int) -> None:
        """Raise OSError, as a full disk does, where a chunk would take from the reserve."""
        space = os.fstatvfs(self._file.fileno())
        if space.f_bavail * space.f_frsize < self._reserve_bytes + size:
            raise OSError(errno.ENOSPC, "what is left is reserved")

    def flush(self) -> Written:
        """See that all of it is on the disk, still under the unfinished name."""
        with self._lock:
            try:
                self._file.flush()
                os.fsync(self._file.fileno())
            except OSError as error:
                raise _failure(error) from error
            return Written(self._size, self._md5.hexdigest(), self._hash.hexdigest(), self._start)

    def publish(self) -> None:
        """Give the file its name. Raises NotFound when it was swept away as a dead process's."""
        with self._lock:
            try:
                self._file.close()
                self._path.rename(self._directory / self._name)
                _sync_directory(self._directory)
            except FileNotFoundError as error:
                raise ended() from error
            except OSError as error:
                raise _failure(error) from error

    def discard(self) -> None:
        """Forget the file, whatever its name is by now."""
        with self._lock:
            self._file.close()
            for path in (self._path, self._directory / self._name):
                path.unlink(missing_ok=True)


def ended() -> NotFound:
    """Return the error for an upload that others ended before all data came."""
    return NotFound(
        "The image was deleted, or its upload was ended, before all data came. They were not "
        "kept. Look whether the image is still there, and upload it again if it is queued.",
        status=410,
    )


def open_data(directory: Path, name: str) -> BinaryIO:
    """Open an image's data. Raises NotFound when the file is not there."""
    try:
        return (directory / name).open("rb")
    except FileNotFoundError as error:
        raise NotFound(
            "The image's data are not here. Tell the operator, or upload the image again.",
            private=str(error),
        ) from error


def listing(directory: Path) -> set[str]:
    """Return the names of all files of images."""
    try:
        return {entry.name for entry in os.scandir(directory) if entry.is_file()}
    except FileNotFoundError:
        return set()


def remove(directory: Path, names: Collection[str]) -> None:
    """Delete files; those that are gone are fine."""
    for name in names:
        (directory / name).unlink(missing_ok=True)


def remove_strays(directory: Path, there: Collection[str], kept: Collection[str]) -> None:
    """Delete the files that are `there` and belong to none of the `kept` names."""
    remove(directory, [name for name in there if name.removesuffix(_PART) not in kept])


def _sync_directory(directory: Path) -> None:
    """See that a new name is on the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failure(error: OSError) -> MooringError:
    if error.errno in _NO_ROOM:
        return NoCapacity(
            "There is no room for the image's data; it is queued again. Upload it once the "
            "operator has made room.",
            private=str(error),
        )
    return Unavailable(
        "The image's data cannot be stored; it is queued again. Upload it later.",
        private=str(error),
    )
