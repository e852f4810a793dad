"""Databases of trials on PostgreSQL: copied by the server, for each trial."""

from __future__ import annotations

import itertools
from typing import Any

import psycopg
import pytest
from psycopg import sql

from mooring import limits
from tests.laws.trials import Databases, Trials
from tests.postgres import Server, create_database, drop_database

_numbers = itertools.count(1)
PATIENT_S = 3600.0


def be_patient(patch: pytest.MonkeyPatch) -> None:
    """Have stores repeat what was lost for long: no law depends on how fast a machine is."""
    for name in ("STORE_AGAIN_S", "STORE_SETTLE_S"):
        patch.setattr(limits, name, PATIENT_S)


class PostgresDatabases(Databases):
    """One database for each arrangement, and one in use, on a server of the tests."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._prefix = f"laws_{next(_numbers)}"
        self._name = f"{self._prefix}_live"
        self._kept: list[str] = []
        self.live = server.url(self._name)

    def make(self) -> None:
        self._create()

    def keep(self, name: str) -> None:
        kept = f"{self._prefix}_{name}"
        names = sql.Identifier(self._name), sql.Identifier(kept)
        with self._connect() as connection:
            connection.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(*names))
        self._kept.append(kept)

    def copy(self, name: str) -> None:
        self._create(f"{self._prefix}_{name}")

    def remove(self) -> None:
        with self._connect() as connection:
            drop_database(connection, self._name)

    def remove_all(self) -> None:
        """Forget every one."""
        with self._connect() as connection:
            for name in (self._name, *self._kept):
                drop_database(connection, name)

    def _create(self, *template: str) -> None:
        with self._connect() as connection:
            create_database(connection, self._name, *template)

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._server.url("postgres"), autocommit=True)


class PostgresTrials(Trials):
    """Trials on a server of the tests."""

    def __init__(self, server: Server, *, most: int = 0) -> None:
        self._theirs = PostgresDatabases(server)
        super().__init__(databases=self._theirs, most=most)

    def remove(self) -> None:
        """Remove every directory and database."""
        super().remove()
        self._theirs.remove_all()
