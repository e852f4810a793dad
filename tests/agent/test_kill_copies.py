"""An agent that is killed while the copy of a disk begins: its guest goes on."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from mooring.agent.waiting import until_told
from mooring.agent_api.mirrors import SwitchRequest
from mooring.errors import Unavailable
from tests.agent.hosts import BOOT_S, TestHost, new_id, operation
from tests.agent.processes import agent_process
from tests.agent.test_kill import killed_at, kind, state_dir

__all__ = ["kind", "state_dir"]
pytestmark = [pytest.mark.anyio, pytest.mark.kill]
BEGINNING = "begin connected fitted standing started begun acted"
STILL = ("standing", "started")
"""Where the guest stands still."""


async def in_step(host: TestHost, names: tuple[str, str]) -> None:
    async def told() -> bool:
        return (await host.client.mirroring(*names)).in_step

    assert await until_told(told, BOOT_S)


async def test_a_guest_goes_on_wherever_its_agent_was_killed_as_a_copy_began(
    state_dir: Path, kind: str
) -> None:
    kill, server_id = partial(killed_at, state_dir, kind), new_id()
    async with agent_process(state_dir, kind) as agent:
        old, new = await agent.host.make_disk(), await agent.host.make_disk()
        await agent.host.boot(server_id, [old])
        await agent.host.hears(server_id, f"bytes serial={old.volume_id[:20]}")
    names = server_id, old.volume_id
    for point in BEGINNING.split():
        await kill(
            f"mirror_disk/{point}",
            lambda host, named: host.client.mirror_disk(*names, new, operation=named),
        )
        async with agent_process(state_dir, kind) as agent:
            guest = await agent.client.show_server(server_id)
            assert guest is not None
            assert guest.state == "running", point
            await in_step(agent.host, names)
        await kill(
            "stop_mirror/begin stop_mirror/stopped stop_mirror/acted",
            lambda host, named: host.client.stop_mirror(*names, new.attachment_id, operation=named),
        )
    await kill(
        " ".join(f"mirror_disk/{point}" for point in STILL),
        lambda host, named: host.client.mirror_disk(*names, new, operation=named),
    )
    async with agent_process(state_dir, kind) as agent:
        await in_step(agent.host, names)
    switch = SwitchRequest(volume_id=new.volume_id, attachment_id=new.attachment_id)
    disk = await kill(
        "switch_disk/begin switch_disk/switched switch_disk/acted",
        lambda host, named: host.client.switch_disk(*names, switch, operation=named),
    )
    assert disk.volume_id == new.volume_id


@pytest.mark.parametrize("point", STILL)
async def test_the_agent_after_one_that_died_lets_its_guest_go_on(
    state_dir: Path, kind: str, point: str
) -> None:
    server_id = new_id()
    async with agent_process(state_dir, kind, f"agent/mirror_disk/{point}") as agent:
        old, new = await agent.host.make_disk(), await agent.host.make_disk()
        await agent.host.boot(server_id, [old])
        with pytest.raises(Unavailable):
            await agent.client.mirror_disk(server_id, old.volume_id, new, operation=operation())
        await agent.died()
    async with agent_process(state_dir, kind) as agent:
        guest = await agent.client.show_server(server_id)
        assert guest is not None
        assert guest.state == "running"
