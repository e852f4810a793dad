"""A service's database with an outbox in it: on each kind of database."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator

import pytest

from mooring.clock import SimulatedClock
from mooring.store.base import Store, open_store


@pytest.fixture
def service() -> str:
    """A name that no other test uses, and so a schema of its own."""
    return f"test_{uuid.uuid4().hex[:8]}"


@pytest.fixture
async def store(location: str, service: str) -> AsyncGenerator[Store]:
    opened = await open_store(location, service)
    yield opened
    await opened.close()


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()
