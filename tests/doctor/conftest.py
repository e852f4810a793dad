"""A simulated cloud for the doctor to look at."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.cloud import SimulatedCloud


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncGenerator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path) as opened:
        yield opened
