"""The header of a qcow2 file, read without any tool: its size, and what it must not refer to.

Only the declared format is looked at: a file is never probed. The header's layout is QEMU's
published one: big-endian, magic, version, backing file, and from version 3 on feature bits.
"""

from __future__ import annotations

import struct

from msgspec import Struct

from mooring.errors import Invalid

MAGIC = b"QFI\xfb"
HEADER_BYTES = 104
"""As much as is looked at: the fixed part of a version 3 header."""

_FIXED = struct.Struct(">4sIQIIQ")
_FEATURES = struct.Struct(">Q")
_FEATURES_AT = 72
_EXTERNAL_DATA = 1 << 2
_KNOWN_FEATURES = 0b11111
_MOST_BYTES = 1 << 62


class Header(Struct, frozen=True):
    """What is known of a qcow2 image: the size of the disk in it, in bytes."""

    virtual_size_bytes: int


def read(start: bytes) -> Header:
    """Read the header from a file's first `HEADER_BYTES`.

    Raises Invalid (415) when it is no qcow2, or one whose data lie in other files: opening such an
    image would read a file of the host that its maker chose.
    """
    if len(start) < _FIXED.size or not start.startswith(MAGIC):
        raise _refuse("its data are not in the format qcow2")
    _, version, backing_offset, _, _, size = _FIXED.unpack_from(start)
    if version not in (2, 3) or size > _MOST_BYTES:
        raise _refuse(f"its qcow2 header makes no sense (version {version}, {size} bytes)")
    if backing_offset:
        raise _refuse("its data refer to a backing file; flatten it first (qemu-img convert)")
    if version == 3:
        if len(start) < HEADER_BYTES:
            raise _refuse("its qcow2 header is cut short")
        (features,) = _FEATURES.unpack_from(start, _FEATURES_AT)
        if features & _EXTERNAL_DATA:
            raise _refuse("its data refer to an external data file; convert it first")
        if features & ~_KNOWN_FEATURES:
            raise _refuse("its data use features of qcow2 that are not known here")
    return Header(size)


def _refuse(why: str) -> Invalid:
    return Invalid(f"The image was refused: {why}. It is queued again.", status=415)
