from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.volume.cloud import IMAGE, SERVER, VolumeCloud

pytestmark = pytest.mark.anyio


async def test_name_description_and_metadata_are_changed(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make(name="old", metadata={"a": "1"})
    body: dict[str, Any] = {"volume": {"name": "new", "description": None, "metadata": {"b": "2"}}}
    answer = await cloud.ask("PUT", f"/volumes/{volume_id}", body)
    assert answer.status == 200
    assert "os-vol-host-attr:host" not in answer.body["volume"]
    shown = await cloud.show(volume_id)
    assert (shown["name"], shown["metadata"]) == ("new", {"b": "2"})
    assert shown["updated_at"] is not None
    for refused in ({}, {"surprise": 1}, {"name": "n" * 256}):
        answer = await cloud.ask("PUT", f"/volumes/{volume_id}", {"volume": refused})
        assert answer.status == 400
    await cloud.set(volume_id, status="maintenance")
    assert (await cloud.ask("PUT", f"/volumes/{volume_id}", body)).status == 400


async def test_metadata_is_merged_replaced_and_removed(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make(metadata={"a": "1"})
    path = f"/volumes/{volume_id}/metadata"
    merged = await cloud.ask("POST", path, {"metadata": {"b": "2"}})
    assert (merged.status, merged.body) == (200, {"metadata": {"a": "1", "b": "2"}})
    replaced = await cloud.ask("PUT", path, {"metadata": {"c": "3"}})
    assert replaced.body == {"metadata": {"c": "3"}}
    assert (await cloud.ask("GET", path)).body == {"metadata": {"c": "3"}}
    item = await cloud.ask("PUT", f"{path}/c", {"meta": {"c": "4"}})
    assert item.body == {"meta": {"c": "4"}}
    assert (await cloud.ask("GET", f"{path}/c")).body == {"meta": {"c": "4"}}
    assert (await cloud.ask("PUT", f"{path}/c", {"meta": {"d": "4"}})).status == 400
    assert (await cloud.ask("GET", f"{path}/d")).status == 404
    assert (await cloud.ask("DELETE", f"{path}/c")).status == 200
    assert (await cloud.ask("DELETE", f"{path}/c")).status == 404
    refused: list[Any] = [{"metadata": {"k": None}}, {"metadata": {"k$": "v"}}, {"other": {}}, {}]
    for bad in refused:
        assert (await cloud.ask("POST", path, bad)).status == 400
    await cloud.set(volume_id, status="uploading", borrowed_by="test")
    assert (await cloud.ask("POST", path, {"metadata": {"b": "2"}})).status == 400


async def test_image_metadata_is_set_shown_and_removed(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make(imageRef=IMAGE)
    answer = await cloud.act(volume_id, "os-set_image_metadata", {"metadata": {"kernel": "x"}})
    assert answer.status == 200
    assert answer.body["metadata"]["kernel"] == "x"
    shown = await cloud.act(volume_id, "os-show_image_metadata", None, user="reader")
    assert shown.body == answer.body
    assert (await cloud.act(volume_id, "os-unset_image_metadata", {"key": "kernel"})).status == 200
    assert (await cloud.act(volume_id, "os-unset_image_metadata", {"key": "kernel"})).status == 404


@pytest.mark.parametrize("value", [True, "True", "yes", 1])
async def test_bootable_is_set_in_any_spelling(cloud: VolumeCloud, value: Any) -> None:
    volume_id = await cloud.make()
    assert (await cloud.act(volume_id, "os-set_bootable", {"bootable": value})).status == 200
    assert (await cloud.show(volume_id))["bootable"] == "true"
    assert (await cloud.act(volume_id, "os-set_bootable", {"bootable": "maybe"})).status == 400
    assert (await cloud.act(volume_id, "os-set_bootable", {})).status == 400


async def test_the_read_only_flag_is_changed_while_available_only(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.attach(volume_id)
    answer = await cloud.act(volume_id, "os-update_readonly_flag", {"readonly": True})
    assert answer.status == 400


@pytest.mark.parametrize("action", ["os-unmanage"])
async def test_actions_that_are_not_built_are_refused_by_name(
    cloud: VolumeCloud, action: str
) -> None:
    volume_id = await cloud.make()
    answer = await cloud.act(volume_id, action, {})
    assert answer.status == 501
    assert action in answer.fault
    assert (await cloud.act(volume_id, "a", None, version="3.0")).status == 400


@pytest.mark.parametrize("status", ["error", "available", "maintenance", "attaching", "reserved"])
async def test_an_administrator_resets_the_status(cloud: VolumeCloud, status: str) -> None:
    volume_id = await cloud.make()
    body = {"status": status}
    assert (await cloud.act(volume_id, "os-reset_status", body, user="member")).status == 403
    assert (await cloud.act(volume_id, "os-reset_status", body, user="admin")).status == 202
    assert await cloud.status(volume_id) == status
    await cloud.settle()
    assert await cloud.complaints() == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"status": "deleting"},
        {"status": "sleeping"},
        {"status": "in-use"},
        {"attach_status": "attaching"},
        {"migration_status": "lost"},
        {"surprise": 1},
    ],
)
async def test_a_reset_that_makes_no_sense_is_refused(
    cloud: VolumeCloud, body: dict[str, Any]
) -> None:
    volume_id = await cloud.make()
    assert (await cloud.act(volume_id, "os-reset_status", body, user="admin")).status == 400
    assert await cloud.status(volume_id) == "available"


async def test_resetting_to_detached_ends_exports_and_forgets_attachments(
    cloud: VolumeCloud,
) -> None:
    volume_id = await cloud.make()
    await cloud.attach(volume_id)
    body = {"status": "error", "attach_status": "detached", "migration_status": "none"}
    assert (await cloud.act(volume_id, "os-reset_status", body, user="admin")).status == 202
    await cloud.settle()
    shown = await cloud.show(volume_id)
    assert (shown["status"], shown["attachments"]) == ("available", [])
    assert "attached_mode" not in shown["metadata"]
    assert await cloud.exports() == set()
    assert await cloud.complaints() == []


async def test_a_reset_status_of_an_attached_volume_goes_back_and_forth(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.attach(volume_id)
    for status in ("error", "in-use"):
        body = {"status": status}
        assert (await cloud.act(volume_id, "os-reset_status", body, user="admin")).status == 202
        assert await cloud.status(volume_id) == status


async def test_a_reset_ends_what_is_connecting(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    cloud.storage.knobs.hold("export")
    connecting = asyncio.create_task(cloud.connect(attachment_id))
    while not cloud.storage.knobs.passed.get("export"):
        await asyncio.wait([connecting], timeout=0.01)
    body = {"status": "error"}
    resetting = asyncio.create_task(cloud.act(volume_id, "os-reset_status", body, user="admin"))
    await cloud.until_pre_empted()
    cloud.storage.knobs.release("export")
    assert (await resetting).status == 202
    assert (await connecting).status == 409
    await cloud.settle()
    assert await cloud.status(volume_id) == "error"
    assert await cloud.exports() == set()
    assert await cloud.attachments(volume_id) == {attachment_id: "reserved"}
    assert await cloud.complaints() == []


async def test_encryption_is_none(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    answer = await cloud.ask("GET", f"/volumes/{volume_id}/encryption")
    assert (answer.status, answer.body) == (200, {"encryption_key_id": None})
    assert SERVER not in answer.content.decode()
    path = f"/volumes/{volume_id}/encryption"
    assert (await cloud.ask("GET", f"{path}/encryption_key_id")).body is None
    assert (await cloud.ask("GET", f"{path}/cipher")).status == 404
