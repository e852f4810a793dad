"""An agent that is killed while a guest is to stand still, or to go on: the next one ends it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from mooring.agent_api.disks import DiskSpec
from mooring.agent_api.servers import PowerRequest
from tests.agent.hosts import new_id, operation
from tests.agent.processes import agent_process
from tests.agent.test_kill import killed_at, kind, state_dir

__all__ = ["kind", "state_dir"]
pytestmark = [pytest.mark.anyio, pytest.mark.kill]
Word = Literal["pause", "unpause", "suspend", "resume"]
STEPS: list[tuple[Word, str, str]] = [
    ("pause", "begin acted", "paused"),
    ("unpause", "begin acted", "running"),
    ("suspend", "begin acted", "suspended"),
    ("resume", "begin connected acted", "running"),
]
"""What is asked, the points of it at which the agent is killed, and what comes of it."""
UP = "mooring-guest: up"
"""What a guest says once in its life."""


async def test_a_guest_keeps_its_memory_wherever_its_agent_was_killed(
    state_dir: Path,
    kind: str,
) -> None:
    server_id = new_id()
    async with agent_process(state_dir, kind) as agent:
        disk: DiskSpec = await agent.host.make_disk()
        await agent.host.boot(server_id, [disk])
        await agent.host.hears(server_id, f"bytes serial={disk.volume_id[:20]}")
    for word, points, state in STEPS:
        disks = [disk] if word == "resume" else None
        request = PowerRequest(state=word, disks=disks)
        guest = await killed_at(
            state_dir,
            kind,
            " ".join(f"set_power/{point}" for point in points.split()),
            lambda host, named, request=request: host.client.set_power(
                server_id, request, operation=named
            ),
        )
        assert (guest.state, [one.device for one in guest.disks]) == (state, ["/dev/vdb"])
    async with agent_process(state_dir, kind) as agent:
        await agent.client.unplug_disk(server_id, disk.volume_id, operation=operation())
        said = await agent.host.hears(server_id, "disk vdb gone")
        assert said.count(UP) == 1


@pytest.mark.hosts
@pytest.mark.parametrize("kind", ["libvirt"], indirect=True)
async def test_memory_that_was_left_behind_of_a_running_guest_is_forgotten(
    state_dir: Path,
    kind: str,
) -> None:
    server_id = new_id()
    async with agent_process(state_dir, kind) as agent:
        await agent.host.boot(server_id)
        suspend = PowerRequest(state="suspend")
        await agent.client.set_power(server_id, suspend, operation=operation())
        saved = memory_of(state_dir, server_id)
        kept = saved.read_bytes()
        resume = PowerRequest(state="resume")
        await agent.client.set_power(server_id, resume, operation=operation())
        assert not saved.exists()
    # As an agent leaves it that dies just after the guest ran again.
    saved.write_bytes(kept)
    async with agent_process(state_dir, kind) as agent:
        assert not saved.exists()
        guest = await agent.client.show_server(server_id)
        assert guest is not None
        assert guest.state == "running"


def memory_of(state_dir: Path, server_id: str) -> Path:
    """Return the file in which libvirt keeps the memory of a suspended guest."""
    (saved,) = state_dir.rglob(f"*{server_id}.save")
    return saved
