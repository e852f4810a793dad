"""A host with a volume whose record is damaged, by the verbs of its agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.agent.app import open_agent
from mooring.agent.settings import AgentSettings, PoolSettings
from mooring.agent_api.client import Agents
from mooring.agent_api.volumes import VolumeSpec
from mooring.errors import Unavailable
from tests.agent.hosts import new_id, operation

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]


async def test_a_damaged_volume_is_told_by_its_host_and_can_be_deleted(tmp_path: Path) -> None:
    two = tmp_path / "two"
    pools = (PoolSettings(name="one"), PoolSettings(name="two", path=str(two)))
    settings = AgentSettings(
        name="h", state_dir=tmp_path, hypervisor="simulated", roles=("volume",), pools=pools
    )
    async with open_agent(settings) as running:
        client, whole, damaged = Agents().in_process("h", running.app), new_id(), new_id()
        for volume_id in (whole, damaged):
            spec = VolumeSpec(pool="two", size_gib=1)
            await client.put_volume(volume_id, spec, operation=operation())
        record = two / ".mooring" / f"volume-{damaged}.json"
        record.write_bytes(b"")
        inventory = await client.inventory()
        problems = {one.volume_id: one.problem for one in inventory.volumes}
        assert problems[whole] == ""
        assert f"{record} is damaged" in problems[damaged]
        assert (inventory.unread_pools, inventory.leftovers) == ([], [])
        with pytest.raises(Unavailable, match=f"{record} is damaged"):
            await client.show_volume(damaged)
        await client.delete_volume(damaged, operation=operation())
        assert [one.volume_id for one in (await client.inventory()).volumes] == [whole]
        assert await client.show_volume(damaged) is None
