"""A host with records that are damaged, or that its disk does not give, by its agent's verbs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.agent import files
from mooring.agent.app import open_agent
from mooring.agent.connections import ConnectionRecord
from mooring.agent.settings import AgentSettings, PoolSettings
from mooring.agent_api.client import Agents
from mooring.agent_api.disks import Connected
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


async def test_a_connection_that_cannot_be_read_hides_nothing_else_of_its_host(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "connections"
    directory.mkdir()
    seen = Connected(attachment_id="a1", volume_id="v1", path="/v1", format="raw")
    files.write_record(directory / "a1.json", ConnectionRecord(connected=seen))
    # The memory of this process, of which nothing is at its beginning: who reads it gets EIO.
    (directory / "a2.json").symlink_to("/proc/self/mem")
    (directory / "a3.json").write_bytes(b"{")
    settings = AgentSettings(name="h", state_dir=tmp_path, hypervisor="simulated")
    async with open_agent(settings) as running:
        client = Agents().in_process("h", running.app)
        inventory = await client.inventory()
        assert inventory.connections == [seen]
        lost, damaged = inventory.unread_connections
        assert (lost.attachment_id, damaged.attachment_id) == ("a2", "a3")
        assert "a2.json cannot be read: Input/output error" in lost.why
        assert "a3.json is damaged" in damaged.why
        # What is asked about the one alone is not answered as if it were not there.
        with pytest.raises(Unavailable):
            await client.disconnect("a2", operation=operation())
        assert (directory / "a2.json").is_symlink()
