from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.compute import app
from tests.compute.api.desk import Desk
from tests.migrated import open_store


@pytest.fixture
async def desk(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Desk]:
    store = await open_store(str(tmp_path), "compute")
    desk = Desk(store)
    await desk.compute.sagas.open()
    await app.SERVICE.prepare(desk.compute)
    yield desk
    await store.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def any_desk(
    request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Desk]:
    """Serve the same on each database."""
    on_sqlite = request.param == "sqlite"
    location = str(tmp_path) if on_sqlite else request.getfixturevalue("postgres_url")
    store = await open_store(location, "compute")
    desk = Desk(store)
    await desk.compute.sagas.open()
    await app.SERVICE.prepare(desk.compute)
    yield desk
    await store.close()
