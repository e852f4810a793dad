from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.image.cloud import ImageCloud


@pytest.fixture
async def cloud(tmp_path: Path, anyio_backend: str) -> AsyncIterator[ImageCloud]:
    async with ImageCloud(tmp_path) as opened:
        yield opened
