"""A guest's swap disk: a file beside its root disk, as large as its flavor says.

It has what mkswap(8) writes, so that a guest can use it as it is, and a hole behind. Nobody keeps
what a guest writes there: it is made anew wherever the guest starts, and goes along with one that
runs on. Source: facts/compute.md 3.4.
"""

from __future__ import annotations

import struct
import uuid
from pathlib import Path

from msgspec import Struct

from mooring.agent import files
from mooring.agent.sources import FileSource, Source

FILE = "swap"
_PAGE_BYTES = 4096
"""Of x86-64, whose kernel looks for the signature at the end of the first one."""
_SIGNATURE = b"SWAPSPACE2"
_INFO_AT = 1024
_VERSION = 1
_MOST_PAGES = (1 << 32) - 1


class SwapPlan(Struct, frozen=True, kw_only=True):
    """A swap disk on the host itself."""

    path: Path
    size_bytes: int

    @property
    def source(self) -> Source:
        """The same as a source of a disk."""
        return FileSource(str(self.path), "raw")


def make(own: Path, size_bytes: int, operation_key: str) -> SwapPlan:
    """Make the disk in a guest's directory, or find the one of that size. Raises NoCapacity."""
    path = own / FILE
    if not path.exists() or path.stat().st_size != size_bytes:
        make_anew(own, size_bytes, operation_key)
    return SwapPlan(path=path, size_bytes=size_bytes)


def make_anew(own: Path, size_bytes: int, operation_key: str) -> None:
    """Make the disk, and nothing that stood in its place before. Raises NoCapacity."""
    # Its guest puts its memory there: nobody else reads it, whoever gets to the directory.
    files.make_private(own / FILE, header(size_bytes), operation_key, size_bytes=size_bytes)


def drop(own: Path) -> None:
    """Remove the disk, with what was never finished of one; nothing where none is.

    Raises Unavailable.
    """
    files.remove_private(own / FILE)


def header(size_bytes: int) -> bytes:
    """Return the first page of a swap disk of so many bytes, with an id of its own."""
    last_page = min(size_bytes // _PAGE_BYTES - 1, _MOST_PAGES)
    info = struct.pack("<III", _VERSION, last_page, 0) + uuid.uuid4().bytes
    return (bytes(_INFO_AT) + info).ljust(_PAGE_BYTES - len(_SIGNATURE), b"\0") + _SIGNATURE
