"""Statements compiled once in a process, not once for each database that a test opens.

SQLAlchemy keeps what it has compiled for an engine and its dialect. The product has two engines for
a database, for good; the tests open thousands, and a fifth of their processor time went into
compiling the same statements for each.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy
from sqlalchemy import Engine

from mooring.store import sqlite

_compiled: dict[Any, Any] = {}


def share_statements() -> None:
    """Give every SQLite engine that is made from now on one dialect, and what that has compiled."""
    first = sqlalchemy.create_engine("sqlite+pysqlite://")
    first.connect().close()

    def create_engine(*arguments: Any, **named: Any) -> Engine:
        engine = sqlalchemy.create_engine(*arguments, **named)
        engine.dialect = first.dialect
        engine.update_execution_options(compiled_cache=_compiled)
        return engine

    sqlite.create_engine = create_engine
