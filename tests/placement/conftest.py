from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.store.base import open_store
from tests.placement.office import Office


@pytest.fixture
async def office(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Office]:
    store = await open_store(str(tmp_path), "placement")
    yield Office(store)
    await store.close()
