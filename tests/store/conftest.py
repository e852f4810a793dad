"""A store on each database, with a boat in it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from sqlalchemy import Engine, create_engine, text

from mooring.store import postgresql
from mooring.store.base import Store, open_store
from tests.store import boats

OpenEmpty: TypeAlias = Callable[[str], Engine]
"""Opens the database of a service before its first revision."""


class Points:
    """A probe that does at a point what the test says, and remembers what it passed."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.then: dict[str, Callable[[], None]] = {}

    def at(self, point: str) -> None:
        self.passed.append(point)
        if action := self.then.get(point.split("/", 1)[1]):
            action()


@pytest.fixture
def service() -> str:
    """Return a name that no other test uses, and so a schema of its own."""
    return f"test_{uuid.uuid4().hex[:8]}"


@pytest.fixture
def probe() -> Points:
    return Points()


@pytest.fixture
async def store(location: str, service: str, probe: Points) -> AsyncGenerator[Store]:
    opened = await open_store(location, service, probe=probe)
    await opened.write(boats.build)
    yield opened
    await opened.close()


@pytest.fixture
def open_empty(request: pytest.FixtureRequest, tmp_path: Path, database: str) -> OpenEmpty:
    """Return what opens databases without a table, of the kind that `database` names."""

    def open_one(service: str) -> Engine:
        if database != "postgresql":
            return create_engine(f"sqlite:///{tmp_path / service}.sqlite")
        url: str = request.getfixturevalue("postgres_url")
        engine = postgresql.create_schema_engine(url, service)
        with engine.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA {service}"))
        return engine

    return open_one
