"""What every test may use."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio, the only loop that Mooring runs on."""
    return "asyncio"
