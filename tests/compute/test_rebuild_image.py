"""Rebuilding a server whose root disk is on its host."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import Conflict
from tests.compute.cloud import IMAGE, NEW, ComputeCloud
from tests.compute.rebuilding import rebuild, rebuild_well, state

pytestmark = pytest.mark.anyio


async def image_on_host(cloud: ComputeCloud, server_id: str) -> str:
    guest = await cloud.known_agents["host1"].show_server(server_id)
    return guest.image_id if guest else "none"


async def test_the_root_disk_is_made_anew_and_the_volumes_are_kept(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_attached()
    before = await cloud.attachments(server_id)
    answer = await rebuild(cloud, server_id)
    assert answer.status == 202
    assert answer.body["server"]["status"] == "REBUILD"
    assert answer.body["server"]["image"]["id"] == NEW
    assert answer.headers["location"].endswith(f"/servers/{server_id}")
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert await image_on_host(cloud, server_id) == NEW
    assert cloud.hypervisor().knobs.passed["remove"] == 1
    assert await cloud.disks(server_id) == [volume_id]
    assert await cloud.attachments(server_id) == before
    assert await cloud.volume_status(volume_id) == "in-use"
    assert (await cloud.actions(server_id))[-1] == ("rebuild", None)


async def test_a_server_that_was_stopped_ends_stopped(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    await cloud.act(server_id, "os-stop")
    await cloud.settle()
    await rebuild_well(cloud, server_id, version="2.1")
    assert await state(cloud, server_id) == ("SHUTOFF", None)
    guest = await cloud.known_agents["host1"].show_server(server_id)
    assert guest is not None
    assert (guest.state, guest.image_id) == ("stopped", NEW)


async def test_a_server_in_error_is_active_after_a_rebuild(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    await cloud.act(server_id, "os-resetState", {"state": "error"}, user="admin")
    await rebuild_well(cloud, server_id, IMAGE)
    assert await state(cloud, server_id) == ("ACTIVE", None)


async def test_user_data_stands_once_in_the_answer(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    answer = await rebuild(cloud, server_id, IMAGE, user_data="aGk=", user="admin")
    shown = answer.body["server"]
    assert [name for name in shown if name.endswith("user_data")] == ["user_data"]
    assert shown["user_data"] == "aGk="


async def test_the_body_changes_the_server(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server(metadata={"old": "1"})
    more: dict[str, Any] = {
        "name": "other",
        "metadata": {"new": "2"},
        "description": "a text",
        "hostname": "other-host",
        "user_data": "aGk=",
        "accessIPv4": "192.0.2.7",
        "accessIPv6": "2001:db8:0:0::7",
        "OS-DCF:diskConfig": "AUTO",
        "preserve_ephemeral": "False",
        "adminPass": "secret",
        "key_name": None,
    }
    answer = await rebuild(cloud, server_id, IMAGE, **more)
    assert answer.status == 202, answer.text
    shown = answer.body["server"]
    assert (shown["name"], shown["metadata"]) == ("other", {"new": "2"})
    assert (shown["adminPass"], shown["user_data"]) == ("secret", "aGk=")
    assert (shown["accessIPv4"], shown["accessIPv6"]) == ("192.0.2.7", "2001:db8::7")
    assert shown["description"] == "a text"
    assert shown["OS-EXT-SRV-ATTR:hostname"] == "other-host"
    await cloud.settle()
    assert (await cloud.server(server_id))["name"] == "other"


@pytest.mark.parametrize(
    ("more", "version"),
    [
        ({"description": "d"}, "2.18"),
        ({"key_name": None}, "2.53"),
        ({"user_data": None}, "2.56"),
        ({"personality": []}, "2.57"),
        ({"trusted_image_certificates": None}, "2.62"),
        ({"hostname": "h"}, "2.89"),
        ({"reimage_boot_volume": True}, "2.92"),
        ({"unheard_of": 1}, "2.93"),
        ({"reimage_boot_volume": "perhaps"}, "2.93"),
        ({"reimage_boot_volume": True}, "2.93"),
        ({"key_name": "nobody's"}, "2.93"),
        ({"trusted_image_certificates": ["c"]}, "2.93"),
    ],
)
async def test_what_its_version_or_this_cloud_does_not_know_is_400(
    cloud: ComputeCloud, more: dict[str, Any], version: str
) -> None:
    server_id = await cloud.make_server()
    answer = await rebuild(cloud, server_id, IMAGE, version=version, **more)
    assert answer.status == 400, answer.text
    assert await state(cloud, server_id) == ("ACTIVE", None)


@pytest.mark.parametrize(
    "said",
    [
        {"status": "queued"},
        {"status": "deactivated"},
        {"min_disk": 1000},
        {"min_ram": 100_000},
        {"size": 1 << 50},
        {"virtual_size": 1 << 50},
    ],
)
async def test_an_image_that_does_not_suit_is_400_and_changes_nothing(
    cloud: ComputeCloud, said: dict[str, Any]
) -> None:
    server_id = await cloud.make_server()
    cloud.shelf.images[NEW] |= said
    assert (await rebuild(cloud, server_id)).status == 400
    del cloud.shelf.images[NEW]
    assert (await rebuild(cloud, server_id)).status == 400
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert await cloud.actions(server_id) == [("create", None)]


async def test_a_locked_or_busy_server_is_409(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    await cloud.act(server_id, "lock")
    assert (await rebuild(cloud, server_id, IMAGE)).status == 409
    await cloud.act(server_id, "unlock")
    cloud.hypervisor().knobs.hold("power_off")
    assert (await rebuild(cloud, server_id, IMAGE)).status == 202
    assert (await rebuild(cloud, server_id, IMAGE)).status == 409
    assert await cloud.act(server_id, "os-stop") == 409
    cloud.hypervisor().knobs.release("power_off")
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None)


async def test_data_that_is_not_the_image_s_leaves_the_server_as_it_was(
    cloud: ComputeCloud,
) -> None:
    server_id = await cloud.make_server()
    cloud.shelf.data[NEW] = b"lies" * 16384
    await rebuild_well(cloud, server_id, name="other")
    assert await state(cloud, server_id) == ("ACTIVE", None)
    server = await cloud.server(server_id)
    assert (server["name"], server["image"]["id"]) == ("s", IMAGE)
    assert await image_on_host(cloud, server_id) == IMAGE
    assert (await cloud.actions(server_id))[-1] == ("rebuild", "Error")


async def test_a_guest_that_cannot_be_switched_off_goes_on(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    cloud.hypervisor().knobs.fail("power_off", Conflict("It will not go."))
    await rebuild_well(cloud, server_id, IMAGE)
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert (await cloud.actions(server_id))[-1] == ("rebuild", "Error")


async def test_a_guest_that_cannot_start_leaves_an_error_that_a_rebuild_mends(
    cloud: ComputeCloud,
) -> None:
    server_id = await cloud.make_server()
    cloud.hypervisor().knobs.fail("power_on", Conflict("No memory."))
    await rebuild_well(cloud, server_id, IMAGE)
    server = await cloud.server(server_id)
    assert server["status"] == "ERROR"
    assert server["fault"]["message"] == (
        "The server is in ERROR on host host1. Once what failed is mended, rebuild it again, or "
        "reboot it hard if only its guest did not start. On host1 it failed: No memory."
    )
    await rebuild_well(cloud, server_id, IMAGE)
    assert await state(cloud, server_id) == ("ACTIVE", None)


async def test_deleting_the_server_ends_its_rebuild(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_attached()
    cloud.hypervisor().knobs.hold("power_on")
    await rebuild(cloud, server_id, IMAGE)
    deleting = await cloud.meanwhile(cloud.ask("DELETE", f"/servers/{server_id}"))
    cloud.hypervisor().knobs.release("power_on")
    assert (await deleting).status == 204
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "gone"
    assert await cloud.volume_status(volume_id) == "available"
