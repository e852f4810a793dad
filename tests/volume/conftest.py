from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.volume.dock import Dock


@pytest.fixture
async def dock(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Dock]:
    opened = Dock(tmp_path)
    await opened.open()
    yield opened
    await opened.close()
