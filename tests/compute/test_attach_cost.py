"""What attach and detach cost: every commit waits for the disk, in a service or on a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio

IMAGE = {"name": "i", "disk_format": "raw", "container_format": "bare"}
ATTACH_COMMITS, DETACH_COMMITS = 10, 9
"""Over all services, and what of the host's journal waits for its disk: exactly, not at most."""


def _commits(cloud: SimulatedCloud) -> int:
    journals = sum(agent.agent.journal.commits for agent in cloud.agents.values())
    return journals + sum(store.commits for store in cloud.cloud.stores.values())


async def test_attach_takes_ten_commits_and_detach_nine(tmp_path: Path) -> None:
    cloud = SimulatedCloud(tmp_path)
    await cloud.open()
    image = (await cloud.ask("POST", "/image/v2/images", IMAGE)).key("id")
    await cloud.ask("PUT", f"/image/v2/images/{image}/file", b"\0" * 512)
    wanted = {"name": "s", "flavorRef": "42", "imageRef": image}
    made = await cloud.do("POST", "/compute/v2.1/servers", {"server": wanted})
    volume = await cloud.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
    assert made is not None
    server_id, volume_id = made.key("server")["id"], volume.key("volume")["id"]
    await cloud.settle()
    path = f"/compute/v2.1/servers/{server_id}/os-volume_attachments"

    before = _commits(cloud)
    body = {"volumeAttachment": {"volumeId": volume_id}}
    attached = await cloud.do("POST", path, body)
    await cloud.settle()
    attach_commits = _commits(cloud) - before
    shown = await cloud.ask("GET", f"/volume/v3/volumes/{volume_id}")
    detached = await cloud.do("DELETE", f"{path}/{volume_id}")
    await cloud.settle()
    detach_commits = _commits(cloud) - before - attach_commits

    assert attached is not None
    assert detached is not None
    assert (attached.status, detached.status) == (200, 202)
    assert shown.key("volume")["status"] == "in-use"
    assert (attach_commits, detach_commits) == (ATTACH_COMMITS, DETACH_COMMITS)
    assert await cloud.complaints() == []
    await cloud.close()
