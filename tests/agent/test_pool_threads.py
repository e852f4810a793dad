"""Calls that hang in one pool's storage keep neither other pools nor the host waiting."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from mooring.agent import pool_threads
from mooring.agent.app import open_agent
from mooring.agent.drivers.base import SourceImage
from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.limits import AGENT_POOL_THREADS
from mooring.agent.qemu_img import QemuImg
from mooring.agent.run import Runner
from mooring.agent.settings import AgentSettings, PoolSettings
from mooring.agent_api.client import Agents
from mooring.agent_api.volumes import VolumeFile
from mooring.errors import Unavailable
from mooring.fence.journal import Journal
from mooring.fence.threads import run_to_end
from tests.agent.hosts import new_id
from tests.agent.places import place

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
        qemu_img = QemuImg(Runner(running.agent.journal))
        dead = Dead(pools[0], place(tmp_path / "gone"), qemu_img)
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


class Slow(QemuImg):
    """Begins a copy, and ends it when it may."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(Runner(journal))
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def convert(
        self, source: tuple[Path, str], target: tuple[Path, str], *, operation_key: str = ""
    ) -> None:
        target[0].write_bytes(bytes(512))
        self.begun.set()
        await self.may_end.wait()
        await super().convert(source, target, operation_key=operation_key)


async def test_how_far_a_copy_is_keeps_nobody_waiting(
    tmp_path: Path, image: SourceImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = AgentSettings(name="h", state_dir=tmp_path / "h", hypervisor="simulated")
    async with open_agent(settings) as running:
        slow = Slow(running.agent.journal)
        driver = DirectoryDriver(PoolSettings(), place(tmp_path / "pool"), slow)
        await driver.setup()
        running.agent.drivers[driver.pool.name] = driver
        volume_id, client = new_id(), Agents().in_process("h", running.app)
        wanted = VolumeFile(volume_id=volume_id, pool=driver.pool.name, size_gib=1, format="raw")
        making = asyncio.create_task(driver.create(wanted, image, "op"))
        await slow.begun.wait()
        asked = threads_that_look_at(tmp_path / "pool", monkeypatch)
        assert (await client.show_copying(volume_id)).percent is not None
        assert asked
        assert threading.current_thread() not in asked
        slow.may_end.set()
        await making
        assert (await client.show_copying(volume_id)).percent is None
        await driver.close()


async def test_a_volume_whose_file_is_looked_for_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pool" / "volume"
    file.parent.mkdir()
    file.write_bytes(bytes(512))
    data = {"device_path": str(file), "format": "raw"}
    settings = AgentSettings(name="h", state_dir=tmp_path / "h", hypervisor="simulated")
    async with open_agent(settings) as running:
        asked = threads_that_look_at(file.parent, monkeypatch)
        connections = running.agent.connections
        await connections.connect("a1", "v1", {"driver_volume_type": "local", "data": data})
    assert asked
    assert threading.current_thread() not in asked


def threads_that_look_at(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> list[threading.Thread]:
    """Note from now on who asks for what is in a directory."""
    asked, stat = list[threading.Thread](), Path.stat

    def note(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.parent == directory:
            asked.append(threading.current_thread())
        return stat(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", note)
    return asked
