"""Receivers of calls: services on both databases, and an agent."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.store.base import open_store
from tests.fence.receivers import Agent, Receiver, Service

POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.postgres)


async def open_service(request: pytest.FixtureRequest, kind: str, directory: Path) -> Service:
    place = request.getfixturevalue("postgres_url") if kind == "postgresql" else str(directory)
    return Service(await open_store(place, f"fence_{uuid.uuid4().hex[:8]}"))


@pytest.fixture(params=["agent", "sqlite", POSTGRESQL])
async def receiver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Receiver]:
    made: Receiver
    if request.param == "agent":
        made = Agent(tmp_path / "journal.sqlite")
    else:
        made = await open_service(request, request.param, tmp_path)
    yield made
    await made.close()


@pytest.fixture(params=["sqlite", POSTGRESQL])
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Service]:
    made = await open_service(request, request.param, tmp_path)
    yield made
    await made.close()
