"""The header of a qcow2 file, read without any program: what it claims, and what it must not.

A file that names a backing file or an external data file would make QEMU open that too.
"""

from __future__ import annotations

import struct
from pathlib import Path

from msgspec import Struct

from mooring.errors import Invalid

_MAGIC = b"QFI\xfb"
_HEAD = struct.Struct(">4sIQIIQI")
_EXTENSION = struct.Struct(">II")
_EXTERNAL_DATA = 4
_ENCRYPTION_NONE = 0
_VERSION_2_BYTES = 72
_BACKING_FORMAT = 0xE2792ACA
# The header, its extensions and the name of the backing file share the first cluster.
_READ_BYTES = 65536


class Header(Struct, frozen=True, kw_only=True):
    """What a header says. `backing` is the name as it is written, "" for a file that stands alone.

    `backing_format` is "" where the file leaves it to be guessed.
    """

    virtual_bytes: int
    backing: str = ""
    backing_format: str = ""


def read_header(path: Path) -> Header:
    """Return the header. Raises Invalid for what is not qcow2, encrypted, or kept elsewhere."""
    with path.open("rb") as file:
        head = file.read(_READ_BYTES)
    if len(head) < _VERSION_2_BYTES or not head.startswith(_MAGIC):
        raise Invalid("The data is not qcow2, though declared so. Declare its true format.")
    _, version, backing_offset, backing_bytes, _, size_bytes, encryption = _HEAD.unpack_from(head)
    if version not in {2, 3}:
        raise Invalid(f"The data is qcow2 of version {version}; versions 2 and 3 are taken.")
    if encryption != _ENCRYPTION_NONE:
        raise Invalid("The qcow2 data is encrypted, which is refused. Decrypt it first.")
    if version == 3 and len(head) >= 80:
        features = int.from_bytes(head[72:80], "big")
        if features & _EXTERNAL_DATA:
            raise Invalid("The qcow2 data keeps its content in another file, which is refused.")
    if not backing_offset:
        return Header(virtual_bytes=size_bytes)
    name = head[backing_offset : backing_offset + backing_bytes]
    if len(name) < backing_bytes or not name:
        raise Invalid("The qcow2 data names a backing file where none can be. Make it anew.")
    begin = int.from_bytes(head[100:104], "big") if version == 3 else _VERSION_2_BYTES
    return Header(
        virtual_bytes=size_bytes,
        backing=name.decode("utf-8", "replace"),
        backing_format=_read_backing_format(head, begin, backing_offset),
    )


def read_virtual_bytes(path: Path) -> int:
    """Return the size of the disk inside. Raises Invalid unless it is qcow2 and stands alone."""
    header = read_header(path)
    if header.backing:
        raise Invalid("The qcow2 data names a backing file, which is refused. Flatten it first.")
    return header.virtual_bytes


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


def read_claimed_bytes(path: Path) -> int:
    """Return the size that the header of a file of our own names, 0 when it is no qcow2."""
    with path.open("rb") as file:
        head = file.read(_HEAD.size)
    if len(head) < _HEAD.size or not head.startswith(_MAGIC):
        return 0
    return _HEAD.unpack(head)[5]
