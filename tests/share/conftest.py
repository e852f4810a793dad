from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.share.cloud import ShareCloud


@pytest.fixture
async def cloud(tmp_path: Path, anyio_backend: str) -> AsyncIterator[ShareCloud]:
    async with ShareCloud(tmp_path) as opened:
        yield opened
        assert await opened.complaints() == []
