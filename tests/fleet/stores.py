"""A fleet on both databases, on a clock that tests turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring.store.base import Store, open_store

BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


@asynccontextmanager
async def open_fleet_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    """The store of a fleet, on the database that the fixture is parametrized with."""
    is_sqlite = request.param == "sqlite"
    place = str(tmp_path) if is_sqlite else request.getfixturevalue("postgres_url")
    opened = await open_store(place, "fleet")
    yield opened
    await opened.close()
