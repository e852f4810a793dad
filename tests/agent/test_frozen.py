"""An agent that is frozen, as by SIGSTOP: it is known as silent, and goes on when it is thawed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.agent.waiting import until
from mooring.agent_api.volumes import VolumeSpec
from mooring.errors import Unavailable
from tests.agent.hosts import new_id, operation
from tests.agent.processes import AgentProcess, agent_process

pytestmark = pytest.mark.anyio
SOON_S = 0.2
VOLUME = VolumeSpec(pool="local", size_gib=1)


@contextmanager
def frozen(agent: AgentProcess) -> Generator[None]:
    """Let the process stand still meanwhile."""
    os.kill(agent.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(agent.process.pid, signal.SIGCONT)


def stands_still(agent: AgentProcess) -> bool:
    stat = Path(f"/proc/{agent.process.pid}/stat").read_text("ascii")
    return stat.rpartition(")")[2].split()[0] == "T"


async def test_a_frozen_agent_is_silent_and_does_once_what_it_was_asked(tmp_path: Path) -> None:
    volume_id, named = new_id(), operation()
    async with agent_process(tmp_path, "simulated") as agent:
        client, door = agent.client, agent.client.door
        with frozen(agent):
            assert await until(lambda: stands_still(agent), 30)
            with pytest.raises(Unavailable):
                await client.put_volume(volume_id, VOLUME, operation=named, timeout_s=SOON_S)
            assert door.silent_since is not None
            asking = asyncio.create_task(client.host())
            await asyncio.wait({asking}, timeout=SOON_S)
            assert not asking.done()
        assert (await asking).name == "host-1"
        assert door.silent_since is None
        made = await client.put_volume(volume_id, VOLUME, operation=named)
        assert made.size_gib == 1
        assert [one.volume_id for one in (await client.inventory()).volumes] == [volume_id]
