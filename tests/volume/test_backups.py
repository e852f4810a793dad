"""Backups of volumes, through the API (facts/block_storage.md 1.8 and 8.6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import NoCapacity
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
    damage,
    hold_store,
    images,
    make_volume,
    messages,
    restore,
    snapshot_of,
    status,
    storage,
    stored,
)

pytestmark = pytest.mark.anyio
ATTACHED = {"mountpoint": "/dev/vdb", "instance_uuid": UNKNOWN}


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path, database=database) as opened:
        yield opened


async def test_a_volume_is_backed_up_and_shown(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    answer = await back_up(cloud, volume_id, name="first", description="of mine", container="box")
    assert answer.status == 202
    told = answer.key("backup")
    assert set(told) == {"id", "name", "links"}
    await cloud.settle()
    shown = await backup(cloud, told["id"])
    assert shown.pop("created_at")
    assert shown.pop("updated_at")
    assert shown.pop("data_timestamp")
    assert shown.pop("user_id")
    assert [link["rel"] for link in shown.pop("links")] == ["self", "bookmark"]
    assert shown.pop("object_count") >= 1
    assert shown == {
        "id": told["id"],
        "name": "first",
        "description": "of mine",
        "status": "available",
        "size": 1,
        "availability_zone": "nova",
        "container": "box",
        "fail_reason": None,
        "volume_id": volume_id,
        "snapshot_id": None,
        "is_incremental": False,
        "has_dependent_backups": False,
        "metadata": {},
        "encryption_key_id": None,
    }
    assert await status(cloud, volume_id) == "available"
    assert captures(cloud) == []
    assert await messages(cloud) == []
    assert await cloud.complaints() == []


async def test_nobody_is_given_the_volume_meanwhile(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    storage(cloud).knobs.hold("capture")
    backup_id = await begun(cloud, volume_id)
    await storage(cloud).knobs.held("capture")
    assert await status(cloud, volume_id) == "backing-up"
    assert (await backup(cloud, backup_id))["status"] == "creating"
    assert (await act(cloud, volume_id, "os-reserve", None)).status == 400
    assert (await back_up(cloud, volume_id)).status == 400
    assert (await cloud.ask("DELETE", f"{VOLUMES}/{volume_id}")).status == 400
    assert (await cloud.ask("DELETE", f"{BACKUPS}/{backup_id}")).status == 400
    assert (await restore(cloud, backup_id)).status == 400
    storage(cloud).knobs.release("capture")
    await cloud.settle()
    assert await status(cloud, volume_id) == "available"
    assert (await backup(cloud, backup_id))["status"] == "available"


async def test_a_snapshot_is_backed_up_also_of_a_volume_in_use(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    snapshot_id = await snapshot_of(cloud, volume_id)
    assert (await act(cloud, volume_id, "os-attach", ATTACHED)).status == 202
    assert await status(cloud, volume_id) == "in-use"
    storage(cloud).knobs.hold("capture")
    backup_id = await begun(cloud, volume_id, snapshot_id=snapshot_id)
    await storage(cloud).knobs.held("capture")
    path = f"/volume/v3/snapshots/{snapshot_id}"
    assert (await cloud.ask("GET", path)).key("snapshot")["status"] == "backing-up"
    assert await status(cloud, volume_id) == "in-use"
    assert (await cloud.ask("DELETE", path)).status == 400
    storage(cloud).knobs.release("capture")
    await cloud.settle()
    shown = await backup(cloud, backup_id)
    assert (shown["status"], shown["snapshot_id"]) == ("available", snapshot_id)
    assert (await cloud.ask("GET", path)).key("snapshot")["status"] == "available"
    assert await cloud.unfinished() == []


async def test_a_snapshot_that_is_stored_lets_its_volume_go(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    snapshot_id = await snapshot_of(cloud, volume_id)
    held = hold_store(cloud)
    backup_id = await begun(cloud, volume_id, snapshot_id=snapshot_id)
    await held.reached.wait()
    second = await cloud.ask("POST", SNAPSHOTS, {"snapshot": {"volume_id": volume_id}})
    await cloud.pass_time(5.0)
    path = f"{SNAPSHOTS}/{second.key('snapshot')['id']}"
    assert (await cloud.ask("GET", path)).key("snapshot")["status"] == "available"
    assert (await act(cloud, volume_id, "os-attach", ATTACHED)).status == 202
    assert await status(cloud, volume_id) == "in-use"
    assert (await backup(cloud, backup_id))["status"] == "creating"
    held.go_on.set()
    await cloud.settle()
    assert (await backup(cloud, backup_id))["status"] == "available"
    assert captures(cloud) == []
    assert await cloud.unfinished() == []


async def test_what_cannot_be_backed_up_is_refused(cloud: SimulatedCloud) -> None:
    volume_id, other = await make_volume(cloud), await make_volume(cloud)
    snapshot_id = await snapshot_of(cloud, other)
    assert (await back_up(cloud, UNKNOWN)).status == 404
    assert (await back_up(cloud, volume_id, snapshot_id=UNKNOWN)).status == 404
    assert (await back_up(cloud, volume_id, snapshot_id=snapshot_id)).status == 400
    assert (await back_up(cloud, volume_id, availability_zone="nowhere")).status == 400
    assert (await act(cloud, volume_id, "os-attach", ATTACHED)).status == 202
    assert (await back_up(cloud, volume_id)).status == 400
    assert (await cloud.ask("GET", BACKUPS)).key("backups") == []


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        ("3.42", {"metadata": {"a": "b"}}),
        ("3.50", {"availability_zone": "nova"}),
        ("3.67", {"more": True}),
        ("3.67", {"container": ""}),
        ("3.67", {"name": "n" * 256}),
        ("3.67", {"force": "perhaps"}),
        ("3.67", {"volume_id": "none"}),
    ],
)
async def test_what_makes_no_sense_is_refused(
    cloud: SimulatedCloud, version: str, fields: dict[str, Any]
) -> None:
    volume_id = await make_volume(cloud)
    body = {"backup": {"volume_id": volume_id, **fields}}
    assert (await cloud.ask("POST", BACKUPS, body, version=version)).status == 400


async def test_a_backup_is_restored_to_a_new_volume(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    backup_id = await begun(cloud, volume_id)
    await cloud.settle()
    assert (await cloud.ask("DELETE", f"{VOLUMES}/{volume_id}")).status == 202
    await cloud.settle()
    storage(cloud).knobs.hold("create")
    answer = await restore(cloud, backup_id)
    assert answer.status == 202
    told = answer.key("restore")
    assert told["backup_id"] == backup_id
    assert told["volume_name"] == f"restore_backup_{backup_id}"
    await storage(cloud).knobs.held("create")
    assert (await backup(cloud, backup_id))["status"] == "restoring"
    assert await status(cloud, told["volume_id"]) == "restoring-backup"
    assert (await restore(cloud, backup_id)).status == 400
    storage(cloud).knobs.release("create")
    await cloud.settle()
    assert await status(cloud, told["volume_id"]) == "available"
    assert (await backup(cloud, backup_id))["status"] == "available"
    assert storage(cloud).content(told["volume_id"]) == told["volume_id"]
    assert images(cloud) == []
    assert await cloud.complaints() == []


async def test_a_volume_is_made_from_a_backup_since_3_47(cloud: SimulatedCloud) -> None:
    backup_id = await begun(cloud, await make_volume(cloud))
    await cloud.settle()
    body = {"volume": {"size": 2, "backup_id": backup_id}}
    made = (await cloud.ask("POST", VOLUMES, body, version="3.47")).key("volume")
    await cloud.settle()
    assert await status(cloud, made["id"]) == "available"
    assert storage(cloud).content(made["id"]) == made["id"]
    plain = (await cloud.ask("POST", VOLUMES, body, version="3.46")).key("volume")
    await cloud.settle()
    assert storage(cloud).content(plain["id"]) == ""
    two = {"volume": {"size": 2, "backup_id": backup_id, "source_volid": made["id"]}}
    assert (await cloud.ask("POST", VOLUMES, two, version="3.47")).status == 400


async def test_a_backup_is_restored_to_the_volume_that_is_named(cloud: SimulatedCloud) -> None:
    backup_id = await begun(cloud, await make_volume(cloud))
    await cloud.settle()
    target = await make_volume(cloud, name="target", size=2)
    storage(cloud).knobs.hold("replace")
    told = (await restore(cloud, backup_id, volume_id=target)).key("restore")
    assert told == {"backup_id": backup_id, "volume_id": target, "volume_name": "target"}
    await storage(cloud).knobs.held("replace")
    assert await status(cloud, target) == "restoring-backup"
    assert (await act(cloud, target, "os-reserve", None)).status == 400
    storage(cloud).knobs.release("replace")
    await cloud.settle()
    assert await status(cloud, target) == "available"
    assert storage(cloud).content(target) == target
    assert images(cloud) == []
    assert await cloud.complaints() == []


async def test_where_a_backup_does_not_fit_it_is_not_restored(cloud: SimulatedCloud) -> None:
    backup_id = await begun(cloud, await make_volume(cloud, size=2))
    await cloud.settle()
    small, pictured = await make_volume(cloud), await make_volume(cloud, size=2)
    await snapshot_of(cloud, pictured)
    used = await make_volume(cloud, size=2)
    await act(cloud, used, "os-attach", ATTACHED)
    for target in (small, pictured, used):
        assert (await restore(cloud, backup_id, volume_id=target)).status == 400
    assert (await restore(cloud, backup_id, volume_id=UNKNOWN)).status == 404
    assert (await restore(cloud, UNKNOWN)).status == 404
    assert (await backup(cloud, backup_id))["status"] == "available"
    assert await status(cloud, small) == "available"


@pytest.mark.parametrize("how", ["changed", "missing", "manifest", "gone"])
async def test_damaged_data_are_refused_and_the_volume_says_so(
    cloud: SimulatedCloud, how: str
) -> None:
    backup_id = await begun(cloud, await make_volume(cloud))
    await cloud.settle()
    damage(cloud, backup_id, how)
    target = await make_volume(cloud)
    assert (await restore(cloud, backup_id, volume_id=target)).status == 202
    await cloud.settle()
    assert await status(cloud, target) == "error_restoring"
    assert storage(cloud).content(target) == ""
    assert (await backup(cloud, backup_id))["status"] == "available"
    assert await messages(cloud) == ["VOLUME_VOLUME_BACKUP_015_001"]
    new = (await restore(cloud, backup_id)).key("restore")["volume_id"]
    await cloud.settle()
    assert await status(cloud, new) == "error_restoring"
    assert images(cloud) == []
    for volume_id in (target, new):
        assert (await cloud.ask("DELETE", f"{VOLUMES}/{volume_id}")).status == 202
    await cloud.settle()
    lost = [f"backup {backup_id}: its data are not there, or not whole"]
    assert await cloud.complaints() == (lost if how == "gone" else [])
    assert (await cloud.ask("DELETE", f"{BACKUPS}/{backup_id}")).status == 202
    await cloud.settle()
    assert await cloud.complaints() == []


async def test_a_deleted_backup_leaves_nothing(cloud: SimulatedCloud) -> None:
    backup_id = await begun(cloud, await make_volume(cloud))
    await cloud.settle()
    assert stored(cloud) == [backup_id]
    assert (await cloud.ask("DELETE", f"{BACKUPS}/{backup_id}")).status == 202
    await cloud.settle()
    assert stored(cloud) == []
    assert (await cloud.ask("GET", f"{BACKUPS}/{backup_id}")).status == 404
    assert (await cloud.ask("DELETE", f"{BACKUPS}/{backup_id}")).status == 404


async def test_a_copy_that_fails_leaves_an_error_and_no_data(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    storage(cloud).knobs.fail("capture", NoCapacity("The disk of the host is full."))
    backup_id = await begun(cloud, volume_id)
    await cloud.settle()
    shown = await backup(cloud, backup_id)
    assert shown["status"] == "error"
    assert "is full" in shown["fail_reason"]
    assert await status(cloud, volume_id) == "available"
    assert await messages(cloud) == ["VOLUME_VOLUME_BACKUP_013_001"]
    assert (stored(cloud), captures(cloud)) == ([], [])
    assert (await restore(cloud, backup_id)).status == 400
    assert (await cloud.ask("DELETE", f"{BACKUPS}/{backup_id}")).status == 202
    await cloud.settle()
    assert await cloud.complaints() == []
