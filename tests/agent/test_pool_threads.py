"""Calls that hang in one pool's storage keep neither other pools nor the host waiting."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from mooring.agent import pool_threads
from mooring.agent.app import open_agent
from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.limits import AGENT_POOL_THREADS
from mooring.agent.qemu_img import QemuImg
from mooring.agent.run import Runner
from mooring.agent.settings import AgentSettings, PoolSettings
from mooring.agent_api.client import Agents
from mooring.errors import Unavailable
from mooring.fence.threads import run_to_end
from tests.agent.hosts import new_id

pytestmark = pytest.mark.anyio


async def test_another_pool_and_the_host_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_threads, "AGENT_POOL_ANSWER_S", 0.0)
    pools = tuple(PoolSettings(name=name, path=name) for name in ("gone", "good"))
    settings = AgentSettings(name="h", state_dir=tmp_path, hypervisor="simulated", pools=pools)
    back, begun = threading.Event(), threading.Semaphore(0)

    class Dead(DirectoryDriver):
        """On a hard mount whose server is gone: threads stay in the kernel."""

        def _find(self, volume_id: str) -> None:
            begun.release()
            back.wait()

    async with open_agent(settings) as running:
        good = running.agent.drivers["good"]
        dead = Dead(pools[0], tmp_path / "gone", "h", QemuImg(Runner(running.agent.journal)))
        running.agent.drivers["gone"] = dead
        stuck = [asyncio.ensure_future(dead.find("v1")) for _ in range(AGENT_POOL_THREADS)]
        try:
            for _ in stuck:
                await run_to_end(begun.acquire)
            with pytest.raises(Unavailable, match="pool gone does not answer"):
                await dead.find("v1")
            assert await good.find(new_id()) is None
            host = await Agents().in_process("h", running.app).host()
            assert [bool(pool.problem) for pool in host.pools] == [True, False]
        finally:
            back.set()
            await asyncio.gather(*stuck)
        await dead.close()
