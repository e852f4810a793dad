"""Files as the blocks in them that are not zeros: read, told apart by a digest, written sparsely.

So what a file takes to read, send and store goes by what is in it, and not by its size: holes are
skipped where the file system tells of them, and zeros that it keeps are sent nowhere.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from mooring.errors import Unavailable
from mooring.fence.threads import run_to_end

BLOCK_BYTES = 65536
PIECE_BYTES = 1024**2
"""The most that is in memory of a file at a time."""
HEAD = struct.Struct(">QQ")
"""Offset and length."""
_ZEROS = bytes(BLOCK_BYTES)
_AT_ONCE = 16


class Piece(Struct, frozen=True):
    """Some blocks of a file that lie side by side; without data it only tells how far one is."""

    offset: int
    data: bytes

    @property
    def end(self) -> int:
        """The offset of what follows."""
        return self.offset + len(self.data)


class Digest:
    """SHA-256 of each block that is not all zeros, behind its offset and length; then of the size.

    Two files of one digest read the same, wherever either has holes.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, piece: Piece) -> None:
        """Add what follows."""
        for at in range(0, len(piece.data), BLOCK_BYTES):
            block = piece.data[at : at + BLOCK_BYTES]
            self._hash.update(HEAD.pack(piece.offset + at, len(block)))
            self._hash.update(block)

    def end(self, size_bytes: int) -> str:
        """Return the digest of a file of this size, in hex."""
        self._hash.update(HEAD.pack(size_bytes, 0))
        return self._hash.hexdigest()


class Measured(Struct, frozen=True):
    """A file: its size, how much of it is not zeros, what it reads."""

    size_bytes: int
    data_bytes: int
    digest: str


class Reader:
    """One file, read piece by piece from an offset on. Blocking; for one thread at a time."""

    def __init__(self, path: Path, begin: int = 0) -> None:
        self._handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.size_bytes = os.fstat(self._handle).st_size
        self._pieces = self._read(begin)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._handle)

    def next(self) -> Piece | None:
        """Return the next piece, or None at the end. Raises Unavailable when the file shrinks."""
        return next(self._pieces, None)

    def forget(self) -> None:
        """Let the machine forget what it has read: what is read next comes from the disk."""
        os.posix_fadvise(self._handle, 0, 0, os.POSIX_FADV_DONTNEED)

    def _read(self, at: int) -> Iterator[Piece]:
        while (at := self._skip_hole(at)) < self.size_bytes:
            data = os.pread(self._handle, min(PIECE_BYTES, self.size_bytes - at), at)
            if not data:
                raise Unavailable("A disk became smaller while it was read. Ask again.")
            yield from _split(at, data)
            at += len(data)

    def _skip_hole(self, at: int) -> int:
        if at >= self.size_bytes:
            return at
        try:
            found = os.lseek(self._handle, at, os.SEEK_DATA)
        except OSError as error:
            # A file system that tells of no holes is read whole.
            return self.size_bytes if error.errno == errno.ENXIO else at
        return max(at, found - found % BLOCK_BYTES)


async def measure(path: Path) -> Measured:
    """Read a file through, in steps: whoever is cancelled meanwhile ends soon."""
    reader, digest, data_bytes = Reader(path), Digest(), 0

    def step() -> int | None:
        """Return how much was read, None at the end."""
        found = 0
        for _ in range(_AT_ONCE):
            if (piece := reader.next()) is None:
                return found or None
            digest.add(piece)
            found += len(piece.data)
        return found

    try:
        reader.forget()
        while (read := await run_to_end(step)) is not None:
            data_bytes += read
    finally:
        reader.close()
    return Measured(reader.size_bytes, data_bytes, digest.end(reader.size_bytes))


async def copy(source: Path, target: Path) -> None:
    """Copy a file with its holes, and force it to disk."""
    reader = Reader(source)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)

    def step() -> bool:
        """Return whether there is more to write."""
        for _ in range(_AT_ONCE):
            if (piece := reader.next()) is None:
                return False
            write(handle, piece)
        return True

    try:
        while await run_to_end(step):
            continue
        os.ftruncate(handle, reader.size_bytes)
        await run_to_end(lambda: os.fsync(handle))
    finally:
        os.close(handle)
        reader.close()


def copy_now(source: Path, target: Path) -> None:
    """Copy a file with its holes. Blocking."""
    reader = Reader(source)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        while (piece := reader.next()) is not None:
            write(handle, piece)
        os.ftruncate(handle, reader.size_bytes)
    finally:
        os.close(handle)
        reader.close()


def write(handle: int, piece: Piece) -> None:
    """Write a piece to its place."""
    left, at = memoryview(piece.data), piece.offset
    while left:
        written = os.pwrite(handle, left, at)
        left, at = left[written:], at + written


def _split(offset: int, data: bytes) -> Iterator[Piece]:
    """Yield the runs of blocks that are not zeros; a piece without data when there is none."""
    begin, found = None, False
    for at in range(0, len(data), BLOCK_BYTES):
        block = data[at : at + BLOCK_BYTES]
        is_empty = block == _ZEROS[: len(block)]
        if begin is None and not is_empty:
            begin, found = at, True
        elif begin is not None and is_empty:
            yield Piece(offset + begin, data[begin:at])
            begin = None
    if begin is not None:
        yield Piece(offset + begin, data[begin:])
    elif not found:
        yield Piece(offset, b"")
