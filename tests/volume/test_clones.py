"""Volumes that are made from volumes (facts/block_storage.md 1.2, `source_volid`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import NoCapacity
from tests.answers import Answer
from tests.volume.cloud import IMAGE, SERVER, VolumeCloud
from tests.volume.test_snapshots import taken

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[VolumeCloud]:
    async with VolumeCloud(tmp_path, database=database) as opened:
        yield opened


async def clone(cloud: VolumeCloud, source: str, **fields: Any) -> Answer:
    body = {"volume": {"source_volid": source, **fields}}
    return await cloud.ask("POST", "/volumes", body)


async def cloned(cloud: VolumeCloud, source: str, **fields: Any) -> Any:
    """Make a volume from a volume, and return it once its fate is known."""
    answer = await clone(cloud, source, **fields)
    assert answer.status == 202, answer.content
    await cloud.settle()
    return await cloud.show(answer.body["volume"]["id"])


async def messages(cloud: VolumeCloud) -> int:
    return len((await cloud.ask("GET", "/messages")).body["messages"])


async def test_a_clone_is_as_its_source(cloud: VolumeCloud) -> None:
    source = await cloud.make(size=2, imageRef=IMAGE, metadata={"a": "b"})
    made = await cloned(cloud, source, name="copy")
    shown = await cloud.show(source)
    assert (made["status"], made["size"], made["source_volid"]) == ("available", 2, source)
    alike = ("bootable", "volume_type", "volume_image_metadata", "availability_zone")
    assert {key: made[key] for key in alike} == {key: shown[key] for key in alike}
    assert (made["metadata"], made["name"], made["snapshot_id"]) == ({}, "copy", None)
    assert shown["status"] == "available"
    both = {file.volume_id for file in await cloud.storage.volumes()}
    assert both == {source, made["id"]}


async def test_a_clone_may_be_larger_and_not_smaller(cloud: VolumeCloud) -> None:
    source = await cloud.make(size=2)
    assert (await cloned(cloud, source, size=3))["size"] == 3
    answer = await clone(cloud, source, size=1)
    assert answer.status == 400
    assert b"original volume size" in answer.content


async def test_either_is_deleted_without_the_other(cloud: VolumeCloud) -> None:
    source = await cloud.make()
    made = await cloned(cloud, source)
    for volume_id in (source, made["id"]):
        assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 202
        await cloud.settle()
    assert await cloud.count_volumes() == 0


async def test_a_volume_that_others_have_is_not_copied(cloud: VolumeCloud) -> None:
    source = await cloud.make()
    await cloud.attach(source)
    answer = await clone(cloud, source)
    assert answer.status == 400
    assert b"take a snapshot of it" in answer.content
    assert await cloud.count_volumes() == 1


async def test_one_source_is_enough(cloud: VolumeCloud) -> None:
    source = await cloud.make()
    answer = await clone(cloud, source, imageRef=IMAGE, size=1)
    assert answer.status == 400
    assert await cloud.count_volumes() == 1


async def test_others_volumes_are_unknown(cloud: VolumeCloud) -> None:
    source = await cloud.make()
    body = {"volume": {"source_volid": source}}
    assert (await cloud.ask("POST", "/volumes", body, user="stranger")).status == 404


async def test_a_connection_waits_for_a_copy_of_its_volume(cloud: VolumeCloud) -> None:
    source = await cloud.make()
    cloud.storage.knobs.hold("create")
    made = await clone(cloud, source)
    await cloud.storage.knobs.held("create")
    attachment_id = (await cloud.reserve(source, SERVER)).body["attachment"]["id"]
    connecting = asyncio.create_task(cloud.connect(attachment_id))
    assert not (await asyncio.wait([connecting], timeout=0.3))[0]
    cloud.storage.knobs.release("create")
    assert (await connecting).status == 200
    await cloud.settle()
    assert await cloud.status(made.body["volume"]["id"]) == "available"


async def test_a_copy_that_fails_leaves_nothing_and_says_so(cloud: VolumeCloud) -> None:
    source = await cloud.make()
    cloud.storage.knobs.fail("create", NoCapacity("The disk is full."))
    made = await cloned(cloud, source)
    assert made["status"] == "error"
    assert [file.volume_id for file in await cloud.storage.volumes()] == [source]
    assert await cloud.status(source) == "available"
    assert await messages(cloud) == 1


@pytest.mark.parametrize("of", ["volume", "snapshot"])
async def test_a_copy_whose_source_another_operation_took_is_in_error(
    cloud: VolumeCloud, of: str
) -> None:
    source = await cloud.make()
    fields = {"source_volid": source}
    if of == "snapshot":
        fields = {"snapshot_id": await taken(cloud, source)}
    with cloud.silence():
        made = (await cloud.ask("POST", "/volumes", {"volume": fields})).body["volume"]["id"]
        await cloud.settle(60.0)
        assert await cloud.status(made) == "creating"
        reset = cloud.act(source, "os-reset_status", {"status": "error"}, user="admin")
        assert (await cloud.drive(reset, turn_s=5.0)).status == 202
    await cloud.settle()
    assert await cloud.status(made) == "error"
    assert await cloud.complaints() == []
    assert [file.volume_id for file in await cloud.storage.volumes()] == [source]
    assert (await cloud.ask("DELETE", f"/volumes/{made}")).status == 202


async def test_a_source_that_is_gone_by_its_turn_makes_no_clone(cloud: VolumeCloud) -> None:
    source = await cloud.make()
    cloud.storage.knobs.hold("create")
    first = await clone(cloud, source)
    await cloud.storage.knobs.held("create")
    second = await clone(cloud, source)
    await cloud.act(source, "os-force_delete", {}, user="admin")
    cloud.storage.knobs.release("create")
    await cloud.settle()
    assert (await cloud.ask("GET", f"/volumes/{source}")).status == 404
    for answer in (first, second):
        assert await cloud.status(answer.body["volume"]["id"]) == "error"
    assert await cloud.complaints() == []
