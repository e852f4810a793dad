"""The driver's own connection behind a session's transaction, for those who go past SQLAlchemy."""

from __future__ import annotations

from typing import Any, cast

from msgspec import Struct
from sqlalchemy import Connection, Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, SessionTransaction

_LINK = "mooring.link"


class Link(Struct, frozen=True):
    """A connection that has begun, as long as the savepoint of SQLAlchemy's is the same."""

    nested: SessionTransaction | None
    connection: Connection
    driver: Any
    dialect: Dialect


def set_link(tx: Session, connection: Connection) -> None:
    """Tell a session of the connection that it works on, whose transaction has begun."""
    driver = connection.connection.driver_connection
    tx.info[_LINK] = Link(None, connection, driver, connection.dialect)


def link_of(tx: Session) -> Link:
    """Return the connection of a transaction that goes on. Raises SQLAlchemy's errors if not."""
    link: Link | None = tx.info.get(_LINK)
    if link is not None and link.nested is tx.get_nested_transaction() and tx.is_active:
        return link
    # This begins what the session has only promised: the transaction, and each savepoint in it.
    connection = tx.connection()
    driver = connection.connection.driver_connection
    nested = tx.get_nested_transaction()
    link = tx.info[_LINK] = Link(nested, connection, driver, connection.dialect)
    return link


def execute(link: Link, sql: str, arguments: Any = ()) -> Any:
    """Run a statement at the driver and return its cursor. Raises SQLAlchemy's errors."""
    cursor = None
    try:
        # A connection that was lost gives no cursor either.
        cursor = link.driver.cursor()
        cursor.execute(sql, arguments)
    except Exception as error:
        raise _as_sqlalchemy(error, sql, link, cursor) from error
    return cursor


def _as_sqlalchemy(error: Exception, sql: str, link: Link, cursor: Any) -> BaseException:
    """Return a driver's error as SQLAlchemy's own, and give up a connection that is lost."""
    dialect = cast("Any", link.dialect)
    if not isinstance(error, dialect.dbapi.Error):
        return error
    is_lost = dialect.is_disconnect(error, link.driver, cursor)
    if is_lost:
        link.connection.invalidate(error)
    return DBAPIError.instance(
        sql,
        None,
        error,
        dialect.dbapi.Error,
        hide_parameters=True,
        connection_invalidated=is_lost,
        dialect=dialect,
    )
