"""News of a host, to whoever asks for what came after a number."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mooring.agent.app import open_agent
from mooring.agent.settings import AgentSettings
from mooring.agent_api.client import Agents

pytestmark = pytest.mark.anyio
_HOUR_NS = 3600 * 10**9


async def test_an_agent_whose_clock_was_set_back_has_news_for_who_knew_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = AgentSettings(name="h", state_dir=tmp_path, hypervisor="simulated")
    agents = Agents()
    async with open_agent(settings) as running:
        agents.in_process("h", running.app)
        seen = await agents["h"].events(0, 0)
    now_ns = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now_ns - _HOUR_NS)
    async with open_agent(settings) as running:
        agents.in_process("h", running.app)
        later = await agents["h"].events(seen.last, 0)
        assert [event.kind for event in later.events] == ["agent_started"]
        assert later.last < seen.last
        assert (await agents["h"].events(later.last, 0)).events == []
    await agents.close()
