"""An agent with shares that is killed: the next one finds its mounts, and ends what was left."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.mounts import mount_point, read_mount_points
from mooring.agent.waiting import until
from mooring.agent_api.client import AgentClient
from mooring.agent_api.volumes import VolumeSpec
from mooring.errors import Unavailable
from tests.agent.hosts import new_id, operation
from tests.agent.processes import agent_process
from tests.agent.shares import EXPORT, Shares, processes_of

pytestmark = [pytest.mark.anyio, pytest.mark.kill, pytest.mark.hosts]
OTHER = "192.0.2.8:/other"
FOREIGN: dict[str, Any] = {
    "driver_volume_type": "nfs",
    "data": {"export": OTHER, "name": "volume-foreign", "format": "raw"},
}


@pytest.fixture
def shares(tmp_path: Path) -> Shares:
    made = Shares(tmp_path / "outside")
    made.export()
    (made.export(OTHER) / "volume-foreign").write_bytes(b"data")
    return made


@pytest.fixture
def storage(tmp_path: Path, shares: Shares) -> str:
    host, _, path = EXPORT.partition(":")
    file = tmp_path / "storage.toml"
    file.write_text(
        f'[mounts]\nprogram_path = "{shares.directory}/bin"\ntable = "{shares.directory}/table"\n'
        f'[[pools]]\nname = "pool"\ndriver = "nfs"\n'
        f'[pools.nfs]\nnas_host = "{host}"\nnas_share_path = "{path}"\n'
    )
    return str(file)


async def make_connected(client: AgentClient, volume_id: str, attachment_id: str) -> None:
    """Make a volume of the pool, and connect it to the pool's own host."""
    spec = VolumeSpec(pool="pool", size_gib=1)
    await client.put_volume(volume_id, spec, operation=operation())
    info = await client.export_volume(
        volume_id, attachment_id, await client.connector(), operation=operation()
    )
    await client.connect(attachment_id, volume_id, info, operation=operation())


async def test_a_killed_agent_finds_its_mounts_and_ends_what_hung(
    tmp_path: Path, shares: Shares, storage: str
) -> None:
    state, volume_id, attachment_id = tmp_path / "state", new_id(), new_id()
    mounts = state / "mnt"
    async with agent_process(state, "simulated", storage=storage) as agent:
        client = agent.client
        await make_connected(client, volume_id, attachment_id)
        shares.tell("hang")
        hanging = asyncio.ensure_future(
            client.connect(new_id(), new_id(), FOREIGN, operation=operation())
        )
        assert await until(lambda: any(OTHER in call for call in shares.calls()), 30)
        await agent.kill()
        with pytest.raises(Unavailable):
            await hanging
    shares.tell("hang", on=False)
    async with agent_process(state, "simulated", storage=storage) as agent:
        client = agent.client
        assert [call for call in processes_of(shares.directory) if "mount -t" in call] == []
        held = await client.inventory()
        [known] = held.connections
        assert known.attachment_id == attachment_id
        assert known.path == str(mount_point(mounts, EXPORT) / f"volume-{volume_id}")
        assert [one.volume_id for one in held.volumes] == [volume_id]
        second = new_id()
        await client.connect(second, new_id(), FOREIGN, operation=operation())
        assert len(read_mount_points(shares.directory / "table")) == 2
        await client.disconnect(second, operation=operation())
        await client.disconnect(attachment_id, operation=operation())
        # The pool's own mount stays, the other one went with its last volume.
        assert set(read_mount_points(shares.directory / "table")) == {mount_point(mounts, EXPORT)}
        pools = (await client.host()).pools
        assert [(pool.name, pool.storage_protocol, pool.problem) for pool in pools] == [
            ("pool", "nfs", "")
        ]


async def test_what_a_killed_agent_left_mounted_and_unused_is_unmounted(
    tmp_path: Path, shares: Shares, storage: str
) -> None:
    state = tmp_path / "state"
    left = mount_point(state / "mnt", OTHER)
    left.mkdir(parents=True)
    with (shares.directory / "table").open("a") as table:
        table.write(f"31 1 0:30 / {left} rw - nfs4 {OTHER} rw\n")
    left.rmdir()
    left.symlink_to(shares.export(OTHER))
    async with agent_process(state, "simulated", storage=storage):
        assert set(read_mount_points(shares.directory / "table")) == {
            mount_point(state / "mnt", EXPORT)
        }
