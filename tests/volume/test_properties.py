from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.volume.dock import IMAGE, SERVER, Dock

pytestmark = pytest.mark.anyio


async def test_name_description_and_metadata_are_changed(dock: Dock) -> None:
    volume_id = await dock.make(name="old", metadata={"a": "1"})
    body: dict[str, Any] = {"volume": {"name": "new", "description": None, "metadata": {"b": "2"}}}
    answer = await dock.ask("PUT", f"/volumes/{volume_id}", body)
    assert answer.status == 200
    assert "os-vol-host-attr:host" not in answer.json["volume"]
    shown = await dock.show(volume_id)
    assert (shown["name"], shown["metadata"]) == ("new", {"b": "2"})
    assert shown["updated_at"] is not None
    for refused in ({}, {"surprise": 1}, {"name": "n" * 256}):
        answer = await dock.ask("PUT", f"/volumes/{volume_id}", {"volume": refused})
        assert answer.status == 400
    await dock.set(volume_id, status="maintenance")
    assert (await dock.ask("PUT", f"/volumes/{volume_id}", body)).status == 400


async def test_metadata_is_merged_replaced_and_removed(dock: Dock) -> None:
    volume_id = await dock.make(metadata={"a": "1"})
    path = f"/volumes/{volume_id}/metadata"
    merged = await dock.ask("POST", path, {"metadata": {"b": "2"}})
    assert (merged.status, merged.json) == (200, {"metadata": {"a": "1", "b": "2"}})
    replaced = await dock.ask("PUT", path, {"metadata": {"c": "3"}})
    assert replaced.json == {"metadata": {"c": "3"}}
    assert (await dock.ask("GET", path)).json == {"metadata": {"c": "3"}}
    item = await dock.ask("PUT", f"{path}/c", {"meta": {"c": "4"}})
    assert item.json == {"meta": {"c": "4"}}
    assert (await dock.ask("GET", f"{path}/c")).json == {"meta": {"c": "4"}}
    assert (await dock.ask("PUT", f"{path}/c", {"meta": {"d": "4"}})).status == 400
    assert (await dock.ask("GET", f"{path}/d")).status == 404
    assert (await dock.ask("DELETE", f"{path}/c")).status == 200
    assert (await dock.ask("DELETE", f"{path}/c")).status == 404
    refused: list[Any] = [{"metadata": {"k": None}}, {"metadata": {"k$": "v"}}, {"other": {}}, {}]
    for bad in refused:
        assert (await dock.ask("POST", path, bad)).status == 400
    await dock.set(volume_id, status="uploading", borrowed_by="test")
    assert (await dock.ask("POST", path, {"metadata": {"b": "2"}})).status == 400


async def test_image_metadata_is_set_shown_and_removed(dock: Dock) -> None:
    volume_id = await dock.make(imageRef=IMAGE)
    answer = await dock.act(volume_id, "os-set_image_metadata", {"metadata": {"kernel": "x"}})
    assert answer.status == 200
    assert answer.json["metadata"]["kernel"] == "x"
    shown = await dock.act(volume_id, "os-show_image_metadata", None, who="reader")
    assert shown.json == answer.json
    assert (await dock.act(volume_id, "os-unset_image_metadata", {"key": "kernel"})).status == 200
    assert (await dock.act(volume_id, "os-unset_image_metadata", {"key": "kernel"})).status == 404


@pytest.mark.parametrize("value", [True, "True", "yes", 1])
async def test_bootable_is_set_in_any_spelling(dock: Dock, value: Any) -> None:
    volume_id = await dock.make()
    assert (await dock.act(volume_id, "os-set_bootable", {"bootable": value})).status == 200
    assert (await dock.show(volume_id))["bootable"] == "true"
    assert (await dock.act(volume_id, "os-set_bootable", {"bootable": "maybe"})).status == 400
    assert (await dock.act(volume_id, "os-set_bootable", {})).status == 400


async def test_the_read_only_flag_is_changed_while_available_only(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.attach(volume_id)
    answer = await dock.act(volume_id, "os-update_readonly_flag", {"readonly": True})
    assert answer.status == 400


@pytest.mark.parametrize("action", ["os-retype", "os-migrate_volume"])
async def test_actions_that_are_not_built_are_refused_by_name(dock: Dock, action: str) -> None:
    volume_id = await dock.make()
    answer = await dock.act(volume_id, action, {})
    assert answer.status == 400
    assert action in answer.fault
    assert (await dock.act(volume_id, "a", None, version="3.0")).status == 400


@pytest.mark.parametrize("status", ["error", "available", "maintenance", "attaching", "reserved"])
async def test_an_administrator_resets_the_status(dock: Dock, status: str) -> None:
    volume_id = await dock.make()
    body = {"status": status}
    assert (await dock.act(volume_id, "os-reset_status", body, who="member")).status == 403
    assert (await dock.act(volume_id, "os-reset_status", body, who="admin")).status == 202
    assert await dock.status(volume_id) == status
    await dock.engine.settle()
    assert await dock.complaints() == []


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
async def test_a_reset_that_makes_no_sense_is_refused(dock: Dock, body: dict[str, Any]) -> None:
    volume_id = await dock.make()
    assert (await dock.act(volume_id, "os-reset_status", body, who="admin")).status == 400
    assert await dock.status(volume_id) == "available"


async def test_resetting_to_detached_ends_exports_and_forgets_attachments(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.attach(volume_id)
    body = {"status": "error", "attach_status": "detached", "migration_status": "none"}
    assert (await dock.act(volume_id, "os-reset_status", body, who="admin")).status == 202
    await dock.engine.settle()
    shown = await dock.show(volume_id)
    assert (shown["status"], shown["attachments"]) == ("available", [])
    assert "attached_mode" not in shown["metadata"]
    assert await dock.exports() == set()
    assert await dock.complaints() == []


async def test_a_reset_status_of_an_attached_volume_goes_back_and_forth(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.attach(volume_id)
    for status in ("error", "in-use"):
        body = {"status": status}
        assert (await dock.act(volume_id, "os-reset_status", body, who="admin")).status == 202
        assert await dock.status(volume_id) == status


async def test_a_reset_ends_what_is_connecting(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = (await dock.reserve(volume_id)).json["attachment"]["id"]
    dock.storage.knobs.hold("export")
    connecting = asyncio.create_task(dock.connect(attachment_id))
    while not dock.storage.knobs.passed.get("export"):
        await asyncio.wait([connecting], timeout=0.01)
    body = {"status": "error"}
    resetting = asyncio.create_task(dock.act(volume_id, "os-reset_status", body, who="admin"))
    await dock.until_pre_empted()
    dock.storage.knobs.release("export")
    assert (await resetting).status == 202
    assert (await connecting).status == 409
    await dock.engine.settle()
    assert await dock.status(volume_id) == "error"
    assert await dock.exports() == set()
    assert await dock.attachments(volume_id) == {attachment_id: "reserved"}
    assert await dock.complaints() == []


async def test_encryption_is_none(dock: Dock) -> None:
    volume_id = await dock.make()
    answer = await dock.ask("GET", f"/volumes/{volume_id}/encryption")
    assert (answer.status, answer.json) == (200, {"encryption_key_id": None})
    assert SERVER not in answer.content.decode()
