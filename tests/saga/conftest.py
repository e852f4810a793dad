"""Where the shop keeps its books: on each database."""

from __future__ import annotations

from pathlib import Path

import pytest

DATABASES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


@pytest.fixture(params=DATABASES)
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A directory for SQLite, or the URL of a fresh PostgreSQL database."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return str(tmp_path)
