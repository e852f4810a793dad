"""What the compute service's tests stand on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.agent import serving
from mooring.compute.moves.sagas import sending
from tests.compute.cloud import ComputeCloud


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[ComputeCloud]:
    """Compute with volumes, placement and one simulated host."""
    async with ComputeCloud(tmp_path) as opened:
        yield opened


@pytest.fixture
async def any_cloud(tmp_path: Path, database: str) -> AsyncIterator[ComputeCloud]:
    """The same, on each database."""
    async with ComputeCloud(tmp_path, database=database) as opened:
        yield opened


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have guests on their way looked at more often than every 5 s, which is real time here."""
    monkeypatch.setattr(serving, "AGENT_PATIENCE_S", 0.1)
    monkeypatch.setattr(sending, "_LOOK_S", 0.4)
