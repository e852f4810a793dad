"""Records of backups: exported, and imported where the data are (facts/block_storage.md 8.6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.agent.settings import PoolSettings
from tests.cloud import SimulatedCloud
from tests.volume.backing_up import BACKUPS, UNKNOWN, act, backup, make_volume, restore, status
from tests.volume.recording import (
    SERVICE,
    another,
    ask_import,
    export,
    files,
    ids,
    imported,
    lose,
    made,
    record_of,
    url_of,
)
from tests.volume.test_backed_up_bytes import cloud as files_cloud
from tests.volume.test_backed_up_bytes import whole, write
from tests.volume.test_incremental_backups import a_large_volume

pytestmark = pytest.mark.anyio
__all__ = ["files_cloud"]


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    made = SimulatedCloud(tmp_path, database=database)
    made.user = "admin"
    async with made as opened:
        yield opened


async def refused(cloud: SimulatedCloud, url: str, *, service: str = SERVICE) -> str:
    """Have an import refused, which leaves no trace, and return what it is told."""
    before = await ids(cloud), files(cloud)
    answer = await ask_import(cloud, url, service=service)
    assert answer.status == 400
    assert (await ids(cloud), files(cloud)) == before
    assert await cloud.unfinished() == []
    return answer.content.decode()


async def test_a_backup_that_the_database_lost_is_what_it_was(cloud: SimulatedCloud) -> None:
    fields: dict[str, Any] = {"name": "n", "description": "d", "container": "box"}
    backup_id = await made(cloud, metadata={"a": "b"}, **fields)
    before, record = await backup(cloud, backup_id), await record_of(cloud, backup_id)
    stored = files(cloud)
    await lose(cloud)
    assert (await cloud.complaints())[0].endswith("that no backup explains")
    answer = await ask_import(cloud, url_of(record))
    assert answer.status == 201
    told = answer.key("backup")
    assert set(told) == {"id", "name", "links"}
    assert (told["id"], told["name"]) == (backup_id, "n")
    await cloud.settle()
    after = await backup(cloud, backup_id)
    for shown in (before, after):
        shown.pop("updated_at")
    assert after == before
    assert files(cloud) == stored
    target = await make_volume(cloud)
    assert (await restore(cloud, backup_id, volume_id=target)).status == 202
    await cloud.settle()
    assert await status(cloud, target) == "available"
    assert await cloud.complaints() == []


@pytest.mark.hosts
async def test_another_cloud_restores_a_chain_byte_for_byte(
    files_cloud: SimulatedCloud, tmp_path: Path
) -> None:
    cloud = files_cloud
    cloud.user = "admin"
    volume_id = await a_large_volume(cloud)
    contents, records = list[bytes](), list[dict[str, Any]]()
    for number in range(2):
        contents.append(await whole(cloud, volume_id, tmp_path / f"before{number}"))
        backup_id = await made(cloud, volume_id, incremental=number > 0)
        records.append(await record_of(cloud, backup_id))
        await write(cloud, volume_id, "write -q -P 0x77 1M 64k")
    await lose(cloud)
    other = another(cloud, tmp_path / "other")
    other.user = "admin"
    pool = PoolSettings(name="files", driver="directory", format="qcow2")
    other.hosts["h1"] = replace(other.hosts["h1"], pools=(pool,))
    async with other:
        for each in (cloud, other):
            for number, record in enumerate(records):
                restored = await imported(each, record)
                assert (await backup(each, restored))["status"] == "available"
                new = (await restore(each, restored)).key("restore")["volume_id"]
                await each.settle()
                at = tmp_path / f"{new}-after"
                assert await whole(each, new, at) == contents[number]
            assert await each.complaints() == []


async def test_only_administrators_have_records(cloud: SimulatedCloud) -> None:
    backup_id = await made(cloud)
    url = url_of(await record_of(cloud, backup_id))
    path = f"{BACKUPS}/{backup_id}/export_record"
    assert (await cloud.ask("GET", path, user="demo")).status == 403
    body = {"backup-record": {"backup_service": SERVICE, "backup_url": url}}
    assert (await cloud.ask("POST", f"{BACKUPS}/import_record", body, user="demo")).status == 403


async def test_one_that_is_not_available_is_not_exported(cloud: SimulatedCloud) -> None:
    backup_id = await made(cloud)
    path = f"{BACKUPS}/{backup_id}/action"
    for word in ("error", "creating", "restoring", "deleting", "error_deleting"):
        await cloud.ask("POST", path, {"os-reset_status": {"status": word}})
        answer = await export(cloud, backup_id)
        assert (answer.status, word in answer.content.decode()) == (400, True)
    assert (await export(cloud, UNKNOWN)).status == 404


BAD: dict[str, Any] = {
    "no Base64": "{}",
    "Base64 with spaces": " e30=",
    "no text": url_of("")[:-2],
    "no JSON": "bm90IEpTT04=",
    "a list": url_of([]),
    "nothing in it": url_of({}),
    "text that is not UTF-8": "//79/w==",
    "too deep": url_of(None)[:0] + "W1tb" * 9000,
}


@pytest.mark.parametrize("why", BAD)
async def test_what_is_no_record_is_refused(cloud: SimulatedCloud, why: str) -> None:
    assert "Nothing was imported" in await refused(cloud, BAD[why])


ODD: dict[str, Any] = {
    "id": [
        "",
        "../x",
        UNKNOWN + "\n",
        UNKNOWN.replace("9", "A"),
        UNKNOWN.replace("-", ""),
        None,
        5,
    ],
    "stored_as": ["", "..", f"../{UNKNOWN}", None],
    "parent_id": ["", "p"],
    "volume_id": ["", None],
    "size": [0, -1, "1", 1.5, 2**31],
    "name": ["n" * 256, 5, "\0"],
    "object_count": [-1, None],
    "metadata": [None, [], {"a": 1}, {"": "a"}, {"a": "b" * 256}, {"a": "\0"}],
    "volume_metadata": [[], {"a\n": "b"}],
    "image_metadata": [None, {"a": None}],
    "bootable": ["yes", None],
    "created_at": [None, "yesterday", "2026-01-01T00:00:00", "0001-01-01T00:00:00+10:00"],
    "unknown": [1],
}


@pytest.mark.parametrize("field", ODD)
async def test_a_record_is_read_strictly(cloud: SimulatedCloud, field: str) -> None:
    record = await record_of(cloud, await made(cloud))
    await lose(cloud)
    for value in ODD[field]:
        await refused(cloud, url_of({**record, field: value}))
    missing = {key: value for key, value in record.items() if key != field}
    if missing != record:
        assert field in await refused(cloud, url_of(missing))
    assert (await backup(cloud, await imported(cloud, record)))["status"] == "available"


async def test_a_request_has_service_and_url(cloud: SimulatedCloud) -> None:
    url = url_of(await record_of(cloud, await made(cloud)))
    await lose(cloud)
    told = await refused(cloud, url, service="cinder.backup.drivers.swift.SwiftBackupDriver")
    assert SERVICE in told
    await refused(cloud, url, service="")
    await refused(cloud, "")
    for body in ({}, {"backup_url": url}, {"backup_service": SERVICE}):
        path = f"{BACKUPS}/import_record"
        assert (await cloud.ask("POST", path, {"backup-record": body})).status == 400
    assert await ids(cloud) == []


async def test_what_is_here_is_not_imported_again(cloud: SimulatedCloud) -> None:
    backup_id = await made(cloud)
    url = url_of(await record_of(cloud, backup_id))
    assert f"{backup_id} is here already, available" in await refused(cloud, url)


async def test_an_import_counts_against_two_quotas(cloud: SimulatedCloud) -> None:
    backup_id = await made(cloud)
    record = await record_of(cloud, backup_id)
    project = record["project_id"]
    path = f"/volume/v3/os-quota-sets/{project}"
    for name in ("backups", "backup_gigabytes"):
        body = {"quota_set": {"backups": 5, "backup_gigabytes": 5, name: 1}}
        assert (await cloud.ask("PUT", path, body)).status == 200
        answer = await ask_import(cloud, url_of({**record, "id": UNKNOWN}))
        assert (answer.status, name in answer.content.decode()) == (413, True)
    assert await ids(cloud) == [backup_id]
    await lose(cloud)
    await imported(cloud, record)
    usage = (await cloud.ask("GET", f"{path}?usage=True")).key("quota_set")
    assert (usage["backups"]["in_use"], usage["backup_gigabytes"]["in_use"]) == (1, 1)


async def test_it_becomes_the_project_s_that_imports_it(cloud: SimulatedCloud) -> None:
    demo = await cloud.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1}}, user="demo")
    await cloud.settle()
    body = {"backup": {"volume_id": demo.key("volume")["id"]}}
    asked = await cloud.ask("POST", BACKUPS, body, user="demo")
    await cloud.settle()
    record = await record_of(cloud, asked.key("backup")["id"])
    second = await imported(cloud, record, id=UNKNOWN, availability_zone="of another cloud")
    assert (await cloud.ask("GET", f"{BACKUPS}/{second}", user="demo")).status == 404
    shown = await backup(cloud, second)
    assert shown["os-backup-project-attr:project_id"] != record["project_id"]
    assert shown["availability_zone"] == "nova"


async def test_an_incremental_one_comes_after_what_it_builds_on(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    full = await made(cloud, volume_id)
    first = await made(cloud, volume_id, incremental=True)
    records = [await record_of(cloud, each) for each in (full, first)]
    assert [each["parent_id"] for each in records] == [None, full]
    await lose(cloud)
    assert full in await refused(cloud, url_of(records[1]))
    await imported(cloud, records[0])
    reset = f"{BACKUPS}/{full}/action"
    await cloud.ask("POST", reset, {"os-reset_status": {"status": "error"}})
    assert "which is error" in await refused(cloud, url_of(records[1]))
    await cloud.ask("POST", reset, {"os-reset_status": {"status": "available"}})
    await imported(cloud, records[1])
    assert (await backup(cloud, first))["is_incremental"]
    assert (await backup(cloud, full))["has_dependent_backups"]
    assert (await cloud.ask("DELETE", f"{BACKUPS}/{full}")).status == 400
    target = await make_volume(cloud)
    assert (await restore(cloud, first, volume_id=target)).status == 202
    await cloud.settle()
    assert await status(cloud, target) == "available"
    assert (await act(cloud, target, "os-reserve", None)).status == 202
    later = await made(cloud, volume_id, incremental=True)
    assert (await record_of(cloud, later))["parent_id"] == first
    assert await cloud.complaints() == []
