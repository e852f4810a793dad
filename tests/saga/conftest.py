"""Where the shop keeps its books: on each database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.saga.laws import LawProbe
from tests.saga.shop import Desk, Ledger

DATABASES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


@pytest.fixture(params=DATABASES)
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A directory for SQLite, or the URL of a fresh PostgreSQL database."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return str(tmp_path)


@pytest.fixture
async def desk(location: str) -> AsyncIterator[Desk]:
    """A shop with one order, "o1"."""
    made = Desk(location, Ledger(), LawProbe())
    await made.open()
    await made.add("o1")
    yield made
    await made.close()
