from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.migrated import open_store
from tests.placement.office import Office


@pytest.fixture
async def office(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Office]:
    store = await open_store(str(tmp_path), "placement")
    yield Office(store)
    await store.close()


DATABASES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


@pytest.fixture(params=DATABASES)
async def office_anywhere(
    request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Office]:
    """The service on each database, for what must hold where transactions run side by side."""
    location = str(tmp_path)
    if request.param == "postgresql":
        location = request.getfixturevalue("postgres_url")
    store = await open_store(location, "placement")
    yield Office(store)
    await store.close()
