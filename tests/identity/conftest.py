from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.identity.cloud import IdentityCloud


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncGenerator[IdentityCloud]:
    async with IdentityCloud(tmp_path) as opened:
        yield opened
