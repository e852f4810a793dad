"""Whether a SQLite file can be read: told when it is opened, with its name and what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import DatabaseError

from mooring.errors import Unavailable
from mooring.row_limits import STORE_CHECKED_BYTES

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@contextmanager
def told(path: Path) -> Generator[None]:
    """Raise Unavailable, with the file's name and what to do, where SQLite finds it damaged."""
    try:
        yield
    except DatabaseError as error:
        if getattr(error.orig, "sqlite_errorcode", 0) & 0xFF not in _DAMAGE:
            raise
        raise _told(path, str(error.orig)) from error


def look(path: Path, connection: Connection) -> None:
    """Read the file at `path` over `connection`. Raises Unavailable when it is damaged."""
    is_small = path.stat().st_size <= STORE_CHECKED_BYTES
    pragma = "quick_check(1)" if is_small else "schema_version"
    found = connection.exec_driver_sql(f"PRAGMA {pragma}").scalar()
    if is_small and found != "ok":
        raise _told(path, str(found))


def _told(path: Path, said: str) -> Unavailable:
    return Unavailable(
        f"The database file {path} is damaged: {' '.join(said.split())}. Restore all databases of "
        "one backup (docs/backup.md)."
    )
