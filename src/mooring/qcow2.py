"""The header of a qcow2 file, read without any program: what it claims, and what it must not.

A file that names a backing file or an external data file would make QEMU open that too. Only the
declared format is looked at: a file is never probed. oslo.utils knows what must not be there, but
for encryption; the names in an overlay of our own it does not tell.
"""

from __future__ import annotations

import struct
from pathlib import Path

from msgspec import Struct

from mooring.errors import Invalid

MAGIC = b"QFI\xfb"
HEADER_BYTES = 512
"""As much as is needed to judge a file that must stand alone."""

_HEAD = struct.Struct(">4sIQIIQI")
_EXTENSION = struct.Struct(">II")
_ENCRYPTION_NONE = 0
_VERSION_2_BYTES = 72
_BACKING_FORMAT = 0xE2792ACA
_MOST_BYTES = 1 << 62
# The header, its extensions and the name of the backing file share the first cluster.
_READ_BYTES = 65536


class Header(Struct, frozen=True, kw_only=True):
    """What a header says. `backing` is the name as it is written, "" for a file that stands alone.

    `backing_format` is "" where the file leaves it to be guessed.
    """

    virtual_bytes: int
    backing: str = ""
    backing_format: str = ""


def read(head: bytes) -> Header:
    """Return what a file's first bytes say, `HEADER_BYTES` of them or more.

    Raises Invalid for what is not qcow2, is encrypted, keeps its content elsewhere, or uses
    features that nobody here knows.
    """
    if len(head) < HEADER_BYTES or not head.startswith(MAGIC):
        raise Invalid("The data is not qcow2, though declared so. Declare its true format.")
    _, version, backing_offset, backing_bytes, _, size_bytes, encryption = _HEAD.unpack_from(head)
    if version not in {2, 3} or size_bytes > _MOST_BYTES:
        raise Invalid(
            f"The data is qcow2 of version {version} with {size_bytes} bytes, which makes no "
            "sense; versions 2 and 3 are taken."
        )
    if encryption != _ENCRYPTION_NONE:
        raise Invalid("The qcow2 data is encrypted, which is refused. Decrypt it first.")
    _refuse_unsafe(head, version)
    if not backing_offset:
        return Header(virtual_bytes=size_bytes)
    begin = int.from_bytes(head[100:104], "big") if version == 3 else _VERSION_2_BYTES
    return Header(
        virtual_bytes=size_bytes,
        backing=_read_backing(head, backing_offset, backing_bytes),
        backing_format=_read_backing_format(head, begin, backing_offset),
    )


def read_alone(head: bytes) -> int:
    """Return the size of the disk in a file that stands alone, by its first `HEADER_BYTES`.

    Raises Invalid as `read` does, and for a file that names a backing file.
    """
    if _has_backing(head):
        raise Invalid("The qcow2 data names a backing file, which is refused. Flatten it first.")
    return read(head).virtual_bytes


def read_header(path: Path) -> Header:
    """Return what the header of an overlay of our own says. Raises Invalid as `read` does."""
    with path.open("rb") as file:
        return read(file.read(_READ_BYTES))


def read_virtual_bytes(path: Path) -> int:
    """Return the size of the disk inside. Raises Invalid unless it is qcow2 and stands alone."""
    with path.open("rb") as file:
        return read_alone(file.read(HEADER_BYTES))


def read_claimed_bytes(path: Path) -> int:
    """Return the size that the header of a file of our own names, 0 when it is no qcow2."""
    with path.open("rb") as file:
        head = file.read(_HEAD.size)
    if len(head) < _HEAD.size or not head.startswith(MAGIC):
        return 0
    return _HEAD.unpack(head)[5]


def _refuse_unsafe(head: bytes, version: int) -> None:
    # Not needed before the first image comes, and slow to import.
    from oslo_utils.imageutils.format_inspector import QcowInspector, SafetyViolation

    inspector = QcowInspector()
    inspector.eat_chunk(head[:HEADER_BYTES])
    try:
        inspector.check_unknown_features()
        # There are no feature bits in version 2: other things stand in their place.
        if version > 2:
            inspector.check_data_file()
    except SafetyViolation as error:
        raise Invalid(
            "The qcow2 data keeps its content in another file, or uses features that are not known "
            "here, which is refused. Convert it first.",
            private=str(error),
        ) from error


def _has_backing(head: bytes) -> bool:
    whole = len(head) >= HEADER_BYTES and head.startswith(MAGIC)
    return whole and _HEAD.unpack_from(head)[2] != 0


def _read_backing(head: bytes, begin: int, length: int) -> str:
    name = head[begin : begin + length]
    if len(name) < length or not name:
        raise Invalid("The qcow2 data names a backing file where none can be. Make it anew.")
    return name.decode("utf-8", "replace")


def _read_backing_format(head: bytes, begin: int, end: int) -> str:
    """Return what the extension of the header says, "" when there is none."""
    while begin + _EXTENSION.size <= min(end, len(head)):
        kind, length = _EXTENSION.unpack_from(head, begin)
        begin += _EXTENSION.size
        if kind == 0:
            break
        if kind == _BACKING_FORMAT:
            return head[begin : begin + length].decode("ascii", "replace")
        begin += -(-length // 8) * 8
    return ""
