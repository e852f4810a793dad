"""What a database that fails says, turned into the kinds of error that the rest of Mooring knows.

A broken constraint stays SQLAlchemy's IntegrityError: only the rule that wrote the row knows what
it means to the user.
"""

from __future__ import annotations

import sqlite3
from http import HTTPStatus

from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from mooring.errors import Bug, Invalid, MooringError, Unavailable

_RETRY = "Ask again; if it stays so, tell the operator."
OF_FILE = (
    "What was to change in its tables is changed wholly or not at all. See that no other process "
    "has it, that this user may write it and that its disk has room, then give this command again."
)
"""What is said of a file that does not open, behind why."""
_SQLITE_FULL = sqlite3.SQLITE_FULL
_MISSED = "no such table: "
_SQLITE: dict[int, str] = {
    sqlite3.SQLITE_BUSY: "another process holds the database file",
    sqlite3.SQLITE_LOCKED: "another process holds the database file",
    sqlite3.SQLITE_READONLY: "the database file is read-only",
    sqlite3.SQLITE_IOERR: "the disk under the database file failed",
    sqlite3.SQLITE_CORRUPT: "the database file is damaged",
    sqlite3.SQLITE_CANTOPEN: "the database file cannot be opened",
    sqlite3.SQLITE_NOTADB: "the database file is not a database",
    sqlite3.SQLITE_NOMEM: "the machine is out of memory",
    sqlite3.SQLITE_INTERRUPT: "the work on the database was interrupted",
}
# Classes of SQLSTATE that say "not now": lost connections, rolled back for another transaction,
# out of resources, ended by an operator, failed system.
_POSTGRESQL_CLASSES = {"08", "40", "53", "55", "57", "58"}
_POSTGRESQL_DISK_FULL = "53100"
_POSTGRESQL_READ_ONLY = "25006"
_POSTGRESQL_PATTERN = "2201B"


class FlushLostError(Exception):
    """A session failed to write its objects inside a `savepoint`, and lost all of its transaction.

    The store runs the call again with savepoints that the session knows of.
    """


class NoRoom(Unavailable):
    """The disk below the database is full. Nothing was changed, and it passes as others do.

    It is no NoCapacity: services answer that as a refusal for good, and an operation ends by it.
    A service's door answers 507: docs/adr/0016-a-full-database-is-507.md.
    """


def full(private: str) -> NoRoom:
    """Return the error for a disk without room."""
    return NoRoom(
        "The database has no room left on its disk; nothing was changed. "
        "Ask again once the operator has made room.",
        private=private,
        status=HTTPStatus.INSUFFICIENT_STORAGE.value,
    )


def translate(error: BaseException, *, reading: bool = False) -> MooringError | None:
    """Return a database's failure as Unavailable; None for errors of the caller's.

    Whoever writes while `reading` has made a mistake, which asking again will not mend: Bug.
    """
    if reading and _wrote(error):
        return Bug("An internal error occurred.", private=f"a read tried to write: {error}")
    if isinstance(error, PoolTimeoutError):
        return Unavailable(f"The database is too busy. {_RETRY}", private=str(error))
    if isinstance(error, sqlite3.Error):
        return _from_sqlite(error)
    if not isinstance(error, DBAPIError) or isinstance(error, IntegrityError):
        return None
    if isinstance(error.orig, sqlite3.Error):
        return _from_sqlite(error.orig)
    return _from_postgresql(error)


def at_start(error: Exception, what: str, then: str) -> Exception:
    """Return what ends the opening of a database, told to the operator who has started that.

    `what` says which database it is and begins the message, before why; `then` says how it stands
    now and what to do, and ends it. What is no failure of a database is returned as it is.
    """
    found = translate(error)
    if not isinstance(found, Unavailable):
        return found or error
    why = " ".join(str(getattr(error, "orig", None) or error).split())
    return type(found)(f"{what}: {why}. {then}", private=found.private)


def is_of_database(error: BaseException) -> bool:
    """Whether the transaction is lost whatever its function does: database or flush failed."""
    return isinstance(error, FlushLostError) or translate(error) is not None


def may_pass(error: BaseException) -> bool:
    """Whether a transaction that ended so may be run again at once, with better luck.

    What is already one of our own errors is an answer, not a failure. A disk stays full for longer
    than that.
    """
    found = translate(find_reason(error))
    return isinstance(found, Unavailable) and not isinstance(found, NoRoom)


def find_reason(error: BaseException) -> BaseException:
    """Return why a transaction was lost: a full disk shows first as a missing savepoint."""
    link: BaseException | None = None if isinstance(error, MooringError) else error
    while link is not None:
        if translate(link) is not None:
            return link
        link = link.__cause__ or link.__context__
    return error


def _wrote(error: BaseException) -> bool:
    driver = error.orig if isinstance(error, DBAPIError) else None
    if isinstance(driver, sqlite3.Error):
        return driver.sqlite_errorcode == sqlite3.SQLITE_READONLY
    return getattr(driver, "sqlstate", None) == _POSTGRESQL_READ_ONLY


def _from_sqlite(error: sqlite3.Error) -> MooringError | None:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    private = f"{getattr(error, 'sqlite_errorname', 'sqlite')}: {error}"
    if code == _SQLITE_FULL:
        return full(private)
    why = _SQLITE.get(code)
    if code == sqlite3.SQLITE_ERROR and str(error).startswith(_MISSED):
        # All were there when the file was opened. SQLite misses each while it cannot read which
        # there are, as where a full disk has no room for what its readers share.
        why = "its tables could not be read"
    if why is None:
        return None
    return Unavailable(f"The database did not answer. {_RETRY}", private=f"{why}: {private}")


def _from_postgresql(error: DBAPIError) -> MooringError | None:
    state = str(getattr(error.orig, "sqlstate", None) or "")
    private = f"{state or type(error.orig).__name__}: {error.orig}"
    if state == _POSTGRESQL_DISK_FULL:
        return full(private)
    if state == _POSTGRESQL_PATTERN:
        return Invalid("The pattern is none that the database takes. Change it.", private=private)
    lost = error.connection_invalidated or (
        not state and isinstance(error, (OperationalError, InterfaceError))
    )
    if lost or state[:2] in _POSTGRESQL_CLASSES:
        return Unavailable(f"The database did not answer. {_RETRY}", private=private)
    return None
