"""Databases of trials on PostgreSQL: copied by the server, for each trial."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import sql

from mooring import limits
from mooring.store.postgresql import PostgresqlStore
from tests.laws.sites import Scenario, Trial
from tests.laws.trials import Databases, Trials
from tests.postgres import Server, create_database

_numbers = itertools.count(1)
PATIENT_S = 3600.0
"""In place of how long a store repeats what was lost: no law depends on how fast a machine is."""


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
        self._do("ALTER DATABASE {} RENAME TO {}", self._name, kept)
        self._kept.append(kept)

    def copy(self, name: str) -> None:
        self._create(f"{self._prefix}_{name}")

    def remove(self) -> None:
        self._do("DROP DATABASE IF EXISTS {} WITH (FORCE)", self._name)

    def remove_all(self) -> None:
        """Forget every one."""
        for name in (self._name, *self._kept):
            self._do("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def _create(self, *template: str) -> None:
        with psycopg.connect(self._server.url("postgres"), autocommit=True) as connection:
            create_database(connection, self._name, *template)

    def _do(self, command: LiteralString, *names: str) -> None:
        with psycopg.connect(self._server.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL(command).format(*map(sql.Identifier, names)))


class Asked:
    """How many transactions PostgreSQL was asked for that have not ended."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._count = 0
        for name in ("write", "read"):
            patch.setattr(PostgresqlStore, name, self._counted(getattr(PostgresqlStore, name)))
        for name in ("STORE_AGAIN_S", "STORE_SETTLE_S"):
            patch.setattr(limits, name, PATIENT_S)

    def __call__(self) -> bool:
        return self._count > 0

    def _counted(self, ask: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counted(*arguments: Any) -> Any:
            self._count += 1
            try:
                return await ask(*arguments)
            finally:
                self._count -= 1

        return counted


class PostgresTrials(Trials):
    """Trials on a server of the tests, whose clock stands while it owes an answer."""

    def __init__(self, server: Server, asked: Asked, *, most: int = 0) -> None:
        self._theirs = PostgresDatabases(server)
        super().__init__(databases=self._theirs, most=most)
        self._asked = asked

    def remove(self) -> None:
        """Remove every directory and database."""
        super().remove()
        self._theirs.remove_all()

    async def _open(self, scenario: Scenario) -> Trial:
        trial = await super()._open(scenario)
        trial.cloud.pace.is_awaited = self._asked
        return trial
