from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mooring.errors import Conflict, NoCapacity
from tests.volume.dock import IMAGE, UNKNOWN, Dock

pytestmark = pytest.mark.anyio


async def test_a_new_volume_is_made_in_a_pool_with_room(dock: Dock) -> None:
    answer = await dock.ask("POST", "/volumes", {"volume": {"size": 2, "name": "data"}})
    assert answer.status == 202
    shown = answer.json["volume"]
    assert shown["status"] == "creating"
    assert "os-vol-tenant-attr:tenant_id" not in shown
    await dock.engine.settle()
    made = await dock.show(shown["id"])
    assert made["status"] == "available"
    assert made["os-vol-host-attr:host"] == "host1@simulated#fast"
    assert [each.size_gib for each in await dock.storage.volumes()] == [2]
    assert await dock.complaints() == []


async def test_a_volume_from_an_image_shows_the_image(dock: Dock) -> None:
    volume_id = await dock.make(imageRef=IMAGE)
    shown = await dock.show(volume_id)
    assert (shown["status"], shown["bootable"]) == ("available", "true")
    assert shown["volume_image_metadata"]["image_name"] == "cirros"
    assert shown["volume_image_metadata"]["hw_disk_bus"] == "virtio"
    await dock.make(imageRef=IMAGE)
    assert dock.images.downloads == 1


async def test_without_a_pool_the_volume_ends_in_error_with_a_message(dock: Dock) -> None:
    name = await dock.type_with(vendor_name="nobody")
    volume_id = await dock.make(volume_type=name)
    assert await dock.status(volume_id) == "error"
    answer = await dock.ask("GET", "/messages")
    (message,) = answer.json["messages"]
    assert message["resource_uuid"] == volume_id
    assert message["event_id"] == "VOLUME_VOLUME_001_003"
    assert (await dock.ask("DELETE", f"/messages/{message['id']}")).status == 204
    assert (await dock.ask("GET", f"/messages/{message['id']}")).status == 404


async def test_a_creation_that_the_storage_refuses_leaves_nothing_in_it(dock: Dock) -> None:
    dock.storage.knobs.fail("create", NoCapacity("The pool is full."))
    volume_id = await dock.make()
    assert await dock.status(volume_id) == "error"
    assert await dock.storage.volumes() == []
    assert (await dock.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await dock.engine.settle()
    assert (await dock.ask("GET", f"/volumes/{volume_id}")).status == 404


@pytest.mark.parametrize("size", [0, -1, "", "#$%", "one", None, True, 2**31])
async def test_a_size_that_makes_no_sense_is_refused(dock: Dock, size: Any) -> None:
    answer = await dock.ask("POST", "/volumes", {"volume": {"size": size}})
    assert answer.status == 400
    assert "badRequest" in answer.json
    assert await dock.count_volumes() == 0


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"volume_type": UNKNOWN}, 404),
        ({"snapshot_id": UNKNOWN}, 404),
        ({"backup_id": UNKNOWN}, 404),
        ({"group_id": UNKNOWN}, 404),
        ({"source_volid": UNKNOWN}, 400),
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
    dock: Dock, fields: dict[str, Any], status: int
) -> None:
    answer = await dock.ask("POST", "/volumes", {"volume": {"size": 1, **fields}})
    assert answer.status == status, answer.content
    assert await dock.count_volumes() == 0


async def test_unknown_keys_are_ignored_below_3_53(dock: Dock) -> None:
    body = {"volume": {"size": "1", "surprise": 1, "display_name": "old"}}
    answer = await dock.ask("POST", "/volumes", body, version="3.52")
    assert answer.status == 202
    assert answer.json["volume"]["name"] == "old"
    await dock.engine.settle()


@pytest.mark.parametrize(
    "change",
    [{"status": "queued"}, {"min_disk_gib": 2}, {"size_bytes": 2**30 + 1}, {"disk_format": "iso"}],
)
async def test_an_image_that_does_not_fit_is_refused(dock: Dock, change: dict[str, Any]) -> None:
    dock.images.known[IMAGE] = replace(dock.images.known[IMAGE], **change)
    answer = await dock.ask("POST", "/volumes", {"volume": {"size": 1, "imageRef": IMAGE}})
    assert answer.status == 400


async def test_others_volumes_look_absent_but_to_an_administrator(dock: Dock) -> None:
    volume_id = await dock.make()
    for method, path, body in (
        ("GET", f"/volumes/{volume_id}", None),
        ("PUT", f"/volumes/{volume_id}", {"volume": {"name": "mine"}}),
        ("DELETE", f"/volumes/{volume_id}", None),
        ("GET", f"/volumes/{volume_id}/metadata", None),
        ("GET", f"/volumes/{volume_id}/encryption", None),
        ("POST", f"/volumes/{volume_id}/action", {"os-reserve": None}),
    ):
        assert (await dock.ask(method, path, body, who="stranger")).status == 404
    assert (await dock.ask("GET", f"/volumes/{volume_id}", who="admin")).status == 200
    assert (await dock.ask("GET", "/volumes", who="stranger")).json["volumes"] == []


async def test_a_reader_may_look_and_no_more(dock: Dock) -> None:
    volume_id = await dock.make()
    assert (await dock.ask("GET", f"/volumes/{volume_id}", who="reader")).status == 200
    assert (await dock.ask("DELETE", f"/volumes/{volume_id}", who="reader")).status == 403
    answer = await dock.ask("POST", "/volumes", {"volume": {"size": 1}}, who="reader")
    assert answer.status == 403
    assert "volume:create" in answer.fault


async def test_deleting_takes_the_volume_out_of_its_pool(dock: Dock) -> None:
    volume_id = await dock.make()
    assert (
        await dock.ask("DELETE", f"/volumes/{volume_id}?cascade=False&force=False")
    ).status == 202
    assert (await dock.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await dock.engine.settle()
    assert (await dock.ask("GET", f"/volumes/{volume_id}")).status == 404
    assert (await dock.ask("DELETE", f"/volumes/{volume_id}")).status == 404
    assert await dock.storage.volumes() == []


@pytest.mark.parametrize(
    "status",
    ["creating", "reserved", "attaching", "detaching", "in-use", "maintenance", "downloading"],
)
async def test_a_volume_that_is_busy_is_not_deleted(dock: Dock, status: str) -> None:
    volume_id = await dock.make()
    await dock.set(volume_id, status=status)
    answer = await dock.ask("DELETE", f"/volumes/{volume_id}")
    assert answer.status == 400
    assert status in answer.fault


@pytest.mark.parametrize(
    "status", ["error", "error_extending", "error_restoring", "error_deleting"]
)
async def test_a_volume_in_error_is_deleted(dock: Dock, status: str) -> None:
    volume_id = await dock.make()
    await dock.set(volume_id, status=status)
    assert (await dock.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await dock.engine.settle()
    assert await dock.count_volumes() == 0


async def test_a_migrating_volume_is_not_deleted(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.set(volume_id, migration_status="migrating")
    assert (await dock.ask("DELETE", f"/volumes/{volume_id}")).status == 400


async def test_a_deletion_that_the_storage_refuses_may_be_tried_again(dock: Dock) -> None:
    volume_id = await dock.make()
    dock.storage.knobs.fail("delete", Conflict("Somebody holds it."))
    assert (await dock.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await dock.engine.settle()
    assert await dock.status(volume_id) == "error_deleting"
    assert (await dock.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await dock.engine.settle()
    assert await dock.count_volumes() == 0


@pytest.mark.parametrize("status", ["creating", "attaching", "error", "maintenance"])
async def test_force_deletes_from_any_status_but_attached(dock: Dock, status: str) -> None:
    volume_id = await dock.make()
    await dock.set(volume_id, status=status)
    assert (await dock.act(volume_id, "os-force_delete", {}, who="member")).status == 403
    assert (await dock.act(volume_id, "os-force_delete", {}, who="admin")).status == 202
    await dock.engine.settle()
    assert await dock.count_volumes() == 0
    assert await dock.storage.volumes() == []


async def test_force_in_the_query_is_for_administrators_from_3_23(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.set(volume_id, status="maintenance")
    path = f"/volumes/{volume_id}?force=true"
    assert (await dock.ask("DELETE", path)).status == 403
    assert (await dock.ask("DELETE", path, who="admin", version="3.22")).status == 400
    assert (await dock.ask("DELETE", path, who="admin", version="3.23")).status == 202
    await dock.engine.settle()


async def test_force_delete_ends_what_is_making_the_volume(dock: Dock) -> None:
    dock.storage.knobs.hold("create")
    answer = await dock.ask("POST", "/volumes", {"volume": {"size": 1}})
    volume_id = answer.json["volume"]["id"]
    assert (await dock.act(volume_id, "os-force_delete", {}, who="admin")).status == 202
    dock.storage.knobs.release("create")
    await dock.engine.settle()
    assert await dock.count_volumes() == 0
    assert await dock.storage.volumes() == []
    assert await dock.complaints() == []
