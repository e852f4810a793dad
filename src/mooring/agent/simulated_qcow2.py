"""The qcow2 files of simulated hosts: root disks become images, and images become root disks.

Written and read here and not by qemu-img, which a machine with simulated guests need not have.
"""

from __future__ import annotations

import errno
import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mooring import qcow2
from mooring.agent.files import PARTIAL
from mooring.agent_api.captures import DiskFormat
from mooring.errors import Invalid

_BITS = 16
_CLUSTER = 1 << _BITS
_ENTRIES = _CLUSTER // 8
_COUNTS = _CLUSTER // 2
_HEADER = struct.Struct(">4sIQIIQIIQQIIQQQQII")
_OWN = 1 << 63
"""In an entry of a table: nothing else uses the cluster, so it may be written to in place."""
_COMPRESSED, _ZERO = 1 << 62, 1
_OFFSET = 0x00FF_FFFF_FFFF_FE00


def read_image_into(target: Path, source: Path, disk_format: str) -> None:
    """Write what an image of a declared format has to a raw file, holes as holes. Blocking.

    Raises Invalid for a compressed image, which no simulated host makes.
    """
    if disk_format == "raw":
        shutil.copyfile(source, target)
        return
    size_bytes = qcow2.read_virtual_bytes(source)
    with source.open("rb") as file, target.open("wb") as disk:
        for offset, data in _clusters(file, size_bytes):
            disk.seek(offset)
            disk.write(data)
        disk.truncate(size_bytes)


def _clusters(file: BinaryIO, size_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield what a qcow2 file that stands alone has, with where it lies in the disk."""
    _, _, _, _, bits, _, _, l1_size, l1_at, *_ = _HEADER.unpack(file.read(_HEADER.size))
    cluster, per_table = 1 << bits, (1 << bits) // 8
    for at, l1 in enumerate(_table(file, l1_at, l1_size)):
        if not l1 & _OFFSET:
            continue
        for number, entry in enumerate(_table(file, l1 & _OFFSET, per_table)):
            if entry & _COMPRESSED:
                raise Invalid("The image is compressed. Simulated hosts take none of that kind.")
            offset = (at * per_table + number) * cluster
            if entry & _OFFSET and not entry & _ZERO and offset < size_bytes:
                file.seek(entry & _OFFSET)
                yield offset, file.read(cluster)


def _table(file: BinaryIO, at: int, count: int) -> tuple[int, ...]:
    file.seek(at)
    return struct.unpack(f">{count}Q", file.read(count * 8))


def write_empty(target: Path, disk_format: DiskFormat, size_bytes: int) -> None:
    """Write a disk without any data. Blocking."""
    if disk_format == "raw":
        _write_hole(target, size_bytes)
        return
    raw = target.with_name(f"{target.name}.raw{PARTIAL}")
    try:
        _write_hole(raw, size_bytes)
        write_qcow2(raw, target)
    finally:
        raw.unlink(missing_ok=True)


def _write_hole(path: Path, size_bytes: int) -> None:
    with path.open("wb") as file:
        file.truncate(size_bytes)


def write_qcow2(source: Path, target: Path) -> None:
    """Write a raw disk to a qcow2 file that stands alone, without what is all zeros. Blocking.

    The file: header, table of reference counts, their blocks, L1 table, L2 tables, data.
    """
    size_bytes = source.stat().st_size
    with source.open("rb") as disk, target.open("wb") as file:
        data = list(_clusters_with_data(disk, size_bytes))
        tables = sorted({number // _ENTRIES for number in data})
        l1_size = max(1, -(-size_bytes // (_CLUSTER * _ENTRIES)))
        l1_clusters = -(-l1_size * 8 // _CLUSTER)
        fixed = 2 + l1_clusters + len(tables) + len(data)
        blocks = -(-(fixed + fixed // _COUNTS + 1) // _COUNTS)
        l1_at = 2 + blocks
        l2_at = l1_at + l1_clusters
        data_at = l2_at + len(tables)
        total = data_at + len(data)
        header = (b"QFI\xfb", 3, 0, 0, _BITS, size_bytes, 0, l1_size, l1_at * _CLUSTER)
        counts = (_CLUSTER, 1, 0, 0, 0, 0, 0, 4, _HEADER.size)
        file.write(_HEADER.pack(*header, *counts))
        _put(file, 1, [(2 + number) * _CLUSTER for number in range(blocks)])
        file.seek(2 * _CLUSTER)
        file.write(struct.pack(">H", 1) * total)
        where = {number: l2_at + at for at, number in enumerate(tables)}
        l1 = [where[at] * _CLUSTER | _OWN if at in where else 0 for at in range(l1_size)]
        _put(file, l1_at, l1)
        for at, number in enumerate(data):
            entry = (data_at + at) * _CLUSTER | _OWN
            file.seek(where[number // _ENTRIES] * _CLUSTER + number % _ENTRIES * 8)
            file.write(struct.pack(">Q", entry))
            disk.seek(number * _CLUSTER)
            file.seek((data_at + at) * _CLUSTER)
            file.write(disk.read(_CLUSTER))
        file.truncate(total * _CLUSTER)


def _put(file: BinaryIO, cluster: int, entries: list[int]) -> None:
    file.seek(cluster * _CLUSTER)
    file.write(struct.pack(f">{len(entries)}Q", *entries))


def _clusters_with_data(disk: BinaryIO, size_bytes: int) -> Iterator[int]:
    """Yield the numbers of the clusters that are no holes, in order."""
    done, offset = 0, 0
    while offset < size_bytes:
        try:
            begin = os.lseek(disk.fileno(), offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return
        offset = os.lseek(disk.fileno(), begin, os.SEEK_HOLE)
        for number in range(max(done, begin // _CLUSTER), -(-offset // _CLUSTER)):
            yield number
            done = number + 1
