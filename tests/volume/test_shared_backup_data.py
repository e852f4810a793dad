"""Records whose data are not what they say, and several records of the same data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from mooring.volume.backups.stores.base import Manifest
from tests.cloud import SimulatedCloud
from tests.volume.backing_up import (
    BACKUPS,
    UNKNOWN,
    backup,
    damage,
    make_volume,
    restore,
    status,
    stored,
    the_store,
)
from tests.volume.recording import (
    a_second,
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

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    made = SimulatedCloud(tmp_path, database=database)
    made.user = "admin"
    async with made as opened:
        yield opened


async def remove(cloud: SimulatedCloud, *backups: str) -> None:
    """Delete backups, all at once."""
    asking = (cloud.ask("DELETE", f"{BACKUPS}/{each}") for each in backups)
    assert [one.status for one in await asyncio.gather(*asking)] == [202] * len(backups)
    await cloud.settle()


async def can_be_restored(cloud: SimulatedCloud, backup_id: str) -> bool:
    target = await make_volume(cloud)
    assert (await restore(cloud, backup_id, volume_id=target)).status == 202
    await cloud.settle()
    return await status(cloud, target) == "available"


@pytest.mark.parametrize("how", ["changed", "missing", "manifest", "gone"])
async def test_what_has_no_whole_data_is_in_error_and_its_deletion_takes_nothing(
    cloud: SimulatedCloud, how: str
) -> None:
    backup_id = await made(cloud)
    record = await record_of(cloud, backup_id)
    damage(cloud, backup_id, how)
    await lose(cloud)
    before = files(cloud)
    await imported(cloud, record)
    shown = await backup(cloud, backup_id)
    if how == "changed":
        # Only who reads every piece finds that, as a restore does.
        assert shown["status"] == "available"
        return
    assert shown["status"] == "error"
    assert backup_id in shown["fail_reason"]
    assert await cloud.complaints() == [
        f"backup {backup_id}: data in the store of backups that no backup explains"
    ]
    await remove(cloud, backup_id)
    assert (await ids(cloud), files(cloud)) == ([], before)


async def test_a_record_of_other_data_is_in_error(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    full = await made(cloud, volume_id)
    first = await made(cloud, volume_id, incremental=True)
    record = await record_of(cloud, first)
    for changes in (
        {"stored_as": UNKNOWN},
        {"object_count": 7},
        {"parent_id": None},
        {"stored_as": full, "parent_id": None},
    ):
        odd = await imported(cloud, record, id=UNKNOWN, **changes)
        assert (await backup(cloud, odd))["status"] == "error"
        await remove(cloud, odd)
    assert await can_be_restored(cloud, first)
    assert await cloud.complaints() == []


async def test_a_folder_that_was_copied_is_another_backup_s(cloud: SimulatedCloud) -> None:
    record = await record_of(cloud, await made(cloud))
    place = the_store(cloud) / record["id"]
    manifest = msgspec.json.decode((place / "manifest.json").read_bytes(), type=Manifest)
    changed = msgspec.structs.replace(manifest, backup_id=UNKNOWN)
    (place / "manifest.json").write_bytes(msgspec.json.encode(changed))
    await lose(cloud)
    await imported(cloud, record)
    assert "another backup's" in (await backup(cloud, record["id"]))["fail_reason"]


async def test_one_without_data_is_of_no_use_whatever_it_is_called(cloud: SimulatedCloud) -> None:
    backup_id = await made(cloud)
    odd = await imported(cloud, await record_of(cloud, backup_id), id=UNKNOWN, object_count=7)
    reset = {"os-reset_status": {"status": "available"}}
    assert (await cloud.ask("POST", f"{BACKUPS}/{odd}/action", reset)).status == 202
    assert (await export(cloud, odd)).status == 400
    assert not await can_be_restored(cloud, odd)
    assert await cloud.complaints() == [f"backup {odd}: its data are not there, or not whole"]
    await remove(cloud, odd)
    assert await can_be_restored(cloud, backup_id)


@pytest.mark.parametrize("order", ["first", "second", "both"])
async def test_of_two_records_of_the_same_data_the_last_one_takes_them(
    cloud: SimulatedCloud, order: str
) -> None:
    first = await made(cloud)
    second = await a_second(cloud, first)
    assert stored(cloud) == [first]
    assert await cloud.complaints() == []
    if order == "both":
        await remove(cloud, first, second)
    else:
        gone, left = (first, second) if order == "first" else (second, first)
        await remove(cloud, gone)
        assert await ids(cloud) == [left]
        assert await can_be_restored(cloud, left)
        assert await cloud.complaints() == []
        # What is left has a record of its own, under its id and under the former one.
        assert (await record_of(cloud, left))["stored_as"] == first
        again = await imported(cloud, await record_of(cloud, left), id=gone)
        await remove(cloud, left)
        assert await can_be_restored(cloud, again)
        await remove(cloud, again)
    assert stored(cloud) == []
    assert await cloud.complaints() == []


async def test_records_that_go_and_come_at_once_leave_data_to_whoever_stays(
    cloud: SimulatedCloud,
) -> None:
    """Each deletion sees the others that have the data, also those that are on their way."""
    first = await made(cloud)
    record = await record_of(cloud, first)
    others = [await a_second(cloud, first) for _ in range(6)]
    coming = ask_import(cloud, url_of({**record, "id": UNKNOWN}))
    going = [cloud.ask("DELETE", f"{BACKUPS}/{each}") for each in (first, *others)]
    answer, *gone = await asyncio.gather(coming, *going)
    assert {one.status for one in gone} == {202}
    await cloud.settle()
    assert await cloud.complaints() == []
    if answer.status == 201:
        assert await can_be_restored(cloud, UNKNOWN)
        await remove(cloud, UNKNOWN)
    assert stored(cloud) == []


async def test_what_builds_on_an_imported_one_has_its_data(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    first = await made(cloud, volume_id)
    await cloud.pass_time(1.0)
    record = await record_of(cloud, first)
    later = record["created_at"].replace("20", "21", 1)
    second = await imported(cloud, record, id=UNKNOWN, created_at=later)
    third = await made(cloud, volume_id, incremental=True)
    assert (await record_of(cloud, third))["parent_id"] == second
    assert (await backup(cloud, third))["object_count"] == 0
    fourth = await a_second(cloud, third)
    await remove(cloud, first)
    assert (await cloud.ask("DELETE", f"{BACKUPS}/{second}")).status == 400
    assert await can_be_restored(cloud, third)
    await remove(cloud, third)
    assert await can_be_restored(cloud, fourth)
    await remove(cloud, fourth)
    await remove(cloud, second)
    assert stored(cloud) == []
    assert await cloud.complaints() == []


@pytest.mark.parametrize("word", ["error", "creating", "deleting", "error_deleting"])
async def test_data_that_may_go_are_not_imported(cloud: SimulatedCloud, word: str) -> None:
    backup_id = await made(cloud)
    record = await record_of(cloud, backup_id)
    reset = {"os-reset_status": {"status": word}}
    await cloud.ask("POST", f"{BACKUPS}/{backup_id}/action", reset)
    answer = await ask_import(cloud, url_of({**record, "id": UNKNOWN}))
    assert (answer.status, f"which is {word}" in answer.content.decode()) == (400, True)
    assert await ids(cloud) == [backup_id]


@pytest.mark.parametrize("is_back", [True, False])
async def test_a_store_that_is_away_is_asked_again_for_a_while(
    cloud: SimulatedCloud, *, is_back: bool
) -> None:
    record = await record_of(cloud, await made(cloud))
    await lose(cloud)
    store = the_store(cloud)
    away = store.rename(store.with_name("away"))
    assert (await ask_import(cloud, url_of(record))).status == 201
    await cloud.pass_time(60.0)
    assert (await backup(cloud, record["id"]))["status"] == "creating"
    assert (await cloud.ask("DELETE", f"{BACKUPS}/{record['id']}")).status == 400
    if is_back:
        away.rename(store)
    await cloud.settle()
    shown = await backup(cloud, record["id"])
    assert shown["status"] == ("available" if is_back else "error")
    if not is_back:
        assert "cannot be used" in shown["fail_reason"]
        away.rename(store)
        await remove(cloud, record["id"])
        await imported(cloud, record)
    await cloud.look_at_hosts()
    assert await can_be_restored(cloud, record["id"])
    assert await cloud.complaints() == []


async def test_a_deletion_meanwhile_leaves_the_data_to_the_import(cloud: SimulatedCloud) -> None:
    backup_id = await made(cloud)
    record = await record_of(cloud, backup_id)
    store = the_store(cloud)
    away = store.rename(store.with_name("away"))
    assert (await ask_import(cloud, url_of({**record, "id": UNKNOWN}))).status == 201
    assert (await cloud.ask("DELETE", f"{BACKUPS}/{backup_id}")).status == 202
    await cloud.pass_time(5.0)
    assert await ids(cloud) == [UNKNOWN]
    away.rename(store)
    await cloud.settle()
    assert await can_be_restored(cloud, UNKNOWN)
    await remove(cloud, UNKNOWN)
    assert stored(cloud) == []
