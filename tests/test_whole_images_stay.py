"""An image that was shown with all of its data stays, whatever becomes of what made it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import Conflict, Unavailable
from tests.cloud import SimulatedCloud
from tests.compute.test_server_images import captures, make_base, make_server
from tests.volume import test_uploading as uploads

pytestmark = pytest.mark.anyio
SERVERS, IMAGES, VOLUMES = "/compute/v2.1/servers", "/image/v2/images", "/volume/v3/volumes"
UPLOADED = "compute.{}/upload_image/forward/after"
ASKED: dict[str, dict[str, Any]] = {
    "create_image": {"createImage": {"name": "picture"}},
    "create_backup": {"createBackup": {"name": "picture", "backup_type": "daily", "rotation": 1}},
}


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path, database=database) as opened:
        yield opened


async def ask_server(cloud: SimulatedCloud, server_id: str, body: Any, **how: Any) -> Any:
    path = f"{SERVERS}/{server_id}/action"
    answer = await cloud.do("POST", path, body, version="2.45", **how)
    assert answer is not None
    assert answer.status == 202, answer.text
    return answer


async def hears_nothing(cloud: SimulatedCloud, point: str, asking: Any) -> Any:
    """Ask for an image, and return the answer once it has its data and nobody knows it."""
    has_data = asyncio.Event()

    def lose() -> Exception:
        has_data.set()
        return Unavailable("The process was busy.")

    cloud.probe.arm(point, lose)
    answer = await asking
    await cloud.until_answered(asyncio.create_task(has_data.wait()))
    return answer


async def images(cloud: SimulatedCloud) -> dict[str, str]:
    """Return the status of each image but the one that servers are made of, by id."""
    listed = (await cloud.ask("GET", IMAGES)).key("images")
    return {image["id"]: image["status"] for image in listed if image["name"] != "base"}


async def idle(cloud: SimulatedCloud, server_id: str) -> str:
    shown = (await cloud.ask("GET", f"{SERVERS}/{server_id}")).key("server")
    assert shown["OS-EXT-STS:task_state"] is None
    return shown["status"]


@pytest.mark.parametrize("saga", ASKED)
@pytest.mark.parametrize("ended_by", ["delete", "reset", "failure"])
async def test_of_a_server(cloud: SimulatedCloud, saga: str, ended_by: str) -> None:
    server_id = await make_server(cloud, await make_base(cloud))
    point, asking = UPLOADED.format(saga), ask_server(cloud, server_id, ASKED[saga])
    if ended_by == "failure":
        cloud.probe.arm(point, lambda: Conflict("A law let this step fail."))
        image_id = (await asking).key("image_id")
    else:
        image_id = (await hears_nothing(cloud, point, asking)).key("image_id")
        assert await images(cloud) == {image_id: "active"}
    if ended_by == "delete":
        gone = await cloud.do("DELETE", f"{SERVERS}/{server_id}")
        assert gone is not None
        assert gone.status == 204, gone.text
    elif ended_by == "reset":
        await ask_server(cloud, server_id, {"os-resetState": {"state": "active"}}, user="admin")
    await cloud.settle()
    assert await images(cloud) == {image_id: "active"}
    assert captures(cloud) == []
    if ended_by != "delete":
        assert await idle(cloud, server_id) == "ACTIVE"
    assert await cloud.complaints() == []


async def test_a_backup_that_stays_takes_the_place_of_the_oldest(cloud: SimulatedCloud) -> None:
    server_id = await make_server(cloud, await make_base(cloud))
    asked = ASKED["create_backup"]
    oldest = (await ask_server(cloud, server_id, asked)).key("image_id")
    await cloud.settle()
    assert await images(cloud) == {oldest: "active"}
    cloud.probe.arm(UPLOADED.format("create_backup"), lambda: Conflict("It fails."))
    newest = (await ask_server(cloud, server_id, asked)).key("image_id")
    await cloud.settle()
    assert await images(cloud) == {newest: "active"}


async def test_a_backup_that_is_deleted_on_its_way_costs_no_older_one(
    cloud: SimulatedCloud,
) -> None:
    server_id = await make_server(cloud, await make_base(cloud))
    asked = ASKED["create_backup"]
    oldest = (await ask_server(cloud, server_id, asked)).key("image_id")
    await cloud.settle()
    asking = ask_server(cloud, server_id, asked)
    point = "compute.create_backup/remove_capture/forward/after"
    newest = (await hears_nothing(cloud, point, asking)).key("image_id")
    assert (await cloud.ask("DELETE", f"{IMAGES}/{newest}")).status == 204
    await cloud.settle()
    assert await images(cloud) == {oldest: "active"}


async def test_what_failed_says_that_the_image_stays(cloud: SimulatedCloud) -> None:
    server_id = await make_server(cloud, await make_base(cloud))
    cloud.probe.arm(UPLOADED.format("create_image"), lambda: Conflict("The process was lost."))
    answer = await ask_server(cloud, server_id, ASKED["create_image"])
    await cloud.settle()
    actions = f"{SERVERS}/{server_id}/os-instance-actions"
    request_id = answer.headers["x-compute-request-id"]
    told = await cloud.ask("GET", f"{actions}/{request_id}", version="2.84", user="admin")
    [event] = told.key("instanceAction")["events"]
    assert event["result"] == "Error"
    assert f"Image {answer.key('image_id')} has all of its data" in event["details"]
    assert "The process was lost." in event["details"]


@pytest.mark.parametrize("ended_by", ["delete", "reset", "failure"])
@pytest.mark.parametrize("protected", [False, True])
async def test_of_a_volume(cloud: SimulatedCloud, ended_by: str, protected: bool) -> None:
    volume_id = await uploads.make_volume(cloud)
    point = "volume.upload_volume/upload_image/forward/after"
    asking = uploads.begun(cloud, volume_id, protected=protected)
    if ended_by == "failure":
        cloud.probe.arm(point, lambda: Conflict("A law let this step fail."))
        image_id = await asking
    else:
        image_id = await hears_nothing(cloud, point, asking)
        assert await images(cloud) == {image_id: "active"}
    if ended_by == "delete":
        gone = await uploads.act(cloud, volume_id, "os-force_delete", {}, user="admin")
        assert gone.status == 202, gone.text
    elif ended_by == "reset":
        reset = {"status": "available"}
        done = await uploads.act(cloud, volume_id, "os-reset_status", reset, user="admin")
        assert done.status == 202, done.text
    await cloud.settle()
    assert await images(cloud) == {image_id: "active"}
    assert (await uploads.show(cloud, image_id)).key("protected") is protected
    assert uploads.captures(cloud) == []
    assert await uploads.messages(cloud) == []
    if ended_by != "delete":
        assert await uploads.status(cloud, volume_id) == "available"
    assert await cloud.complaints() == []


async def test_of_a_server_s_volumes(cloud: SimulatedCloud) -> None:
    base = await make_base(cloud)
    root = {
        "source_type": "image",
        "destination_type": "volume",
        "uuid": base,
        "boot_index": 0,
        "volume_size": 1,
    }
    wanted = {"name": "s", "flavorRef": "1", "block_device_mapping_v2": [root]}
    made = await cloud.do("POST", SERVERS, {"server": wanted})
    assert made is not None
    server_id = made.key("server")["id"]
    await cloud.settle()
    point = "compute.picture_volumes/activate_image/forward/after"
    cloud.probe.arm(point, lambda: Conflict("A law let this step fail."))
    answer = await ask_server(cloud, server_id, ASKED["create_image"])
    await cloud.settle()
    assert await images(cloud) == {answer.key("image_id"): "active"}
    [snapshot] = (await cloud.ask("GET", "/volume/v3/snapshots")).key("snapshots")
    assert snapshot["status"] == "available"
    assert await idle(cloud, server_id) == "ACTIVE"
    assert await cloud.complaints() == []
