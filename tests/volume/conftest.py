from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.volume.cloud import VolumeCloud


@pytest.fixture
async def cloud(tmp_path: Path, anyio_backend: str) -> AsyncIterator[VolumeCloud]:
    async with VolumeCloud(tmp_path) as opened:
        yield opened
