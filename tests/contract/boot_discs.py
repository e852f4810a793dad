"""Images of CD-ROMs from which the test guest boots (El Torito: what is on one stands for a disk).

The firmware reads the disk's geometry from the first partition of the disk's first sector. That of
the test guest has none, and in its place the end of what its boot loader says when it fails.
"""

from __future__ import annotations

import struct

_SECTOR = 2048
_DESCRIPTORS, _CATALOG, _DISK = 16, 19, 20
"""Where each begins, in sectors; the three descriptors take one each."""
_HARD_DISK = 4
_GEOMETRY, _HEADS, _PER_TRACK, _BLOCK = 0x1C3, 16, 63, 512


def build(disk: bytes) -> bytes:
    """Return the image of a CD-ROM from which a machine boots as it does from this disk."""
    cylinders = -(-len(disk) // (_HEADS * _PER_TRACK * _BLOCK))
    geometry = bytes((_HEADS - 1, _PER_TRACK, cylinders))
    written = disk[:_GEOMETRY] + geometry + disk[_GEOMETRY + len(geometry) :]
    sectors = -(-len(written) // _SECTOR)
    return b"".join(
        (
            bytes(_DESCRIPTORS * _SECTOR),
            _primary(_DISK + sectors),
            _descriptor(0, b"EL TORITO SPECIFICATION".ljust(64, b"\0"), _little(_CATALOG)),
            _descriptor(255),
            _catalog(),
            written.ljust(sectors * _SECTOR, b"\0"),
        )
    )


def _descriptor(kind: int, *parts: bytes) -> bytes:
    return b"".join((bytes((kind,)), b"CD001\x01", *parts)).ljust(_SECTOR, b"\0")


def _primary(sectors: int) -> bytes:
    """Return the descriptor that every CD-ROM has; this one names no folder."""
    both = _little(sectors) + struct.pack(">I", sectors)
    return _descriptor(1, b"\0", b" " * 64, bytes(8), both)


def _catalog() -> bytes:
    """Return the sector that says what is booted: 16-bit words that add up to nothing."""
    checked = bytearray(32)
    checked[0], checked[30:] = 1, b"\x55\xaa"
    total = sum(struct.unpack("<16H", checked))
    checked[28:30] = struct.pack("<H", -total & 0xFFFF)
    entry = struct.pack("<BBHBBHI", 0x88, _HARD_DISK, 0, 6, 0, 1, _DISK)
    return (bytes(checked) + entry).ljust(_SECTOR, b"\0")


def _little(number: int) -> bytes:
    return struct.pack("<I", number)
