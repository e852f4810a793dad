"""A SQLite file gets its write-ahead log, whoever opens it at the same moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mooring.write_ahead import set_write_ahead


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another process's connection, which is about to write into the file."""
    with closing(sqlite3.connect(tmp_path / "file", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE boats (name TEXT)")
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def open_file(tmp_path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(tmp_path / "file", isolation_level=None))


def test_the_change_waits_for_another_who_writes(
    tmp_path: Path, beside: sqlite3.Connection
) -> None:
    def end_the_other(_pause_s: float) -> None:
        if beside.in_transaction:
            beside.execute("COMMIT")

    with open_file(tmp_path) as connection:
        set_write_ahead(connection, pause=end_the_other)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert not beside.in_transaction


@pytest.mark.usefixtures("beside")
def test_a_file_that_stays_locked_is_said_to_be(tmp_path: Path) -> None:
    with open_file(tmp_path) as connection, pytest.raises(sqlite3.OperationalError, match="locked"):
        set_write_ahead(connection, timeout_s=0.0)


def test_what_no_waiting_mends_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"no database" * 100)
    pauses: list[float] = []
    with open_file(tmp_path) as connection, pytest.raises(sqlite3.DatabaseError, match="not a"):
        set_write_ahead(connection, pause=pauses.append)
    assert not pauses
