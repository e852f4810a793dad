"""The doctor compares as long as there are rows, and whoever asks for something else goes on."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from mooring.doctor import examine
from mooring.doctor.books import Books
from mooring.doctor.findings import Finding
from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio
_PATIENCE_S = 20.0


async def test_requests_are_answered_while_it_compares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, answered = threading.Event(), threading.Event()
    waited: list[bool] = []

    def compare(found: Books) -> list[Finding]:
        del found
        begun.set()
        waited.append(answered.wait(_PATIENCE_S))
        return []

    async with SimulatedCloud(tmp_path, hosts=()) as cloud:
        monkeypatch.setattr(examine, "_LOOKS", (compare,))
        looking = asyncio.create_task(
            examine.look(cloud.every_store(), cloud.known_agents, cloud.clock, cloud.settings)
        )
        await asyncio.to_thread(begun.wait, _PATIENCE_S)
        assert (await cloud.ask("GET", "/volume/v3/volumes")).status == 200
        answered.set()
        assert await looking == set()
    assert waited == [True]
