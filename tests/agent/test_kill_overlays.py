"""An agent that is killed while it changes the files under a guest: the next one ends it right."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest

from mooring.agent_api.disks import DiskSpec
from mooring.agent_api.overlays import ActiveFile, MergeRequest
from mooring.fence.threads import run_to_end
from tests.agent.hosts import new_id, operation
from tests.agent.processes import agent_process
from tests.agent.test_kill import SERVER, export, killed_at, kind, make_volume, state_dir

__all__ = ["kind", "state_dir"]
pytestmark = [pytest.mark.anyio, pytest.mark.kill]


async def make_overlay(path: Path, name: str, below: str, below_format: str) -> str:
    """Make an overlay where there are files; return its name."""
    command = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", below, "-F", below_format, name]
    if path.parent.is_dir():
        await run_to_end(lambda: subprocess.run([*command, "1G"], check=True, cwd=path.parent))
    return name


async def prepare(state_dir: Path, kind: str) -> tuple[str, DiskSpec]:
    """Start a guest with a volume; return its id and the disk."""
    server_id, volume_id, attachment_id = new_id(), new_id(), new_id()
    async with agent_process(state_dir, kind) as agent:
        await agent.host.push_image()
        await make_volume(volume_id)(agent.host, operation())
        connection = await export(volume_id, attachment_id)(agent.host, operation())
        disk = DiskSpec(volume_id=volume_id, attachment_id=attachment_id, connection=connection)
        await agent.client.put_server(server_id, SERVER, operation=operation())
        await agent.client.plug_disk(server_id, disk, operation=operation())
    return server_id, disk


async def test_the_files_under_a_guest_are_right_wherever_its_agent_was_killed(
    state_dir: Path, kind: str
) -> None:
    server_id, disk = await prepare(state_dir, kind)
    kill, data = partial(killed_at, state_dir, kind), disk.connection["data"]
    path, names = Path(data["device_path"]), (server_id, disk.volume_id)
    first = await make_overlay(path, f"{path.name}.s1", path.name, data["format"])
    switched = await kill(
        "snapshot_disk/begin snapshot_disk/switched snapshot_disk/acted",
        lambda host, named: host.client.snapshot_disk(*names, "s1", first, operation=named),
    )
    assert switched == ActiveFile(file=first, format="qcow2")
    await kill(
        "take_back_snapshot/begin take_back_snapshot/switched take_back_snapshot/acted",
        lambda host, named: host.client.take_back_snapshot(*names, "s1", first, operation=named),
    )
    async with agent_process(state_dir, kind) as agent:
        guest = await agent.client.show_server(server_id)
        assert guest is not None
        assert [one.path for one in guest.disks] == [data["device_path"]]
        second = await make_overlay(path, f"{path.name}.s2", path.name, data["format"])
        await agent.client.snapshot_disk(*names, "s2", second, operation=operation())
    merged = await kill(
        "merge_disk/begin merge_disk/acted",
        lambda host, named: host.client.merge_disk(*names, "s2", MergeRequest(), operation=named),
    )
    assert merged == ActiveFile(file=second, format="qcow2")
    await kill(
        "stop_merge/begin stop_merge/acted",
        lambda host, named: host.client.stop_merge(*names, "s2", operation=named),
    )
    async with agent_process(state_dir, kind) as agent:
        inventory = await agent.client.inventory()
    assert [one.path.rpartition("/")[2] for one in inventory.connections] == [second]
