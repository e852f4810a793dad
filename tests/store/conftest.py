"""A store on each database, with a boat in it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable

import pytest

from mooring.store.base import Store, open_store
from tests.store import boats


class Points:
    """A probe that does at a point what the test says, and remembers what it passed."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.then: dict[str, Callable[[], None]] = {}

    def at(self, point: str) -> None:
        self.passed.append(point)
        if action := self.then.get(point.split("/", 1)[1]):
            action()


@pytest.fixture
def service() -> str:
    """Return a name that no other test uses, and so a schema of its own."""
    return f"test_{uuid.uuid4().hex[:8]}"


@pytest.fixture
def probe() -> Points:
    return Points()


@pytest.fixture
async def store(location: str, service: str, probe: Points) -> AsyncGenerator[Store]:
    opened = await open_store(location, service, probe=probe)
    await opened.write(boats.build)
    yield opened
    await opened.close()
