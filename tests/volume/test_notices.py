"""What the volume service notifies of: upstream's names, payloads and order."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio

VOLUMES = "/volume/v3/volumes"
CONNECTOR = {"host": "h1", "ip": "127.0.0.1", "platform": "x86_64", "os_type": "linux"}


@pytest.fixture
async def cloud(tmp_path: Path, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path, notifications=("keep",)) as opened:
        yield opened


async def _make(cloud: SimulatedCloud, **fields: Any) -> str:
    body = {"volume": {"size": 1, "name": "data", "metadata": {"a": "b"}, **fields}}
    made = (await cloud.ask("POST", VOLUMES, body)).key("volume")["id"]
    await cloud.settle()
    return made


async def _events(cloud: SimulatedCloud) -> list[str]:
    return [one.event_type for one in await cloud.told("volume")]


async def test_making_and_deleting_a_volume_is_told_in_order(cloud: SimulatedCloud) -> None:
    volume_id = await _make(cloud)
    await cloud.ask("DELETE", f"{VOLUMES}/{volume_id}")
    await cloud.settle()
    told = await cloud.told("volume")

    assert [(one.event_type, one.payload["status"]) for one in told] == [
        ("volume.create.start", "creating"),
        ("volume.create.end", "available"),
        ("volume.delete.start", "deleting"),
        ("volume.delete.end", "deleting"),
    ]
    assert {one.payload["volume_id"] for one in told} == {volume_id}
    assert {one.priority for one in told} == {"INFO"}


async def test_the_payload_is_the_usage_of_the_volume(cloud: SimulatedCloud) -> None:
    volume_id = await _make(cloud)
    shown = (await cloud.ask("GET", f"{VOLUMES}/{volume_id}", user="admin")).key("volume")
    told = (await cloud.told("volume"))[-1]
    payload, backend = told.payload, shown["os-vol-host-attr:host"]

    assert told.publisher == f"volume.{backend.partition('#')[0]}"
    assert payload.pop("launched_at")
    assert payload.pop("created_at").startswith(shown["created_at"][:19])
    assert payload.pop("volume_type")
    assert payload == {
        "tenant_id": shown["os-vol-tenant-attr:tenant_id"],
        "user_id": shown["user_id"],
        "host": backend,
        "availability_zone": "nova",
        "volume_id": volume_id,
        "display_name": "data",
        "status": "available",
        "snapshot_id": None,
        "size": 1,
        "replication_status": None,
        "replication_extended_status": None,
        "replication_driver_data": None,
        "metadata": {"a": "b"},
        "volume_attachment": [],
    }


async def test_a_volume_that_finds_no_pool_is_told_by_the_scheduler(tmp_path: Path) -> None:
    cloud = SimulatedCloud(tmp_path, roles={"h1": ("compute",)}, notifications=("keep",))
    await cloud.open()
    await _make(cloud)
    (one,) = await cloud.told("volume")
    await cloud.close()

    assert (one.event_type, one.publisher) == ("scheduler.create_volume", "scheduler")
    assert one.priority == "ERROR"
    assert one.payload["state"] == "error"
    assert one.payload["volume_properties"]["size"] == 1
    assert one.payload["reason"]


async def test_nothing_is_written_when_nobody_asked_for_it(tmp_path: Path) -> None:
    quiet = SimulatedCloud(tmp_path)
    await quiet.open()
    await _make(quiet)

    assert await _events(quiet) == []
    await quiet.close()


async def test_attaching_and_detaching_is_told_with_the_attachments(cloud: SimulatedCloud) -> None:
    volume_id = await _make(cloud)
    wanted = {"volume_uuid": volume_id, "instance_uuid": str(uuid.uuid4())}
    path = "/volume/v3/attachments"
    made = await cloud.ask("POST", path, {"attachment": wanted}, version="3.54")
    attachment = f"{path}/{made.key('attachment')['id']}"
    update = {"attachment": {"connector": CONNECTOR}}
    before = len(await cloud.told("volume"))
    await cloud.do("PUT", attachment, update, version="3.54")
    done = {"os-complete": None}
    await cloud.ask("POST", f"{attachment}/action", done, user="compute", version="3.54")
    await cloud.do("DELETE", attachment, user="compute", version="3.54")
    await cloud.settle()
    told = (await cloud.told("volume"))[before:]

    assert [
        (one.event_type, [each["attach_status"] for each in one.payload["volume_attachment"]])
        for one in told
    ] == [
        ("volume.attach.start", ["reserved"]),
        ("volume.attach.end", ["attached"]),
        ("volume.detach.start", ["attached"]),
        ("volume.detach.end", []),
    ]
    assert told[1].payload["volume_attachment"][0]["instance_uuid"] == wanted["instance_uuid"]
    assert "connection" not in str(told)


async def test_an_attachment_that_was_never_connected_is_not_told_of(cloud: SimulatedCloud) -> None:
    volume_id = await _make(cloud)
    before = len(await cloud.told("volume"))
    path, wanted = "/volume/v3/attachments", {"volume_uuid": volume_id}
    made = await cloud.ask("POST", path, {"attachment": wanted}, version="3.54")
    await cloud.do("DELETE", f"{path}/{made.key('attachment')['id']}", version="3.54")

    assert (await cloud.told("volume"))[before:] == []


async def test_changes_by_hand_are_told_before_and_after(cloud: SimulatedCloud) -> None:
    volume_id = await _make(cloud)
    before = len(await cloud.told("volume"))
    await cloud.ask("PUT", f"{VOLUMES}/{volume_id}", {"volume": {"name": "new"}})
    reset = {"os-reset_status": {"status": "error"}}
    await cloud.do("POST", f"{VOLUMES}/{volume_id}/action", reset, user="admin")
    told = (await cloud.told("volume"))[before:]

    assert [(one.event_type, one.payload["display_name"]) for one in told[:2]] == [
        ("volume.update.start", "data"),
        ("volume.update.end", "new"),
    ]
    assert [(one.event_type, one.payload["status"]) for one in told[2:]] == [
        ("volume.reset_status.start", "available"),
        ("volume.reset_status.end", "error"),
    ]
    assert told[2].payload["update"] == {"status": "error"}
