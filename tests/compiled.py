"""Statements compiled once in a process, not once for each database that a test opens.

SQLAlchemy keeps what it has compiled for an engine and its dialect. The product has one or two
engines for a database, for good; the tests open thousands, and a fifth of their processor time went
into compiling the same statements for each.
"""

from __future__ import annotations

from typing import Any, cast

import sqlalchemy
from sqlalchemy import Dialect, Engine
from sqlalchemy.exc import DBAPIError

from mooring.store import postgresql, sqlite

_compiled: dict[Any, Any] = {}
_of_schemas: dict[str, Dialect] = {}
"""What is known of PostgreSQL, by schema: a dialect remembers in which one it stands."""


def share_statements() -> None:
    """Give every engine that is made from now on one dialect, and what that has compiled."""
    first = sqlalchemy.create_engine("sqlite+pysqlite://")
    first.connect().close()
    create = postgresql.create_schema_engine

    def create_engine(*arguments: Any, **named: Any) -> Engine:
        return _share(sqlalchemy.create_engine(*arguments, **named), first.dialect)

    def create_schema_engine(location: str, schema: str) -> Engine:
        return _share_of_schema(create(location, schema), schema)

    sqlite.create_engine = create_engine
    postgresql.create_schema_engine = create_schema_engine


def _share_of_schema(engine: Engine, schema: str) -> Engine:
    if schema not in _of_schemas:
        try:
            engine.connect().close()
        except DBAPIError:
            # A database that is away is the test's matter.
            return engine
        if engine.dialect.default_schema_name != schema:
            # Not made yet.
            return engine
        _of_schemas[schema] = engine.dialect
    else:
        # A new dialect asks what is known already, over the engine's first connection.
        cast("Any", engine.dialect).initialize = _ask_nothing
    return _share(engine, _of_schemas[schema])


def _share(engine: Engine, dialect: Dialect) -> Engine:
    engine.dialect = dialect
    engine.update_execution_options(compiled_cache=_compiled)
    return engine


def _ask_nothing(_connection: object) -> None:
    """Learn nothing of a database."""
