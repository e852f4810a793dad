from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.compute import app
from mooring.store.base import open_store
from tests.compute.api.desk import Desk


@pytest.fixture(scope="session")
def blank_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the tables once: a copy of the file costs a tenth of running the migrations."""
    folder = tmp_path_factory.mktemp("blank")

    async def make() -> None:
        await (await open_store(str(folder), "compute")).close()

    asyncio.run(make())
    return folder / "compute.sqlite"


@pytest.fixture
async def desk(tmp_path: Path, blank_database: Path, anyio_backend: str) -> AsyncIterator[Desk]:
    shutil.copy(blank_database, tmp_path)
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
