"""A volume's host that is silent for long, while its server's host answers, frees no volume."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compute.cloud import NEW, ComputeCloud

pytestmark = pytest.mark.anyio
ROLES = {"host1": ("volume",), "host2": ("compute",), "host3": ("compute",)}
BEFORE = {"unshelve": "shelve", "confirmResize": "migrate", "revertResize": "migrate"}


async def boot_from_volume(cloud: ComputeCloud) -> tuple[str, str]:
    """Make a server that boots from a volume; return the ids of both."""
    root = await cloud.make_volume(bootable=True)
    mapping = {"source_type": "volume", "destination_type": "volume", "uuid": root, "boot_index": 0}
    return await cloud.make_server(imageRef="", block_device_mapping_v2=[mapping]), root


@pytest.mark.parametrize(
    "action", ["rebuild", "shelve", "unshelve", "confirmResize", "revertResize"]
)
async def test_a_server_keeps_its_volume(tmp_path: Path, database: str, action: str) -> None:
    async with ComputeCloud(tmp_path, hosts=ROLES, roles=ROLES, database=database) as cloud:
        server, root = await boot_from_volume(cloud)
        if action in BEFORE:
            assert await cloud.act(server, BEFORE[action], None, user="admin") == 202
            await cloud.settle()
            await cloud.look_at_hosts()
        value = {"imageRef": NEW} if action == "rebuild" else None
        assert await cloud.act(server, action, value) in (202, 204)
        cloud.ended_hosts.add("host1")
        for _ in range(40):
            await cloud.pass_time(60.0)
        cloud.ended_hosts.clear()
        await cloud.settle()
        assert await cloud.volume_status(root) in ("in-use", "reserved")
        deleting = await cloud.ask("DELETE", f"/volume/v3/volumes/{root}")
        assert deleting.status == 400
        assert await cloud.complaints() == []
