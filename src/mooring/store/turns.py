"""One after the other, by a name: transactions that have no row in common to lock."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from sqlalchemy import func, select

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


def take_turn(tx: Session, name: str) -> None:
    """Wait for whoever else took the turn of this name, and keep it until the transaction ends.

    SQLite has one writer anyway. Names of different services meet in one PostgreSQL: two that
    come to the same number wait for each other without need.
    """
    if tx.get_bind().dialect.name == "postgresql":
        key = zlib.crc32(f"mooring.{name}".encode())
        tx.execute(select(func.pg_advisory_xact_lock(key)))
