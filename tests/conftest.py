"""What every test may use."""

from __future__ import annotations

# Imported first: pytest rewrites it on import, and CPython 3.11's parser fails when the garbage
# collector runs finalizers meanwhile, as it may once tests have left sockets and tasks behind.
import hypothesis
import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio, the only loop that Mooring runs on."""
    return "asyncio"


hypothesis.settings.register_profile("mooring", deadline=None)
hypothesis.settings.load_profile("mooring")
