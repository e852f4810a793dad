from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.placement.cloud import PlacementCloud


@pytest.fixture
async def cloud(tmp_path: Path, anyio_backend: str) -> AsyncIterator[PlacementCloud]:
    async with PlacementCloud(tmp_path) as opened:
        yield opened


@pytest.fixture
async def any_cloud(
    database: str, tmp_path: Path, anyio_backend: str
) -> AsyncIterator[PlacementCloud]:
    """The service on each database, for what must hold where transactions run side by side."""
    async with PlacementCloud(tmp_path, database=database) as opened:
        yield opened
