"""Images that are made of volumes (facts/block_storage.md 1.6, `os-volume_upload_image`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mooring import qcow2
from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import NoCapacity, Unavailable
from mooring.image.app import SERVICE as IMAGE_SERVICE
from mooring.image.service import Image
from tests.answers import Answer
from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio
VOLUMES, IMAGES = "/volume/v3/volumes", "/image/v2/images"
UNKNOWN = "99999999-9999-4999-8999-999999999999"
BASE = {
    "name": "base",
    "disk_format": "raw",
    "container_format": "bare",
    "min_ram": 64,
    "hw_disk_bus": "virtio",
    "img_signature": "of the base alone",
}


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path, database=database) as opened:
        yield opened


async def make_volume(cloud: SimulatedCloud, **fields: Any) -> str:
    made = await cloud.do("POST", VOLUMES, {"volume": {"size": 1, **fields}})
    assert made is not None
    await cloud.settle()
    return made.key("volume")["id"]


async def make_base(cloud: SimulatedCloud) -> str:
    image_id = (await cloud.ask("POST", IMAGES, BASE)).key("id")
    await cloud.ask("PUT", f"{IMAGES}/{image_id}/file", b"\0" * 512)
    return image_id


async def act(cloud: SimulatedCloud, volume_id: str, action: str, value: Any, **how: Any) -> Answer:
    how = {"version": "3.67", **how}
    answer = await cloud.do("POST", f"{VOLUMES}/{volume_id}/action", {action: value}, **how)
    assert answer is not None
    return answer


async def upload(cloud: SimulatedCloud, volume_id: str, **fields: Any) -> Answer:
    how = {name: fields.pop(name) for name in ("version", "user") if name in fields}
    value = {"image_name": "picture", "disk_format": "qcow2", **fields}
    return await act(cloud, volume_id, "os-volume_upload_image", value, **how)


async def begun(cloud: SimulatedCloud, volume_id: str, **fields: Any) -> str:
    """Begin an upload, and return the id of its image."""
    return (await upload(cloud, volume_id, **fields)).key("os-volume_upload_image")["image_id"]


async def status(cloud: SimulatedCloud, volume_id: str) -> str:
    return (await cloud.ask("GET", f"{VOLUMES}/{volume_id}")).key("volume")["status"]


async def show(cloud: SimulatedCloud, image_id: str) -> Answer:
    return await cloud.ask("GET", f"{IMAGES}/{image_id}")


async def messages(cloud: SimulatedCloud) -> list[str]:
    listed = await cloud.ask("GET", "/volume/v3/messages", version="3.67")
    return [one["event_id"] for one in listed.key("messages")]


def storage(cloud: SimulatedCloud) -> SimulatedDriver:
    [driver] = cloud.agents["h1"].agent.drivers.values()
    assert isinstance(driver, SimulatedDriver)
    return driver


def captures(cloud: SimulatedCloud) -> list[Path]:
    found = cloud.settings.state_path.glob("hosts/*/captures/*/*")
    return sorted(found)


async def undone(cloud: SimulatedCloud, volume_id: str, image_id: str) -> None:
    """See that an upload has left no image and no copy, and the volume as it was."""
    await cloud.settle()
    assert (await show(cloud, image_id)).status == 404
    assert await status(cloud, volume_id) == "available"
    assert captures(cloud) == []


async def test_a_volume_becomes_an_image(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud, imageRef=await make_base(cloud), description="of mine")
    answer = await upload(cloud, volume_id)
    assert answer.status == 202
    told = answer.key("os-volume_upload_image")
    assert told.pop("updated_at")
    assert told.pop("volume_type")["name"] == "__DEFAULT__"
    image_id = told.pop("image_id")
    assert told == {
        "id": volume_id,
        "status": "uploading",
        "display_description": "of mine",
        "size": 1,
        "container_format": "bare",
        "disk_format": "qcow2",
        "image_name": "picture",
        "protected": False,
        "visibility": "private",
    }
    await cloud.settle()
    image = (await show(cloud, image_id)).body
    names = ("status", "name", "visibility", "disk_format", "min_disk", "min_ram", "protected")
    assert [image[name] for name in names] == [
        *("active", "picture", "private", "qcow2", 1, 64, False)
    ]
    assert image["virtual_size"] == 1 << 30
    assert image["hw_disk_bus"] == "virtio"
    assert not {"img_signature", "image_id", "image_name"} & image.keys()
    data = (await cloud.ask("GET", f"{IMAGES}/{image_id}/file")).content
    assert qcow2.read_alone(data[: qcow2.HEADER_BYTES]) == 1 << 30
    assert await status(cloud, volume_id) == "available"
    assert captures(cloud) == []
    assert await messages(cloud) == []
    again = await make_volume(cloud, imageRef=image_id)
    assert await status(cloud, again) == "available"


async def test_it_is_shown_and_nobody_is_given_it_meanwhile(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    storage(cloud).knobs.hold("capture")
    image_id = await begun(cloud, volume_id)
    await storage(cloud).knobs.held("capture")
    assert await status(cloud, volume_id) == "uploading"
    assert (await show(cloud, image_id)).key("status") == "queued"
    assert (await act(cloud, volume_id, "os-reserve", None)).status == 400
    assert (await upload(cloud, volume_id)).status == 400
    assert (await cloud.ask("DELETE", f"{VOLUMES}/{volume_id}")).status == 400
    metadata = {"metadata": {"a": "b"}}
    path = f"{VOLUMES}/{volume_id}/metadata"
    assert (await cloud.ask("POST", path, metadata)).status == 400
    storage(cloud).knobs.release("capture")
    await cloud.settle()
    assert await status(cloud, volume_id) == "available"
    assert (await show(cloud, image_id)).key("status") == "active"


async def test_a_protected_image_is_so_once_it_has_its_data(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    image_id = await begun(cloud, volume_id, protected=True, visibility="shared")
    await cloud.settle()
    image = (await show(cloud, image_id)).body
    assert (image["status"], image["protected"], image["visibility"]) == ("active", True, "shared")
    assert (await cloud.ask("DELETE", f"{IMAGES}/{image_id}")).status == 403


async def test_only_administrators_make_it_public(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    assert (await upload(cloud, volume_id, visibility="public")).status == 403
    assert await status(cloud, volume_id) == "available"
    image_id = await begun(cloud, volume_id, visibility="public", user="admin")
    await cloud.settle()
    assert (await show(cloud, image_id)).key("visibility") == "public"


async def test_3_0_knows_neither_visibility_nor_protection(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    assert (await upload(cloud, volume_id, version="3.0", protected=True)).status == 400
    told = (await upload(cloud, volume_id, version="3.0")).key("os-volume_upload_image")
    assert not {"protected", "visibility"} & told.keys()
    await cloud.settle()


@pytest.mark.parametrize(
    "wrong",
    [
        {"disk_format": "vmdk"},
        {"disk_format": "wood"},
        {"container_format": "compressed"},
        {"image_name": ""},
        {"image_name": "n" * 256},
        {"force": "perhaps"},
        {"visibility": "hidden"},
        {"more": True},
    ],
)
async def test_what_makes_no_sense_is_refused(cloud: SimulatedCloud, wrong: dict[str, Any]) -> None:
    volume_id = await make_volume(cloud)
    assert (await upload(cloud, volume_id, **wrong)).status == 400
    assert await status(cloud, volume_id) == "available"
    assert (await cloud.ask("GET", IMAGES)).key("images") == []


@pytest.mark.parametrize("force", [False, True])
async def test_one_that_somebody_has_is_refused_also_when_forced(
    cloud: SimulatedCloud, *, force: bool
) -> None:
    volume_id = await make_volume(cloud)
    assert (await act(cloud, volume_id, "os-reserve", None)).status == 202
    answer = await upload(cloud, volume_id, force=force)
    assert answer.status == 400
    assert "must be available" in answer.fault
    assert await status(cloud, volume_id) == "attaching"


async def test_what_is_not_there_is_not_uploaded(cloud: SimulatedCloud) -> None:
    assert (await upload(cloud, UNKNOWN)).status == 404
    storage(cloud).knobs.fail("create", NoCapacity("The disk is full."))
    failed = await make_volume(cloud)
    assert await status(cloud, failed) == "error"
    assert (await upload(cloud, failed)).status == 400


async def test_what_the_image_service_refuses_is_the_answer(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    images: Image = cloud.cloud[IMAGE_SERVICE]
    images.settings = replace(images.settings, count_total=1)
    assert (await upload(cloud, volume_id)).status == 202
    await cloud.settle()
    assert (await upload(cloud, volume_id)).status in {400, 403, 413}
    await cloud.settle()
    assert await status(cloud, volume_id) == "available"
    assert await messages(cloud) == []


async def test_a_full_host_leaves_neither_image_nor_copy(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    storage(cloud).knobs.fail("capture", NoCapacity("The disk is full."))
    await undone(cloud, volume_id, await begun(cloud, volume_id, protected=True))
    assert await messages(cloud) == ["VOLUME_VOLUME_003_004"]


async def test_an_image_that_is_deleted_on_its_way_ends_the_operation(
    cloud: SimulatedCloud,
) -> None:
    volume_id = await make_volume(cloud)
    storage(cloud).knobs.hold("capture")
    image_id = await begun(cloud, volume_id)
    await storage(cloud).knobs.held("capture")
    assert (await cloud.ask("DELETE", f"{IMAGES}/{image_id}")).status == 204
    storage(cloud).knobs.release("capture")
    await undone(cloud, volume_id, image_id)
    assert await messages(cloud) == ["VOLUME_VOLUME_003_004"]


async def test_an_image_that_its_owner_protects_too_soon_is_undone_all_the_same(
    cloud: SimulatedCloud,
) -> None:
    volume_id = await make_volume(cloud)
    storage(cloud).knobs.hold("capture")
    image_id = await begun(cloud, volume_id)
    await storage(cloud).knobs.held("capture")
    change = [{"op": "replace", "path": "/protected", "value": True}]
    media = {"content-type": "application/openstack-images-v2.1-json-patch"}
    assert (await cloud.ask("PATCH", f"{IMAGES}/{image_id}", change, headers=media)).status == 200
    storage(cloud).knobs.fail("capture", NoCapacity("The disk is full."))
    storage(cloud).knobs.release("capture")
    await undone(cloud, volume_id, image_id)


async def test_an_image_that_is_deactivated_before_its_upload_is_noted_stays(
    cloud: SimulatedCloud,
) -> None:
    volume_id, has_data = await make_volume(cloud), asyncio.Event()

    def lose() -> Exception:
        has_data.set()
        return Unavailable("The process was busy.")

    cloud.probe.arm("volume.upload_volume/upload_image/forward/after", lose)
    image_id = await begun(cloud, volume_id)
    await cloud.until_answered(asyncio.create_task(has_data.wait()))
    off = await cloud.ask("POST", f"{IMAGES}/{image_id}/actions/deactivate", user="admin")
    assert off.status == 204, off.text
    await cloud.settle()
    assert (await show(cloud, image_id)).key("status") == "deactivated"
    assert await status(cloud, volume_id) == "available"


async def test_a_copy_that_is_gone_ends_the_operation(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    point = "volume.upload_volume/upload_image/forward/before"

    def lose() -> Exception:
        for path in captures(cloud):
            path.unlink()
        return Unavailable("The process was busy.")

    cloud.probe.arm(point, lose)
    await undone(cloud, volume_id, await begun(cloud, volume_id))
    assert await messages(cloud) == ["VOLUME_VOLUME_003_004"]


async def test_a_forced_deletion_in_the_middle_leaves_nothing(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    storage(cloud).knobs.hold("capture")
    image_id = await begun(cloud, volume_id)
    await storage(cloud).knobs.held("capture")
    deleting = asyncio.create_task(
        cloud.ask("POST", f"{VOLUMES}/{volume_id}/action", {"os-force_delete": {}}, user="admin")
    )
    assert (await deleting).status == 202
    storage(cloud).knobs.release("capture")
    await cloud.settle()
    assert (await cloud.ask("GET", f"{VOLUMES}/{volume_id}")).status == 404
    assert (await show(cloud, image_id)).status == 404
    assert captures(cloud) == []
    assert await cloud.complaints() == []


async def say_nothing(request: Request, forward: Forward) -> Response:
    del request, forward
    raise Unavailable("The agent gave no answer.")


@pytest.mark.parametrize(
    ("reset", "becomes"),
    [({"status": "error"}, "error"), ({"migration_status": "none"}, "available")],
)
async def test_a_reset_in_the_middle_leaves_no_image(
    cloud: SimulatedCloud, reset: dict[str, str], becomes: str
) -> None:
    volume_id = await make_volume(cloud)
    deliver, cloud.deliver_to_host = cloud.deliver_to_host, say_nothing
    image_id = await begun(cloud, volume_id)
    await cloud.settle(60.0)
    assert await status(cloud, volume_id) == "uploading"
    answer = await act(cloud, volume_id, "os-reset_status", reset, user="admin")
    assert answer.status == 202
    cloud.deliver_to_host = deliver
    await cloud.settle()
    assert await status(cloud, volume_id) == becomes
    assert (await show(cloud, image_id)).status == 404
    assert captures(cloud) == []
    assert await cloud.complaints() == []


async def test_a_copy_goes_with_its_volume(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    client = cloud.known_agents["h1"]
    await client.put_volume_capture(volume_id, UNKNOWN, "raw")
    assert len(captures(cloud)) == 2
    assert (await cloud.ask("DELETE", f"{VOLUMES}/{volume_id}")).status == 202
    await cloud.settle()
    assert captures(cloud) == []
    assert await cloud.complaints() == []
