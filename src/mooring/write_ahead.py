"""How a SQLite file becomes one that is read while it is written: its write-ahead log.

The mode stays in the file, so only who opens it first changes it. That change takes SQLite's locks
in an order in which it does not wait: beside another who is about to write, it fails at once,
whatever the connection's timeout is.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from mooring import limits

_PAUSE_S = 0.005


def set_write_ahead(
    connection: sqlite3.Connection,
    timeout_s: float = limits.STORE_BUSY_TIMEOUT_S,
    *,
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Give the file of `connection` a write-ahead log, beside others who do so now.

    Raises:
        sqlite3.OperationalError: the file stayed locked for `timeout_s` seconds, or cannot be
            written.
    """
    until = time.monotonic() + timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            pause(_PAUSE_S)
        else:
            return
