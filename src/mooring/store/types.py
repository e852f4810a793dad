"""Column types that mean the same on SQLite and on PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import CHAR, BigInteger, DateTime, Integer, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

_SQLITE_LENGTH = len("2026-01-01T00:00:00.000000")

INTEGER = BigInteger().with_variant(Integer(), "sqlite")
"""A whole number of 64 bits on both; SQLite numbers rows by itself only under this name."""


class UtcTime(TypeDecorator[datetime]):
    """An aware datetime in UTC, both ways.

    PostgreSQL keeps `timestamp with time zone`. SQLite keeps ISO 8601 text of one width, so that
    it sorts by time and an operator can read it. A naive datetime raises ValueError.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(CHAR(_SQLITE_LENGTH))
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a time without a zone reached the database: {value!r}")
        moment = value.astimezone(UTC)
        if dialect.name == "sqlite":
            return moment.replace(tzinfo=None).isoformat(timespec="microseconds")
        return moment

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if dialect.name == "sqlite":
            return datetime.fromisoformat(value + "+00:00")
        return value.astimezone(UTC)


class Json(TypeDecorator[Any]):
    """Plain data (or a msgspec Struct, which comes back as plain data), kept as JSON text.

    None is NULL. A change inside the value is not noticed: assign a new value instead.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else msgspec.json.encode(value).decode()

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else msgspec.json.decode(value)
