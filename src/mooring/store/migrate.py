"""Bring a service's database to the newest revision, all of it or nothing.

Whether there is anything to do is read from file names and one table, so that a start that finds
its database up to date never imports Alembic.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import zlib
from pathlib import Path

from msgspec import Struct
from sqlalchemy import Connection, Engine, text

from mooring.errors import Bug, Conflict

MIGRATIONS = Path(__file__).parent / "migrations"
COMMON = "common"
_FILE = re.compile(r"^(\d{4})_\w+\.py$")
_BEGUN = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'",
    "postgresql": "SELECT to_regclass('alembic_version')",
}


class State(Struct, frozen=True):
    """How a database stands: the revisions it `has`, and the `newest` that this program knows."""

    has: frozenset[str]
    newest: frozenset[str]

    @property
    def is_newest(self) -> bool:
        """Whether there is nothing to do."""
        return self.has == self.newest


def revisions(chain: str) -> list[str]:
    """Return the revisions of one chain, a service or `common`, oldest first."""
    folder = MIGRATIONS / chain
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return [f"{chain}_{match[1]}" for name in names if (match := _FILE.match(name))]


def state(connection: Connection, service: str) -> State:
    """Return how the database behind `connection` stands.

    Raises Conflict when a newer release has been there: this program would not know its tables.
    """
    chains = [revisions(chain) for chain in _chains(service)]
    has: frozenset[str] = frozenset()
    if _is_begun(connection):
        rows = connection.exec_driver_sql("SELECT version_num FROM alembic_version")
        has = frozenset(str(row[0]) for row in rows)
    unknown = sorted(has.difference(*chains))
    if unknown:
        raise Conflict(
            f"The database of the {service} service was written by a newer release of Mooring "
            f"(revision {', '.join(unknown)}). Start that release, or restore a backup."
        )
    return State(has, frozenset(chain[-1] for chain in chains if chain))


_alembic = threading.Lock()
"""Alembic keeps its environment in globals: one database of a process at a time."""


def upgrade(engine: Engine, service: str) -> bool:
    """Bring the database to the newest revision, in one transaction.

    Returns whether anything was done. Several processes may call this at once: one works, the
    others find it done.
    """
    with engine.connect() as connection:
        if state(connection, service).is_newest:
            return False
        connection.rollback()
        # Altering a table on SQLite copies and drops it, which foreign keys would refuse.
        _set_foreign_keys(connection, on=False)
        with connection.begin():
            _lock(connection, service)
            if state(connection, service).is_newest:
                return False
            run(connection, service)
            _check_foreign_keys(connection, service)
        _set_foreign_keys(connection, on=True)
    return True


def _is_begun(connection: Connection) -> bool:
    """Whether the first revision has been there. Every start asks, so by its table's name alone."""
    return connection.exec_driver_sql(_BEGUN[connection.dialect.name]).scalar() is not None


def _chains(service: str) -> list[str]:
    """Return the chains of a service's database; `common` is revised in one of its own."""
    return [COMMON] if service == COMMON else [COMMON, service]


def _lock(connection: Connection, service: str) -> None:
    """Keep other processes out until the end of the transaction. On SQLite its beginning did."""
    if connection.dialect.name == "sqlite":
        return
    key = zlib.crc32(f"mooring.{service}".encode())
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})
    quoted = connection.dialect.identifier_preparer.quote(service)
    connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {quoted}"))


def run(connection: Connection, service: str, target: str = "heads") -> None:
    """Run the revisions that the database lacks, up to `target`, in the caller's transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "newline")
    folders = [MIGRATIONS / chain for chain in _chains(service) if revisions(chain)]
    config.set_main_option("version_locations", "\n".join(str(folder) for folder in folders))
    config.attributes["connection"] = connection
    with _alembic:
        command.upgrade(config, target)


def _set_foreign_keys(connection: Connection, *, on: bool) -> None:
    driver = connection.connection.driver_connection
    if isinstance(driver, sqlite3.Connection):
        driver.execute(f"PRAGMA foreign_keys={'ON' if on else 'OFF'}").close()


def _check_foreign_keys(connection: Connection, service: str) -> None:
    if connection.dialect.name == "sqlite":
        broken = connection.execute(text("PRAGMA foreign_key_check")).all()
        if broken:
            raise Bug(
                f"The database of the {service} service cannot be upgraded; it is as before.",
                private=f"rows that point nowhere: {broken[:10]}",
            )
