"""What a service sees of its database: transactions as plain functions, and the base of its tables.

    async def rename(store: Store, volume_id: str, name: str) -> None:
        await store.write(lambda tx: tables.rename(tx, volume_id, name))

A plain function cannot await: no client is ever called inside a transaction, and none is cancelled
half-way.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from sqlalchemy import MetaData
from sqlalchemy.orm import DeclarativeBase, Session

from mooring.errors import Invalid
from mooring.probe import Probe
from mooring.store.call import after_commit, savepoint
from mooring.store.types import INTEGER, Json, UtcTime
from mooring.timings import Timing

__all__ = ["Json", "Store", "UtcTime", "after_commit", "open_store", "savepoint", "service_base"]

T = TypeVar("T")
_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
_POSTGRESQL = ("postgresql://", "postgres://", "postgresql+psycopg://")


class Store(Protocol):
    """One service's database.

    Constraints are checked at the statement, never deferred to the commit: on SQLite a commit may
    carry several writes, and a deferred failure would fail them all. A broken constraint raises
    SQLAlchemy's IntegrityError; a database that fails raises Unavailable.
    """

    kind: Literal["sqlite", "postgresql"]

    commit_times: Timing
    """How long commits that wrote took."""

    @property
    def commits(self) -> int:
        """Writes committed so far."""
        ...

    async def write(self, fn: Callable[[Session], T]) -> T:
        """Run the plain function `fn` in one transaction; return its result once committed.

        Whatever it raises rolls the transaction back and is raised here. A caller who is cancelled
        stops waiting; the transaction goes on, wholly or not at all. `fn` may be run again in a new
        transaction (PostgreSQL: a deadlock, a lost connection; SQLite: objects of a write beside it
        broke a constraint), so it changes nothing but the database. The row of each object
        that it loads is locked until the transaction ends.
        """
        ...

    async def read(self, fn: Callable[[Session], T]) -> T:
        """Run the plain function `fn` on one unchanging view of the data. It cannot write."""
        ...

    async def close(self) -> None:
        """Finish what was asked, refuse what comes, close the database."""
        ...


def service_base(service: str) -> type[DeclarativeBase]:
    """Return the base class of one service's tables, with metadata of its own.

    `Mapped[datetime]` is a UtcTime, lists and dicts are Json, `int` has 64 bits.
    """

    class Base(DeclarativeBase):
        metadata = MetaData(naming_convention=_NAMES, info={"service": service})
        type_annotation_map: ClassVar[dict[Any, Any]] = {
            datetime: UtcTime(),
            int: INTEGER,
            dict[str, Any]: Json(),
            dict[str, str]: Json(),
            list[str]: Json(),
            list[Any]: Json(),
            list[dict[str, Any]]: Json(),
        }

    return Base


async def open_store(
    location: str, service: str, *, probe: Probe | None = None, inline: bool = False
) -> Store:
    """Open one service's database, made or brought to the newest revision when it is not there.

    `location` is a directory, for the file `<directory>/<service>.sqlite`, or a PostgreSQL URL, of
    whose database the schema named after the service is used. The probe passes
    `store.<service>/commit/before` and `/after` around each commit. `inline` runs SQLite on the
    event loop itself, for tests whose order must not depend on threads. Raises Invalid for another
    URL, Conflict when the database is of a newer release, Unavailable as ever.
    """
    if location.startswith(_POSTGRESQL):
        from mooring.store import postgresql

        return await postgresql.open_store(location, service, probe)
    if "://" in location:
        scheme = location.partition("://")[0]
        raise Invalid(f"The database must be a directory or a postgresql:// URL, not {scheme}://.")
    from mooring.store import sqlite

    return await sqlite.open_store(
        Path(location) / f"{service}.sqlite", service, probe, inline=inline
    )
