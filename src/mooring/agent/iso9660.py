"""Small ISO 9660 images, made and read in memory: what a guest mounts as a CD-ROM.

Every directory is there twice, as the standard has it: with names in capitals for the oldest
readers, and by Joliet with the names as they are. Both point to the same files, and files with the
same content are one. The same files make the same image, to the byte.

Source: ECMA-119 (its clauses are named below) and the Joliet specification.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from mooring.errors import Bug

SECTOR = 2048
_DESCRIPTORS_AT = 16
_ROOT_AT = 156
"""Where a descriptor has the record of its root."""
# 1980-01-01 00:00:00 UTC (9.1.5): images differ by their content alone.
_RECORDED = bytes((80, 1, 1, 0, 0, 0, 0))
_NEVER = b"0" * 16 + b"\0"
_UCS_2_LEVEL_3 = b"%/E"
_FOLDER = 2
_HERE, _ABOVE = b"\0", b"\1"
_NAME_LENGTH = 28
"""With its version a name has 30 letters: what level 2 allows (7.5.1), and Joliet twice."""

Place = tuple[int, int]
"""First sector, and size in bytes."""


class _Folder(Struct):
    """A directory: its name, the number of the one above, and what is in it by name."""

    name: str
    above: int
    folders: dict[str, int]
    files: dict[str, bytes]


class _Tree(Struct, frozen=True):
    """One of the two trees: how it writes names, and where each directory stands, by number."""

    encode: Callable[[str], bytes]
    places: list[Place]
    tables: tuple[Place, Place]
    """Of its path tables, with numbers of either byte order."""


def build(files: Mapping[str, bytes], label: str) -> bytes:
    """Return an image with these files by their paths ("a/b.txt"), in directories as needed."""
    folders = _sort_into_folders(files)
    plain, end = _lay_out(folders, _in_capitals, _DESCRIPTORS_AT + 3)
    joliet, end = _lay_out(folders, _in_ucs_2, end)
    places: dict[bytes, Place] = {}
    for content in files.values():
        if content not in places:
            places[content] = end, len(content)
            end += _sectors(len(content))
    image = bytearray(end * SECTOR)
    descriptors = (
        _describe(1, _in_capitals(label, keep=True).ljust(32), b"", plain, end),
        _describe(2, _in_ucs_2(label).ljust(32, b"\0"), _UCS_2_LEVEL_3, joliet, end),
        b"\xffCD001\x01",
    )
    for at, descriptor in enumerate(descriptors, _DESCRIPTORS_AT):
        _put(image, at, descriptor)
    for tree in (plain, joliet):
        for order, (at, _) in zip("<>", tree.tables, strict=True):
            _put(image, at, _path_table(folders, tree, order))
        for number, (at, _) in enumerate(tree.places):
            _put(image, at, _directory(folders, number, tree, places))
    for content, (at, _) in places.items():
        _put(image, at, content)
    return bytes(image)


def read(image: bytes, path: str) -> bytes | None:
    """Return a file of an image that `build` has made; None when there is none."""
    found = _read_place(image, (_DESCRIPTORS_AT + 1) * SECTOR + _ROOT_AT)
    for name in path.split("/"):
        wanted = _in_ucs_2(name), _in_ucs_2(f"{name};1")
        there = (place for named, place in _read_directory(image, found) if named in wanted)
        if (entry := next(there, None)) is None:
            return None
        found = entry
    at, size = found
    return image[at * SECTOR : at * SECTOR + size]


def _in_capitals(name: str, *, keep: bool = False) -> bytes:
    return (name if keep else name.upper()).encode("ascii")


def _in_ucs_2(name: str) -> bytes:
    return name.encode("utf-16-be")


def _sectors(size: int) -> int:
    return -(-size // SECTOR)


def _put(image: bytearray, at: int, content: bytes) -> None:
    image[at * SECTOR : at * SECTOR + len(content)] = content


# -- where everything stands -------------------------------------------------------------------


def _sort_into_folders(files: Mapping[str, bytes]) -> list[_Folder]:
    """Return the directories in the order of path tables (6.9.1): the root first, then by level."""
    paths = {above for path in files for above in _all_above(path)}
    folders, numbers = [_Folder("", 0, {}, {})], {"": 0}
    for path in sorted(paths, key=lambda one: (one.count("/"), one.upper())):
        above, _, name = path.rpartition("/")
        numbers[path] = len(folders)
        folders[numbers[above]].folders[name] = len(folders)
        folders.append(_Folder(name, numbers[above], {}, {}))
    for path, content in files.items():
        above, _, name = path.rpartition("/")
        folders[numbers[above]].files[name] = content
    return folders


def _all_above(path: str) -> Iterator[str]:
    names = path.split("/")
    if not path.isascii() or not all(0 < len(name) <= _NAME_LENGTH for name in names):
        raise Bug("This path is none that every reader of CD-ROMs knows.", private=path)
    for depth in range(1, len(names)):
        yield "/".join(names[:depth])


def _lay_out(folders: list[_Folder], encode: Callable[[str], bytes], at: int) -> tuple[_Tree, int]:
    """Give a tree its sectors from `at` on; return it, and the first sector behind it."""
    bare = _Tree(encode, [(0, 0)] * len(folders), ((0, 0), (0, 0)))
    size = len(_path_table(folders, bare, "<"))
    tables = (at, size), (at + _sectors(size), size)
    at += 2 * _sectors(size)
    places: list[Place] = []
    for number, folder in enumerate(folders):
        nowhere = dict.fromkeys(folder.files.values(), (0, 0))
        size = len(_directory(folders, number, bare, nowhere))
        places.append((at, size))
        at += _sectors(size)
    return _Tree(encode, places, tables), at


# -- what is written there ---------------------------------------------------------------------


def _describe(kind: int, label: bytes, escape: bytes, tree: _Tree, sectors: int) -> bytes:
    """Return a volume descriptor (8.4, 8.5)."""
    blank = b" " if kind == 1 else _in_ucs_2(" ")
    table_bytes = tree.tables[0][1]
    return b"".join(
        (
            bytes((kind,)),
            b"CD001\x01\0",
            blank * (32 // len(blank)),
            label,
            bytes(8),
            _both(sectors, "I"),
            escape.ljust(32, b"\0"),
            _both(1, "H") * 2,
            _both(SECTOR, "H"),
            _both(table_bytes, "I"),
            struct.pack("<II", tree.tables[0][0], 0),
            struct.pack(">II", tree.tables[1][0], 0),
            _record(_HERE, tree.places[0], _FOLDER),
            # Who made it and of what, and files that say more of that: nothing (8.4.19 to 8.4.25).
            (blank * 512)[:512],
            (blank * 111)[:111],
            _NEVER * 4,
            b"\x01\0",
        )
    )


def _path_table(folders: list[_Folder], tree: _Tree, order: str) -> bytes:
    """Return all directories with where they stand (9.4)."""
    table = bytearray()
    for folder, (at, _) in zip(folders, tree.places, strict=True):
        name = tree.encode(folder.name) or _HERE
        table += struct.pack(f"{order}BBIH", len(name), 0, at, folder.above + 1) + name
        table += bytes(len(name) % 2)
    return bytes(table)


def _directory(
    folders: list[_Folder], number: int, tree: _Tree, files: Mapping[bytes, Place]
) -> bytes:
    """Return a directory: itself, the one above, and what is in it by name (6.8, 9.1)."""
    folder = folders[number]
    entries = [
        *((tree.encode(name), tree.places[at], _FOLDER) for name, at in folder.folders.items()),
        *((tree.encode(f"{name};1"), files[one], 0) for name, one in folder.files.items()),
    ]
    records = [
        _record(_HERE, tree.places[number], _FOLDER),
        _record(_ABOVE, tree.places[folder.above], _FOLDER),
        *(_record(name, place, flags) for name, place, flags in sorted(entries)),
    ]
    return _pack(records)


def _pack(records: Iterable[bytes]) -> bytes:
    """Return records in whole sectors, none of them in two (6.8.1.1)."""
    packed = bytearray()
    for record in records:
        if len(packed) % SECTOR + len(record) > SECTOR:
            packed += bytes(-len(packed) % SECTOR)
        packed += record
    return bytes(packed) + bytes(-len(packed) % SECTOR)


def _record(name: bytes, place: Place, flags: int) -> bytes:
    """Return what a directory says of a file (9.1)."""
    at, size = place
    rest = b"".join(
        (
            b"\0",
            _both(at, "I"),
            _both(size, "I"),
            _RECORDED,
            bytes((flags, 0, 0)),
            _both(1, "H"),
            bytes((len(name),)),
            name,
            bytes((len(name) + 1) % 2),
        )
    )
    return bytes((len(rest) + 1,)) + rest


def _both(number: int, kind: str) -> bytes:
    """Return a number in both byte orders (7.2.3, 7.3.3)."""
    return struct.pack(f"<{kind}", number) + struct.pack(f">{kind}", number)


# -- reading -----------------------------------------------------------------------------------


def _read_place(image: bytes, at: int) -> Place:
    first, size = struct.unpack_from("<I4xI", image, at + 2)
    return first, size


def _read_directory(image: bytes, place: Place) -> Iterator[tuple[bytes, Place]]:
    at, end = place[0] * SECTOR, place[0] * SECTOR + place[1]
    while at < end:
        length = image[at]
        if not length:
            # The rest of a sector that the next record did not fit into.
            at += SECTOR - at % SECTOR
            continue
        name = image[at + 33 : at + 33 + image[at + 32]]
        yield name, _read_place(image, at)
        at += length
