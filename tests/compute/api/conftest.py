from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.compute.api.cloud import ComputeAlone


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[ComputeAlone]:
    async with ComputeAlone(tmp_path) as opened:
        yield opened


@pytest.fixture
async def any_cloud(database: str, tmp_path: Path) -> AsyncIterator[ComputeAlone]:
    """Serve the same on each database."""
    async with ComputeAlone(tmp_path, database=database) as opened:
        yield opened
