"""State directories of releases, each left by a process that died in the middle of an operation.

`keep.py` wrote them; here they are laid out again. `<state>` becomes the directory they come to lie
in, and what was sealed is sealed again with the key that was kept beside it.
"""

from __future__ import annotations

import lzma
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from mooring.saga.seal import Sealer, load_sealer

KEPT = Path(__file__).parent / "kept"
PLACE = "<state>"
SEAL_KEY = "seal.key"


class State(Struct, frozen=True):
    """One state directory: which saga died where in it, and which file of the archive is whose."""

    saga: str
    point: str
    scenario: str
    names: dict[str, str]
    """What was arranged, as the laws name it, with its id."""
    now: str
    """The time at which it died, in ISO format, UTC."""
    desk: dict[str, str]
    """The snapshots, with their statuses, of a volume service that was a stand-in."""
    files: dict[str, str]

    def __str__(self) -> str:
        return f"{self.point}-{self.scenario.replace(' ', '_')}"


class Cell(Struct, frozen=True, omit_defaults=True):
    """Bytes: a text, something else in hexadecimal digits, or a text to be sealed."""

    bytes: str = ""
    hex: str = ""
    sealed: str = ""

    def write(self, place: str, sealer: Sealer | None) -> bytes:
        """Return the bytes as they stand below `place`."""
        if self.sealed:
            assert sealer is not None
            return sealer.seal(self.sealed.replace(PLACE, place).encode())
        return bytes.fromhex(self.hex) or self.bytes.replace(PLACE, place).encode()


class Kept(Struct, frozen=True):
    """One file: a database, or bytes."""

    number: int = 0
    """A database's user version."""
    schema: tuple[str, ...] = ()
    rows: dict[str, list[list[Cell | str | int | float | None]]] = {}
    file: Cell | None = None

    def lay_out(self, path: Path, place: str, sealer: Sealer | None) -> None:
        """Write the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.file is not None:
            path.write_bytes(self.file.write(place, sealer))
            path.chmod(0o600)
            return
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(f"PRAGMA user_version = {self.number}")
            for statement in self.schema:
                database.execute(statement)
            for table, rows in self.rows.items():
                values = [[_value(cell, place, sealer) for cell in row] for row in rows]
                database.executemany(_insert(table, len(rows[0])), values)
            database.commit()


def _insert(table: str, columns: int) -> str:
    marks = ", ".join("?" * columns)
    return f'INSERT INTO "{table}" VALUES ({marks})'  # noqa: S608 (the name comes from keep.py)


def _value(cell: Cell | str | float | None, place: str, sealer: Sealer | None) -> Any:
    if isinstance(cell, Cell):
        return cell.write(place, sealer)
    return cell.replace(PLACE, place) if isinstance(cell, str) else cell


class Archive(Struct, frozen=True):
    """All states of one release. Files that many have are in it once."""

    files: dict[str, Kept]
    states: list[State]

    def lay_out(self, state: State, directory: Path) -> None:
        """Make a state directory."""
        names = sorted(state.files, key=lambda name: name != SEAL_KEY)
        sealer: Sealer | None = None
        for name in names:
            self.files[state.files[name]].lay_out(directory / name, str(directory), sealer)
            sealer = sealer or load_sealer(directory / SEAL_KEY)


@cache
def open_archive(release: str) -> Archive:
    """Return what was kept of a release."""
    text = lzma.decompress((KEPT / f"{release}.json.xz").read_bytes())
    return msgspec.json.decode(text, type=Archive)
