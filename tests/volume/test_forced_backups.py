"""Backups of volumes in use, asked for with `force` (facts/block_storage.md 1.8)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import Conflict, NoCapacity
from tests.cloud import SimulatedCloud
from tests.volume.backing_up import (
    BACKUPS,
    SNAPSHOTS,
    UNKNOWN,
    VOLUMES,
    act,
    back_up,
    backup,
    begun,
    captures,
    hold_store,
    make_volume,
    messages,
    restore,
    status,
    storage,
    stored,
)
from tests.volume.test_uploading import make_base

pytestmark = pytest.mark.anyio
SERVERS = "/compute/v2.1/servers"


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path, database=database) as opened:
        yield opened


async def attached(cloud: SimulatedCloud) -> str:
    """Return a volume that the guest of a server writes to."""
    volume_id, image_id = await make_volume(cloud), await make_base(cloud)
    server = {"name": "s", "flavorRef": "1", "imageRef": image_id, "networks": "none"}
    made = await cloud.do("POST", SERVERS, {"server": server}, version="2.37")
    assert made is not None
    body = {"volumeAttachment": {"volumeId": volume_id}}
    path = f"{SERVERS}/{made.key('server')['id']}/os-volume_attachments"
    await cloud.settle()
    assert (await cloud.do("POST", path, body)) is not None
    await cloud.settle()
    assert await status(cloud, volume_id) == "in-use"
    return volume_id


async def a_minute(cloud: SimulatedCloud) -> None:
    """Let a minute pass: long enough to take a snapshot and to find it taken."""
    for _ in range(12):
        await cloud.pass_time(5.0)


async def volume(cloud: SimulatedCloud, volume_id: str) -> dict[str, Any]:
    return (await cloud.ask("GET", f"{VOLUMES}/{volume_id}")).key("volume")


async def snapshots(cloud: SimulatedCloud) -> list[str]:
    found = (await cloud.ask("GET", f"{SNAPSHOTS}/detail")).key("snapshots")
    return [one["status"] for one in found]


async def test_a_volume_in_use_is_backed_up_by_a_snapshot_that_goes(cloud: SimulatedCloud) -> None:
    volume_id = await attached(cloud)
    assert (await back_up(cloud, volume_id)).status == 400
    held = hold_store(cloud)
    backup_id = await begun(cloud, volume_id, force=True)
    assert await status(cloud, volume_id) == "in-use"
    await a_minute(cloud)
    assert held.reached.is_set()
    assert await snapshots(cloud) == []
    assert (await backup(cloud, backup_id))["status"] == "creating"
    held.go_on.set()
    await cloud.settle()
    shown = await backup(cloud, backup_id)
    assert (shown["status"], shown["snapshot_id"]) == ("available", None)
    assert await status(cloud, volume_id) == "in-use"
    assert captures(cloud) == []
    await cloud.look_at_hosts()
    new = (await restore(cloud, backup_id)).key("restore")["volume_id"]
    await cloud.settle()
    assert storage(cloud).content(new) == new
    assert await cloud.complaints() == []


async def test_the_next_one_is_incremental(cloud: SimulatedCloud) -> None:
    volume_id = await attached(cloud)
    first = await begun(cloud, volume_id, force=True)
    await cloud.settle()
    second = await begun(cloud, volume_id, force=True, incremental=True)
    await cloud.settle()
    assert (await backup(cloud, second))["is_incremental"]
    assert (await backup(cloud, first))["has_dependent_backups"]
    assert await cloud.complaints() == []


async def test_a_snapshot_that_fails_leaves_an_error_and_the_volume_as_it_was(
    cloud: SimulatedCloud,
) -> None:
    volume_id = await attached(cloud)
    storage(cloud).knobs.fail("snapshot", Conflict("The storage takes no snapshot."))
    backup_id = await begun(cloud, volume_id, force=True)
    await cloud.settle()
    shown = await backup(cloud, backup_id)
    assert shown["status"] == "error"
    assert "ask for another backup" in shown["fail_reason"]
    assert await snapshots(cloud) == []
    assert await status(cloud, volume_id) == "in-use"
    assert stored(cloud) == []
    assert "VOLUME_VOLUME_BACKUP_013_001" in await messages(cloud)
    assert await cloud.complaints() == []


async def test_a_copy_that_fails_takes_the_snapshot_with_it(cloud: SimulatedCloud) -> None:
    volume_id = await attached(cloud)
    storage(cloud).knobs.fail("capture", NoCapacity("The disk of the host is full."))
    backup_id = await begun(cloud, volume_id, force=True)
    await cloud.settle()
    assert (await backup(cloud, backup_id))["status"] == "error"
    assert await snapshots(cloud) == []
    assert await status(cloud, volume_id) == "in-use"
    assert await cloud.complaints() == []


async def test_a_volume_whose_snapshot_has_no_room_is_refused(cloud: SimulatedCloud) -> None:
    volume_id = await attached(cloud)
    project = (await volume(cloud, volume_id))["os-vol-tenant-attr:tenant_id"]
    quota = {"quota_set": {"snapshots": 0}}
    path = f"/volume/v3/os-quota-sets/{project}"
    assert (await cloud.ask("PUT", path, quota, user="admin")).status == 200
    assert (await back_up(cloud, volume_id, force=True)).status == 413
    assert (await cloud.ask("GET", BACKUPS)).key("backups") == []
    assert await cloud.complaints() == []


async def test_force_changes_nothing_for_a_volume_that_nobody_has(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    storage(cloud).knobs.hold("capture")
    backup_id = await begun(cloud, volume_id, force=True)
    await storage(cloud).knobs.held("capture")
    assert await status(cloud, volume_id) == "backing-up"
    assert (await back_up(cloud, volume_id, force=True)).status == 400
    assert await snapshots(cloud) == []
    storage(cloud).knobs.release("capture")
    await cloud.settle()
    assert (await backup(cloud, backup_id))["status"] == "available"
    assert (await back_up(cloud, UNKNOWN, force=True)).status == 404


async def test_metadata_of_the_volume_come_back(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud, metadata={"owner": "db", "tier": "gold"})
    backup_id = await begun(cloud, volume_id, metadata={"of": "backup"})
    await cloud.settle()
    new = (await restore(cloud, backup_id)).key("restore")["volume_id"]
    target = await make_volume(cloud, metadata={"tier": "iron", "rack": "7"})
    await cloud.settle()
    assert (await restore(cloud, backup_id, volume_id=target)).status == 202
    await cloud.settle()
    for restored in (new, target):
        assert (await volume(cloud, restored))["metadata"] == {"owner": "db", "tier": "gold"}
    body = {"volume": {"size": 1, "backup_id": backup_id, "metadata": {"tier": "lead"}}}
    made = (await cloud.ask("POST", VOLUMES, body, version="3.47")).key("volume")
    assert made["metadata"] == {"owner": "db", "tier": "lead"}
    await cloud.settle()
    assert await cloud.complaints() == []


async def test_a_detached_volume_is_no_obstacle_to_the_backup(cloud: SimulatedCloud) -> None:
    volume_id = await attached(cloud)
    storage(cloud).knobs.hold("capture")
    backup_id = await begun(cloud, volume_id, force=True)
    await a_minute(cloud)
    await storage(cloud).knobs.held("capture")
    assert await snapshots(cloud) == ["backing-up"]
    [server_id] = [one["id"] for one in (await cloud.ask("GET", SERVERS)).key("servers")]
    assert (await cloud.ask("DELETE", f"{SERVERS}/{server_id}")).status == 204
    storage(cloud).knobs.release("capture")
    await cloud.settle()
    assert (await backup(cloud, backup_id))["status"] == "available"
    assert await snapshots(cloud) == []
    assert await status(cloud, volume_id) == "available"
    assert (await act(cloud, volume_id, "os-reserve", None)).status == 202
    assert await cloud.complaints() == []
