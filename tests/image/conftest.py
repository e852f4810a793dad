from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.image.gallery import Gallery
from tests.migrated import open_store


@pytest.fixture
async def gallery(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Gallery]:
    store = await open_store(str(tmp_path), "image")
    yield Gallery(store, tmp_path / "images")
    await store.close()
