"""What the compute service notifies of: upstream's names, payloads and order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import Conflict
from mooring.notify.outbox import Notification
from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio

SERVERS = "/compute/v2.1/servers"
IMAGE = {"name": "i", "disk_format": "raw", "container_format": "bare"}


@pytest.fixture
async def cloud(tmp_path: Path, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path, notifications=("keep",)) as opened:
        yield opened


async def _make(cloud: SimulatedCloud, **fields: Any) -> str:
    image = (await cloud.ask("POST", "/image/v2/images", IMAGE)).key("id")
    await cloud.ask("PUT", f"/image/v2/images/{image}/file", b"\0" * 512)
    wanted = {"name": "s", "flavorRef": "42", "imageRef": image, **fields}
    made = await cloud.do("POST", SERVERS, {"server": wanted})
    assert made is not None
    await cloud.settle()
    return made.key("server")["id"]


async def _act(cloud: SimulatedCloud, server_id: str, action: str, value: Any = None) -> None:
    await cloud.do("POST", f"{SERVERS}/{server_id}/action", {action: value})
    await cloud.settle()


async def _volume(cloud: SimulatedCloud) -> str:
    made = await cloud.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
    await cloud.settle()
    return made.key("volume")["id"]


def _data(one: Notification) -> dict[str, Any]:
    return one.payload["nova_object.data"]


async def _events(cloud: SimulatedCloud) -> list[str]:
    return [one.event_type for one in await cloud.told("compute")]


async def test_the_life_of_a_server_is_told_in_order(cloud: SimulatedCloud) -> None:
    server_id = await _make(cloud)
    for action, value in (
        ("os-stop", None),
        ("os-start", None),
        ("reboot", {"type": "HARD"}),
        ("lock", None),
        ("unlock", None),
    ):
        await _act(cloud, server_id, action, value)
    await cloud.do("DELETE", f"{SERVERS}/{server_id}")
    await cloud.settle()
    told = await cloud.told("compute")

    assert [(one.event_type, _data(one)["state"]) for one in told] == [
        ("instance.create.start", "building"),
        ("instance.create.end", "active"),
        ("instance.power_off.start", "active"),
        ("instance.power_off.end", "stopped"),
        ("instance.power_on.start", "stopped"),
        ("instance.power_on.end", "active"),
        ("instance.reboot.start", "active"),
        ("instance.reboot.end", "active"),
        ("instance.lock", "active"),
        ("instance.unlock", "active"),
        ("instance.delete.start", "active"),
        ("instance.shutdown.start", "active"),
        ("instance.shutdown.end", "active"),
        ("instance.delete.end", "deleted"),
    ]
    assert {_data(one)["uuid"] for one in told} == {server_id}
    assert {one.publisher for one in told} == {"nova-compute:h1"}
    assert {one.priority for one in told} == {"INFO"}


async def test_a_payload_is_a_versioned_object(cloud: SimulatedCloud) -> None:
    server_id = await _make(cloud, metadata={"a": "b"})
    shown = (await cloud.ask("GET", f"{SERVERS}/{server_id}")).key("server")
    ended = (await cloud.told("compute"))[-1]
    data = _data(ended)

    assert ended.payload["nova_object.namespace"] == "nova"
    assert ended.payload["nova_object.name"] == "InstanceCreatePayload"
    assert (data["display_name"], data["metadata"], data["tags"]) == ("s", {"a": "b"}, [])
    assert (data["host"], data["availability_zone"]) == ("h1", "nova")
    assert (data["power_state"], data["task_state"]) == ("running", None)
    assert (data["tenant_id"], data["user_id"]) == (shown["tenant_id"], shown["user_id"])
    assert data["action_initiator_user"] == shown["user_id"]
    assert data["request_id"].startswith("req-")
    assert data["created_at"] == shown["created"]
    assert data["flavor"]["nova_object.data"]["flavorid"] == "42"
    assert data["fault"] is None


async def test_attaching_and_detaching_is_told_with_the_volume(cloud: SimulatedCloud) -> None:
    server_id, volume_id = await _make(cloud), await _volume(cloud)
    before = len(await cloud.told("compute"))
    path = f"{SERVERS}/{server_id}/os-volume_attachments"
    await cloud.do("POST", path, {"volumeAttachment": {"volumeId": volume_id}})
    await cloud.settle()
    await cloud.do("DELETE", f"{path}/{volume_id}")
    await cloud.settle()
    told = (await cloud.told("compute"))[before:]

    assert [(one.event_type, len(_data(one)["block_devices"])) for one in told] == [
        ("instance.volume_attach.start", 1),
        ("instance.volume_attach.end", 1),
        ("instance.volume_detach.start", 1),
        ("instance.volume_detach.end", 0),
    ]
    assert {_data(one)["volume_id"] for one in told} == {volume_id}
    assert {one.payload["nova_object.name"] for one in told} == {"InstanceActionVolumePayload"}


async def test_an_attach_that_fails_is_told_as_an_error(cloud: SimulatedCloud) -> None:
    server_id, volume_id = await _make(cloud), await _volume(cloud)
    before = len(await cloud.told("compute"))
    point = "compute.attach_volume/record_attached/forward/before"
    cloud.probe.arm(point, lambda: Conflict("The test says no."))
    path = f"{SERVERS}/{server_id}/os-volume_attachments"
    await cloud.do("POST", path, {"volumeAttachment": {"volumeId": volume_id}})
    await cloud.settle()
    started, failed = (await cloud.told("compute"))[before:]

    assert started.event_type == "instance.volume_attach.start"
    assert (failed.event_type, failed.priority) == ("instance.volume_attach.error", "ERROR")
    assert _data(failed)["fault"]["nova_object.data"]["exception_message"]
    assert _data(failed)["fault"]["nova_object.data"]["traceback"] == ""


async def test_a_refused_request_is_not_told_of(cloud: SimulatedCloud) -> None:
    server_id = await _make(cloud)
    before = await _events(cloud)
    path = f"{SERVERS}/{server_id}/os-volume_attachments"
    refused = await cloud.do("POST", path, {"volumeAttachment": {"volumeId": server_id}})

    assert refused is not None
    assert refused.status == 404
    assert await _events(cloud) == before


async def test_a_server_that_finds_no_host_is_told_of_as_a_task(tmp_path: Path) -> None:
    cloud = SimulatedCloud(tmp_path, roles={"h1": ("volume",)}, notifications=("keep",))
    await cloud.open()
    server_id = await _make(cloud)
    (one,) = await cloud.told("compute")
    await cloud.close()

    assert (one.event_type, one.priority) == ("compute_task.build_instances.error", "ERROR")
    assert _data(one)["instance_uuid"] == server_id
    assert _data(one)["reason"]["nova_object.data"]["exception"] == "NoCapacity"
