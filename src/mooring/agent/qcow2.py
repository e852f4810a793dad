"""The header of a qcow2 file, read without any program: what it claims, and what it must not.

A file that names a backing file or an external data file would make QEMU open that too.
"""

from __future__ import annotations

import struct
from pathlib import Path

from mooring.errors import Invalid

_MAGIC = b"QFI\xfb"
_HEAD = struct.Struct(">4sIQIIQI")
_EXTERNAL_DATA = 4
_ENCRYPTION_NONE = 0


def read_virtual_bytes(path: Path) -> int:
    """Return the size of the disk inside. Raises Invalid unless it is qcow2 and stands alone."""
    with path.open("rb") as file:
        head = file.read(104)
    if len(head) < 72 or not head.startswith(_MAGIC):
        raise Invalid("The data is not qcow2, though declared so. Declare its true format.")
    _, version, backing_offset, _, _, size_bytes, encryption = _HEAD.unpack_from(head)
    if version not in {2, 3}:
        raise Invalid(f"The data is qcow2 of version {version}; versions 2 and 3 are taken.")
    if backing_offset:
        raise Invalid("The qcow2 data names a backing file, which is refused. Flatten it first.")
    if encryption != _ENCRYPTION_NONE:
        raise Invalid("The qcow2 data is encrypted, which is refused. Decrypt it first.")
    if version == 3 and len(head) >= 80:
        features = int.from_bytes(head[72:80], "big")
        if features & _EXTERNAL_DATA:
            raise Invalid("The qcow2 data keeps its content in another file, which is refused.")
    return size_bytes
