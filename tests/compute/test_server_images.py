"""Images of servers: what is made, of what, and who is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring import qcow2
from mooring.errors import NoCapacity
from tests.answers import Answer
from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio
SERVERS, IMAGES = "/compute/v2.1/servers", "/image/v2/images"
BASE = {
    "name": "base",
    "disk_format": "raw",
    "container_format": "bare",
    "hw_disk_bus": "virtio",
    "img_signature": "of the base alone",
}


@pytest.fixture
async def cloud(tmp_path: Path, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path) as opened:
        yield opened


async def make_base(cloud: SimulatedCloud) -> str:
    image_id = (await cloud.ask("POST", IMAGES, BASE)).key("id")
    await cloud.ask("PUT", f"{IMAGES}/{image_id}/file", b"\0" * 512)
    return image_id


async def make_server(cloud: SimulatedCloud, image_id: str) -> str:
    wanted = {"name": "s", "flavorRef": "1", "imageRef": image_id}
    made = await cloud.do("POST", SERVERS, {"server": wanted})
    assert made is not None
    await cloud.settle()
    return made.key("server")["id"]


async def act(cloud: SimulatedCloud, server_id: str, action: str, value: Any, **how: Any) -> Answer:
    answer = await cloud.do("POST", f"{SERVERS}/{server_id}/action", {action: value}, **how)
    assert answer is not None
    return answer


async def picture(cloud: SimulatedCloud, server_id: str, **how: Any) -> Answer:
    value = {"name": "picture", "metadata": {"role": "db", "hw_disk_bus": "scsi"}}
    return await act(cloud, server_id, "createImage", value, version="2.45", **how)


def captures(cloud: SimulatedCloud) -> list[Path]:
    return list(cloud.settings.state_path.glob("hosts/*/guests/*/*.capture*"))


@pytest.mark.parametrize("before", ["", "os-stop", "pause", "suspend"])
async def test_an_image_is_made_of_a_server_whatever_it_does(
    cloud: SimulatedCloud, before: str
) -> None:
    base = await make_base(cloud)
    server_id = await make_server(cloud, base)
    if before:
        await act(cloud, server_id, before, None)
        await cloud.settle()
    was = (await cloud.ask("GET", f"{SERVERS}/{server_id}")).key("server")
    image_id = (await picture(cloud, server_id)).key("image_id")
    await cloud.settle()
    image = (await cloud.ask("GET", f"{IMAGES}/{image_id}")).body
    told = {key: image[key] for key in ("status", "name", "visibility", "disk_format", "min_disk")}
    assert told == {
        "status": "active",
        "name": "picture",
        "visibility": "private",
        "disk_format": "qcow2",
        "min_disk": 1,
    }
    assert image["virtual_size"] == 1 << 30
    assert (image["image_type"], image["instance_uuid"]) == ("snapshot", server_id)
    assert (image["base_image_ref"], image["role"]) == (base, "db")
    assert image["hw_disk_bus"] == "scsi"
    assert "img_signature" not in image
    data = (await cloud.ask("GET", f"{IMAGES}/{image_id}/file")).content
    assert qcow2.read_alone(data[: qcow2.HEADER_BYTES]) == 1 << 30
    now = (await cloud.ask("GET", f"{SERVERS}/{server_id}")).key("server")
    assert (now["status"], now["OS-EXT-STS:task_state"]) == (was["status"], None)
    assert captures(cloud) == []


async def test_an_image_is_of_the_type_that_the_user_gives_it(cloud: SimulatedCloud) -> None:
    """What else it says of the server is the cloud's, whatever the user gives."""
    server_id = await make_server(cloud, await make_base(cloud))
    wish = {"name": "p", "metadata": {"image_type": "golden", "instance_uuid": "another"}}
    answer = await act(cloud, server_id, "createImage", wish, version="2.45")
    await cloud.settle()
    image = (await cloud.ask("GET", f"{IMAGES}/{answer.key('image_id')}")).body
    assert (image["image_type"], image["instance_uuid"]) == ("golden", server_id)


async def test_a_server_is_made_from_an_image_of_another(cloud: SimulatedCloud) -> None:
    first = await make_server(cloud, await make_base(cloud))
    image_id = (await picture(cloud, first)).key("image_id")
    await cloud.settle()
    second = await make_server(cloud, image_id)
    assert (await cloud.ask("GET", f"{SERVERS}/{second}")).key("server")["status"] == "ACTIVE"


async def test_older_versions_are_told_where_the_image_is(cloud: SimulatedCloud) -> None:
    server_id = await make_server(cloud, await make_base(cloud))
    answer = await act(cloud, server_id, "createImage", {"name": "p"}, version="2.44")
    await cloud.settle()
    assert (answer.status, answer.content) == (202, b"")
    image_id = answer.headers["location"].rpartition("/images/")[2]
    assert (await cloud.ask("GET", f"{IMAGES}/{image_id}")).key("status") == "active"


async def test_a_locked_server_is_pictured_and_a_busy_one_is_not(cloud: SimulatedCloud) -> None:
    server_id = await make_server(cloud, await make_base(cloud))
    await act(cloud, server_id, "lock", None)
    assert (await picture(cloud, server_id)).status == 202
    refused = await cloud.ask(
        "POST", f"{SERVERS}/{server_id}/action", {"createImage": {"name": "again"}}
    )
    assert refused.status == 409
    assert "task_state image_" in refused.fault
    await cloud.settle()


async def test_a_full_host_leaves_neither_image_nor_copy(cloud: SimulatedCloud) -> None:
    server_id = await make_server(cloud, await make_base(cloud))
    hypervisor: Any = cloud.agents["h1"].agent.hypervisor
    hypervisor.knobs.fail("capture_root", NoCapacity("The disk is full."))
    image_id = (await picture(cloud, server_id)).key("image_id")
    await cloud.settle()
    assert (await cloud.ask("GET", f"{IMAGES}/{image_id}")).status == 404
    shown = (await cloud.ask("GET", f"{SERVERS}/{server_id}")).key("server")
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    assert captures(cloud) == []


async def test_what_the_image_service_refuses_is_the_answer(cloud: SimulatedCloud) -> None:
    server_id = await make_server(cloud, await make_base(cloud))
    wanted = {"name": "p", "metadata": {f"key{number}": "x" for number in range(300)}}
    refused = await act(cloud, server_id, "createImage", wanted)
    assert refused.status in {400, 403, 413}
    await cloud.settle()
    shown = (await cloud.ask("GET", f"{SERVERS}/{server_id}")).key("server")
    assert shown["OS-EXT-STS:task_state"] is None


async def test_an_image_that_is_deleted_on_its_way_ends_the_operation(
    cloud: SimulatedCloud,
) -> None:
    server_id = await make_server(cloud, await make_base(cloud))
    image_id = (await picture(cloud, server_id)).key("image_id")
    assert (await cloud.ask("DELETE", f"{IMAGES}/{image_id}")).status == 204
    await cloud.settle()
    shown = (await cloud.ask("GET", f"{SERVERS}/{server_id}")).key("server")
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    assert captures(cloud) == []


async def test_a_server_that_is_deleted_meanwhile_leaves_no_half_image(
    cloud: SimulatedCloud,
) -> None:
    server_id = await make_server(cloud, await make_base(cloud))
    image_id = (await picture(cloud, server_id)).key("image_id")
    await cloud.ask("DELETE", f"{SERVERS}/{server_id}")
    await cloud.settle()
    assert (await cloud.ask("GET", f"{SERVERS}/{server_id}")).status == 404
    left = await cloud.ask("GET", f"{IMAGES}/{image_id}")
    assert left.status == 404 or left.body["status"] == "active"
    assert captures(cloud) == []
