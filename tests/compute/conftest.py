"""What the compute service's tests stand on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.compute.yard import Yard


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    """Compute with volumes, placement and one simulated host."""
    opened = Yard(tmp_path)
    await opened.open()
    yield opened
    await opened.close()
