"""Lists, changes, quotas and rights of backups, and what is told of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cloud import SimulatedCloud
from tests.volume.backing_up import (
    BACKUPS,
    UNKNOWN,
    back_up,
    backup,
    begun,
    make_volume,
    restore,
    storage,
    stored,
    the_store,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path, database=database, notifications=("keep",)) as opened:
        yield opened


async def made(cloud: SimulatedCloud, **fields: Any) -> str:
    backup_id = await begun(cloud, await make_volume(cloud), **fields)
    await cloud.settle()
    return backup_id


async def names(cloud: SimulatedCloud, query: str = "", **how: Any) -> list[str]:
    how = {"version": "3.67", **how}
    listed = await cloud.ask("GET", f"{BACKUPS}{query}", **how)
    return [one["name"] for one in listed.key("backups")]


async def act(cloud: SimulatedCloud, backup_id: str, action: str, value: Any, **how: Any) -> int:
    how = {"user": "admin", **how}
    path = f"{BACKUPS}/{backup_id}/action"
    return (await cloud.ask("POST", path, {action: value}, **how)).status


async def test_backups_are_listed_sorted_filtered_and_paged(cloud: SimulatedCloud) -> None:
    for name in ("b", "a", "c"):
        await made(cloud, name=name, metadata={"kind": name})
    assert sorted(await names(cloud)) == ["a", "b", "c"]
    assert await names(cloud, "?sort=name:asc") == ["a", "b", "c"]
    assert await names(cloud, "?name=a") == ["a"]
    assert await names(cloud, "/detail?status=available&sort=name:desc") == ["c", "b", "a"]
    assert await names(cloud, "?status=error") == []
    assert await names(cloud, "?name~=B") == ["b"]
    assert await names(cloud, "?metadata={'kind':'c'}") == ["c"]
    first = await cloud.ask("GET", f"{BACKUPS}?sort=name:asc&limit=2&with_count=1", version="3.45")
    assert [one["name"] for one in first.key("backups")] == ["a", "b"]
    assert first.key("count") == 3
    [after] = first.key("backup_links")
    assert "marker=" in after["href"]
    marker = first.key("backups")[-1]["id"]
    assert await names(cloud, f"?sort=name:asc&marker={marker}") == ["c"]
    assert (await cloud.ask("GET", f"{BACKUPS}?size=1", version="3.31")).status == 400
    assert len(await names(cloud, "?size=5", version="3.30")) == 3
    assert (await cloud.ask("GET", f"{BACKUPS}?marker={UNKNOWN}")).status == 404


async def test_a_backup_shows_what_its_version_has(cloud: SimulatedCloud) -> None:
    backup_id = await made(cloud)
    shown = await backup(cloud, backup_id, version="3.42")
    assert not {"metadata", "user_id", "encryption_key_id"} & shown.keys()
    assert "metadata" in await backup(cloud, backup_id, version="3.43")
    assert "user_id" in await backup(cloud, backup_id, version="3.56")
    name = "os-backup-project-attr:project_id"
    assert name not in await backup(cloud, backup_id)
    assert name in await backup(cloud, backup_id, version="3.18", user="admin")
    assert name not in await backup(cloud, backup_id, version="3.17", user="admin")


async def test_name_description_and_metadata_change_since_3_9(cloud: SimulatedCloud) -> None:
    backup_id = await made(cloud, name="old")
    path, body = f"{BACKUPS}/{backup_id}", {"backup": {"name": "new", "description": "of it"}}
    assert (await cloud.ask("PUT", path, body, version="3.8")).status == 404
    changed = await cloud.ask("PUT", path, body, version="3.9")
    assert changed.key("backup")["name"] == "new"
    labelled = {"backup": {"metadata": {"a": "b"}}}
    assert (await cloud.ask("PUT", path, labelled, version="3.42")).status == 400
    assert (await cloud.ask("PUT", path, labelled, version="3.43")).status == 200
    shown = await backup(cloud, backup_id)
    assert (shown["name"], shown["description"]) == ("new", "of it")
    assert shown["metadata"] == {"a": "b"}
    assert (await cloud.ask("PUT", path, {"backup": {}}, version="3.9")).status == 400


async def test_backups_count_against_two_quotas(cloud: SimulatedCloud) -> None:
    project = (await backup(cloud, await made(cloud), version="3.18", user="admin"))[
        "os-backup-project-attr:project_id"
    ]
    path = f"/volume/v3/os-quota-sets/{project}"
    quotas = (await cloud.ask("GET", f"{path}?usage=True", user="admin")).key("quota_set")
    assert quotas["backups"] == {"limit": 10, "in_use": 1, "reserved": 0}
    assert quotas["backup_gigabytes"] == {"limit": 1000, "in_use": 1, "reserved": 0}
    absolute = (await cloud.ask("GET", "/volume/v3/limits")).key("limits")["absolute"]
    assert (absolute["totalBackupsUsed"], absolute["totalBackupGigabytesUsed"]) == (1, 1)
    for name in ("backups", "backup_gigabytes"):
        body = {"quota_set": {"backups": 5, "backup_gigabytes": 5, name: 1}}
        assert (await cloud.ask("PUT", path, body, user="admin")).status == 200
        answer = await back_up(cloud, await make_volume(cloud))
        assert answer.status == 413
        assert name.encode() in answer.content
    assert await names(cloud) == [None]


async def test_others_see_no_backups_of_a_project(cloud: SimulatedCloud) -> None:
    backup_id = await made(cloud, name="mine")
    assert await names(cloud, user="admin") == []
    assert await names(cloud, "?all_tenants=1", user="admin") == ["mine"]
    assert await act(cloud, backup_id, "os-force_delete", None, user="demo") == 403
    assert await act(cloud, backup_id, "os-reset_status", {"status": "error"}, user="demo") == 403


async def test_an_administrator_resets_a_status_and_deletes_whatever_it_is(
    cloud: SimulatedCloud,
) -> None:
    backup_id = await made(cloud)
    assert await act(cloud, backup_id, "os-reset_status", {"status": "odd"}) == 400
    assert await act(cloud, backup_id, "os-reset_status", {"status": "creating"}) == 202
    assert (await backup(cloud, backup_id))["status"] == "creating"
    assert (await cloud.ask("DELETE", f"{BACKUPS}/{backup_id}")).status == 400
    assert (await cloud.complaints())[0].startswith(f"backup {backup_id}: creating, by the word of")
    assert await act(cloud, backup_id, "os-force_delete", None) == 202
    await cloud.settle()
    assert stored(cloud) == []
    storage(cloud).knobs.hold("capture")
    busy = await begun(cloud, await make_volume(cloud))
    await storage(cloud).knobs.held("capture")
    assert await act(cloud, busy, "os-force_delete", None) == 400
    assert await act(cloud, busy, "os-reset_status", {"status": "error"}) == 409
    storage(cloud).knobs.release("capture")
    await cloud.settle()


async def test_the_doctor_finds_data_that_no_backup_explains(cloud: SimulatedCloud) -> None:
    backup_id = await made(cloud)
    assert await cloud.complaints() == []
    (the_store(cloud) / UNKNOWN).mkdir()
    said = "data in the store of backups that no backup explains"
    assert await cloud.complaints() == [f"backup {UNKNOWN}: {said}"]
    (the_store(cloud) / UNKNOWN).rmdir()
    the_store(cloud).rename(the_store(cloud).with_name("away"))
    the_store(cloud).mkdir()
    lost = "its data are not there, or not whole"
    assert await cloud.complaints() == [f"backup {backup_id}: {lost}"]


async def test_what_is_done_to_backups_is_told(cloud: SimulatedCloud) -> None:
    backup_id = await made(cloud)
    await restore(cloud, backup_id, volume_id=await make_volume(cloud))
    await cloud.settle()
    await cloud.ask("DELETE", f"{BACKUPS}/{backup_id}")
    await cloud.settle()
    told = [one for one in await cloud.told("volume") if one.event_type.startswith("backup.")]
    assert [one.event_type for one in told] == [
        *("backup.create.start", "backup.create.end"),
        *("backup.restore.start", "backup.restore.end"),
        *("backup.delete.start", "backup.delete.end"),
    ]
    assert {one.payload["backup_id"] for one in told} == {backup_id}
