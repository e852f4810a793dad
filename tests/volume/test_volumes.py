from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import Conflict, NoCapacity
from tests.volume.cloud import IMAGE, UNKNOWN, VolumeCloud, connector

pytestmark = pytest.mark.anyio


async def test_a_new_volume_is_made_in_a_pool_with_room(cloud: VolumeCloud) -> None:
    answer = await cloud.ask("POST", "/volumes", {"volume": {"size": 2, "name": "data"}})
    assert answer.status == 202
    shown = answer.body["volume"]
    assert shown["status"] == "creating"
    assert "os-vol-tenant-attr:tenant_id" not in shown
    await cloud.settle()
    made = await cloud.show(shown["id"])
    assert made["status"] == "available"
    assert made["os-vol-host-attr:host"] == "host1@simulated#fast"
    assert [each.size_gib for each in await cloud.storage.volumes()] == [2]
    assert await cloud.complaints() == []


async def test_a_volume_from_an_image_shows_the_image(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make(imageRef=IMAGE)
    shown = await cloud.show(volume_id)
    assert (shown["status"], shown["bootable"]) == ("available", "true")
    assert shown["volume_image_metadata"]["image_name"] == "cirros"
    assert shown["volume_image_metadata"]["hw_disk_bus"] == "virtio"
    await cloud.make(imageRef=IMAGE)
    assert cloud.shelf.downloads == 1


async def test_without_a_pool_the_volume_ends_in_error_with_a_message(cloud: VolumeCloud) -> None:
    name = await cloud.type_with(vendor_name="nobody")
    volume_id = await cloud.make(volume_type=name)
    assert await cloud.status(volume_id) == "error"
    answer = await cloud.ask("GET", "/messages")
    (message,) = answer.body["messages"]
    assert message["resource_uuid"] == volume_id
    assert message["event_id"] == "VOLUME_VOLUME_001_003"
    assert (await cloud.ask("DELETE", f"/messages/{message['id']}")).status == 204
    assert (await cloud.ask("GET", f"/messages/{message['id']}")).status == 404


async def test_a_creation_that_the_storage_refuses_leaves_nothing_in_it(cloud: VolumeCloud) -> None:
    cloud.storage.knobs.fail("create", NoCapacity("The pool is full."))
    volume_id = await cloud.make()
    assert await cloud.status(volume_id) == "error"
    assert await cloud.storage.volumes() == []
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await cloud.settle()
    assert (await cloud.ask("GET", f"/volumes/{volume_id}")).status == 404


@pytest.mark.parametrize("size", [0, -1, "", "#$%", "one", None, True, 2**31])
async def test_a_size_that_makes_no_sense_is_refused(cloud: VolumeCloud, size: Any) -> None:
    answer = await cloud.ask("POST", "/volumes", {"volume": {"size": size}})
    assert answer.status == 400
    assert "badRequest" in answer.body
    assert await cloud.count_volumes() == 0


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"volume_type": UNKNOWN}, 404),
        ({"snapshot_id": UNKNOWN}, 404),
        ({"backup_id": UNKNOWN}, 404),
        ({"group_id": UNKNOWN}, 404),
        ({"source_volid": UNKNOWN}, 404),
        ({"imageRef": UNKNOWN}, 400),
        ({"availability_zone": "elsewhere"}, 400),
        ({"multiattach": True}, 400),
        ({"metadata": {"": "x"}}, 400),
        ({"metadata": {"k" * 256: "x"}}, 400),
        ({"metadata": {"k": "x" * 256}}, 400),
        ({"metadata": {"k": 1}}, 400),
        ({"name": "n" * 256}, 400),
        ({"surprise": 1}, 400),
    ],
)
async def test_what_cannot_be_made_is_refused(
    cloud: VolumeCloud, fields: dict[str, Any], status: int
) -> None:
    answer = await cloud.ask("POST", "/volumes", {"volume": {"size": 1, **fields}})
    assert answer.status == status, answer.content
    assert await cloud.count_volumes() == 0


async def test_unknown_keys_are_ignored_below_3_53(cloud: VolumeCloud) -> None:
    body = {"volume": {"size": "1", "surprise": 1, "display_name": "old"}}
    answer = await cloud.ask("POST", "/volumes", body, version="3.52")
    assert answer.status == 202
    assert answer.body["volume"]["name"] == "old"
    await cloud.settle()


@pytest.mark.parametrize(
    "change",
    [
        {"status": "queued"},
        {"min_disk": 2},
        {"size": 2**30 + 1},
        {"disk_format": "iso"},
        {"size": 0, "block_device_mapping": "[]"},
    ],
)
async def test_an_image_that_does_not_fit_is_refused(
    cloud: VolumeCloud, change: dict[str, Any]
) -> None:
    cloud.shelf.images[IMAGE] |= change
    answer = await cloud.ask("POST", "/volumes", {"volume": {"size": 1, "imageRef": IMAGE}})
    assert answer.status == 400


async def test_an_image_names_the_type_unless_the_caller_does(cloud: VolumeCloud) -> None:
    named, other = await cloud.type_with(a="1"), await cloud.type_with(b="2")
    types = (await cloud.ask("GET", "/types", user="admin")).body["volume_types"]
    ids = {one["name"]: one["id"] for one in types}
    cases: tuple[tuple[str, dict[str, Any], str], ...] = (
        (named, {}, named),
        (ids[named], {}, named),
        (named, {"volume_type": other}, other),
        ("nobody's", {"volume_type": other}, other),
        ("", {}, "__DEFAULT__"),
    )
    for given, more, expected in cases:
        cloud.shelf.images[IMAGE]["cinder_img_volume_type"] = given
        volume_id = await cloud.make(imageRef=IMAGE, **more)
        assert (await cloud.show(volume_id))["volume_type"] == expected, (given, more)


async def test_an_image_that_names_an_unknown_type_is_400(cloud: VolumeCloud) -> None:
    cloud.shelf.images[IMAGE]["cinder_img_volume_type"] = "nobody's"
    answer = await cloud.ask("POST", "/volumes", {"volume": {"size": 1, "imageRef": IMAGE}})
    assert answer.status == 400
    assert "nobody's" in answer.body["badRequest"]["message"]
    assert await cloud.count_volumes() == 0


async def test_others_volumes_look_absent_but_to_an_administrator(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    for method, path, body in (
        ("GET", f"/volumes/{volume_id}", None),
        ("PUT", f"/volumes/{volume_id}", {"volume": {"name": "mine"}}),
        ("DELETE", f"/volumes/{volume_id}", None),
        ("GET", f"/volumes/{volume_id}/metadata", None),
        ("GET", f"/volumes/{volume_id}/encryption", None),
        ("POST", f"/volumes/{volume_id}/action", {"os-reserve": None}),
    ):
        assert (await cloud.ask(method, path, body, user="stranger")).status == 404
    assert (await cloud.ask("GET", f"/volumes/{volume_id}", user="admin")).status == 200
    assert (await cloud.ask("GET", "/volumes", user="stranger")).body["volumes"] == []


async def test_a_reader_may_look_and_no_more(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    assert (await cloud.ask("GET", f"/volumes/{volume_id}", user="reader")).status == 200
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}", user="reader")).status == 403
    answer = await cloud.ask("POST", "/volumes", {"volume": {"size": 1}}, user="reader")
    assert answer.status == 403
    assert "volume:create" in answer.fault


async def test_deleting_takes_the_volume_out_of_its_pool(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    assert (
        await cloud.ask("DELETE", f"/volumes/{volume_id}?cascade=False&force=False")
    ).status == 202
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await cloud.settle()
    assert (await cloud.ask("GET", f"/volumes/{volume_id}")).status == 404
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 404
    assert await cloud.storage.volumes() == []


@pytest.mark.parametrize(
    "status",
    ["creating", "reserved", "attaching", "detaching", "in-use", "maintenance", "downloading"],
)
async def test_a_volume_that_is_busy_is_not_deleted(cloud: VolumeCloud, status: str) -> None:
    volume_id = await cloud.make()
    await cloud.set(volume_id, status=status)
    answer = await cloud.ask("DELETE", f"/volumes/{volume_id}")
    assert answer.status == 400
    assert status in answer.fault


@pytest.mark.parametrize(
    "status", ["error", "error_extending", "error_restoring", "error_deleting"]
)
async def test_a_volume_in_error_is_deleted(cloud: VolumeCloud, status: str) -> None:
    volume_id = await cloud.make()
    await cloud.set(volume_id, status=status)
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await cloud.settle()
    assert await cloud.count_volumes() == 0


async def test_a_migrating_volume_is_not_deleted(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.set(volume_id, migration_status="migrating")
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 400


async def test_a_deletion_that_the_storage_refuses_may_be_tried_again(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    cloud.storage.knobs.fail("delete", Conflict("Somebody holds it."))
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await cloud.settle()
    assert await cloud.status(volume_id) == "error_deleting"
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await cloud.settle()
    assert await cloud.count_volumes() == 0


@pytest.mark.parametrize("status", ["creating", "attaching", "error", "maintenance"])
async def test_force_deletes_from_any_status_but_attached(cloud: VolumeCloud, status: str) -> None:
    volume_id = await cloud.make()
    await cloud.set(volume_id, status=status)
    assert (await cloud.act(volume_id, "os-force_delete", {}, user="member")).status == 403
    assert (await cloud.act(volume_id, "os-force_delete", {}, user="admin")).status == 202
    await cloud.settle()
    assert await cloud.count_volumes() == 0
    assert await cloud.storage.volumes() == []


async def test_a_volume_that_a_reset_left_in_error_is_deleting_until_it_is_gone(
    cloud: VolumeCloud,
) -> None:
    """A reset had its turn between the word that a volume is to be deleted and the first step."""
    volume_id, knobs = await cloud.make(), cloud.storage.knobs
    for point in ("extend", "delete"):
        knobs.hold(point)
    assert (await cloud.act(volume_id, "os-extend", {"new_size": 2})).status == 202
    await knobs.held("extend")
    assert (await cloud.act(volume_id, "os-force_delete", {}, user="admin")).status == 202
    await cloud.set(volume_id, status="error")
    knobs.release("extend")
    await knobs.held("delete")
    assert await cloud.status(volume_id) == "deleting"
    knobs.release("delete")
    await cloud.settle()
    assert await cloud.count_volumes() == 0


async def test_no_force_deletes_a_volume_that_is_being_given_to_a_second_host(
    cloud: VolumeCloud,
) -> None:
    volume_id = await cloud.make()
    await cloud.attach(volume_id)
    second = await cloud.reserve(volume_id, connector=connector("host2"))
    assert (second.status, await cloud.status(volume_id)) == (200, "attaching")
    assert (await cloud.act(volume_id, "os-force_delete", {}, user="admin")).status == 400
    assert await cloud.status(volume_id) == "attaching"
    assert len(await cloud.exports()) == 2


async def test_force_in_the_query_is_for_administrators_from_3_23(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.set(volume_id, status="maintenance")
    path = f"/volumes/{volume_id}?force=true"
    assert (await cloud.ask("DELETE", path)).status == 403
    assert (await cloud.ask("DELETE", path, user="admin", version="3.22")).status == 400
    assert (await cloud.ask("DELETE", path, user="admin", version="3.23")).status == 202
    await cloud.settle()


async def test_force_delete_ends_what_is_making_the_volume(cloud: VolumeCloud) -> None:
    cloud.storage.knobs.hold("create")
    answer = await cloud.ask("POST", "/volumes", {"volume": {"size": 1}})
    volume_id = answer.body["volume"]["id"]
    assert (await cloud.act(volume_id, "os-force_delete", {}, user="admin")).status == 202
    cloud.storage.knobs.release("create")
    await cloud.settle()
    assert await cloud.count_volumes() == 0
    assert await cloud.storage.volumes() == []
    assert await cloud.complaints() == []
