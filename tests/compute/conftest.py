"""What the compute service's tests stand on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.compute.cloud import ComputeCloud


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[ComputeCloud]:
    """Compute with volumes, placement and one simulated host."""
    async with ComputeCloud(tmp_path) as opened:
        yield opened
