"""Agents' journals that a test reaches below: a journal opens its SQLite file by itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FILE = "journal.sqlite"


class JournalConnection(sqlite3.Connection):
    """A journal's connection, which tells before it commits."""

    before_commit: Callable[[], None] | None = None

    def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
        if statement == "COMMIT" and self.before_commit is not None:
            self.before_commit()
        return super().execute(statement, *parameters)


class Journals:
    """The journals that were opened while they were watched."""

    def __init__(self) -> None:
        self.opened: list[JournalConnection] = []
        self.before_commit: Callable[[str], None] | None = None
        """Called before each commit with the name of the journal's directory, in its thread."""

    def take(self, connection: JournalConnection, path: Path) -> None:
        """Watch a connection."""
        self.opened.append(connection)
        connection.before_commit = lambda: self._tell(path.parent.name)

    def _tell(self, name: str) -> None:
        if self.before_commit is not None:
            self.before_commit(name)


@contextmanager
def watching() -> Generator[Journals]:
    """Watch all journals that are opened meanwhile; other files open as ever."""
    journals, connect = Journals(), sqlite3.connect

    def open_watched(path: Any, *given: Any, **settings: Any) -> sqlite3.Connection:
        if Path(path).name != FILE:
            return connect(path, *given, **settings)
        made = connect(path, *given, factory=JournalConnection, **settings)
        journals.take(made, Path(path))
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", open_watched)
        yield journals
