"""An agent that is killed while a guest is to boot from another disk, or from its own again."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.agent_api.servers import PowerRequest, RescueDisk
from tests.agent.hosts import IMAGE_ID, new_id, operation
from tests.agent.processes import agent_process
from tests.agent.test_kill import killed_at, kind, state_dir

__all__ = ["kind", "state_dir"]
pytestmark = [pytest.mark.anyio, pytest.mark.kill]
POINTS = " ".join(f"set_power/{one}" for one in ("begin", "rescued", "off", "told", "acted"))


async def test_a_rescue_ends_wherever_its_agent_was_killed(state_dir: Path, kind: str) -> None:
    server_id = new_id()
    async with agent_process(state_dir, kind) as agent:
        disk = await agent.host.make_disk()
        before = await agent.host.boot(server_id, [disk])
    rescue = RescueDisk(image_id=IMAGE_ID, is_stable=True)
    for wanted in (rescue, None):
        request = PowerRequest(state="reboot", disks=[disk], rescue=wanted)
        guest = await killed_at(
            state_dir,
            kind,
            POINTS,
            lambda host, named, request=request: host.client.set_power(
                server_id, request, operation=named
            ),
        )
        assert (guest.state, guest.rescue_image_id) == ("running", IMAGE_ID if wanted else "")
        assert [one.device for one in guest.disks] == ["/dev/vdb"]
    assert guest == before
    async with agent_process(state_dir, kind) as agent:
        assert what_is_left(state_dir) == []
        await agent.client.delete_server(server_id, operation=operation())


def what_is_left(state_dir: Path) -> list[Path]:
    """Return the files that a rescue has left."""
    return list(state_dir.rglob("*rescue*"))
