"""Volumes that are offered to another project (facts/block_storage.md 1.8, 8.6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.answers import Answer
from tests.callers import OTHER_PROJECT, PROJECT
from tests.volume.cloud import IMAGE, SERVER, UNKNOWN, VolumeCloud, connector

pytestmark = pytest.mark.anyio
DONOR, RECEIVER = "member", "stranger"


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[VolumeCloud]:
    async with VolumeCloud(tmp_path, database=database) as opened:
        yield opened


async def offer(cloud: VolumeCloud, volume_id: str, **how: Any) -> Answer:
    user, version = how.pop("user", DONOR), how.pop("version", "3.57")
    path = how.pop("path", "/volume-transfers")
    body = {"transfer": {"volume_id": volume_id, **how}}
    return await cloud.ask("POST", path, body, user=user, version=version)


async def offered(cloud: VolumeCloud, volume_id: str, **how: Any) -> Any:
    answer = await offer(cloud, volume_id, **how)
    assert answer.status == 202, answer.content
    return answer.body["transfer"]


async def accept(cloud: VolumeCloud, transfer: Any, **how: Any) -> Answer:
    key = how.pop("key", transfer["auth_key"])
    path = f"/volume-transfers/{transfer['id']}/accept"
    body, how = {"accept": {"auth_key": key}}, {"user": RECEIVER, "version": "3.57", **how}
    return await cloud.ask("POST", path, body, **how)


async def owner_of(cloud: VolumeCloud, volume_id: str) -> tuple[str, str]:
    """Return the status of a volume, and whose it is."""
    answer = await cloud.ask("GET", f"/volumes/{volume_id}", user="admin")
    shown = answer.body["volume"]
    return shown["status"], shown["os-vol-tenant-attr:tenant_id"]


async def used(cloud: VolumeCloud, project_id: str) -> tuple[int, int, int]:
    """Return what counts against a project's quota: volumes, snapshots, and GiB of both."""
    answer = await cloud.ask("GET", f"/os-quota-sets/{project_id}?usage=True", user="admin")
    found = answer.body["quota_set"]
    return tuple(found[name]["in_use"] for name in ("volumes", "snapshots", "gigabytes"))


async def limit(cloud: VolumeCloud, **limits: int) -> None:
    path, body = f"/os-quota-sets/{OTHER_PROJECT}", {"quota_set": limits}
    assert (await cloud.ask("PUT", path, body, user="admin")).status == 200


async def let_use(cloud: VolumeCloud, type_id: str, project_id: str) -> None:
    path, body = f"/types/{type_id}/action", {"addProjectAccess": {"project": project_id}}
    assert (await cloud.ask("POST", path, body, user="admin", version="3.7")).status == 202


async def snapshot_of(cloud: VolumeCloud, volume_id: str) -> str:
    body = {"snapshot": {"volume_id": volume_id}}
    answer = await cloud.ask("POST", "/snapshots", body)
    await cloud.settle()
    return answer.body["snapshot"]["id"]


async def test_a_volume_changes_its_project_with_its_snapshots(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make(size=2)
    snapshot_id = await snapshot_of(cloud, volume_id)
    transfer = await offered(cloud, volume_id, name="gift")
    assert await owner_of(cloud, volume_id) == ("awaiting-transfer", PROJECT)
    assert (await accept(cloud, transfer)).status == 202
    assert await owner_of(cloud, volume_id) == ("available", OTHER_PROJECT)
    assert (await cloud.ask("GET", f"/volumes/{volume_id}")).status == 404
    path = f"/snapshots/{snapshot_id}"
    assert (await cloud.ask("GET", path)).status == 404
    assert (await cloud.ask("GET", path, user=RECEIVER)).status == 200
    assert await used(cloud, PROJECT) == (0, 0, 0)
    assert await used(cloud, OTHER_PROJECT) == (1, 1, 4)


async def test_what_was_accepted_is_offered_no_longer(cloud: VolumeCloud) -> None:
    transfer = await offered(cloud, await cloud.make())
    assert (await accept(cloud, transfer)).status == 202
    assert (await accept(cloud, transfer)).status == 404
    assert (
        await cloud.ask("GET", f"/volume-transfers/{transfer['id']}", version="3.57")
    ).status == 404


async def test_snapshots_may_stay_behind(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    snapshot_id = await snapshot_of(cloud, volume_id)
    transfer = await offered(cloud, volume_id, no_snapshots=True)
    assert transfer["no_snapshots"] is True
    assert (await accept(cloud, transfer)).status == 202
    assert (await cloud.ask("GET", f"/snapshots/{snapshot_id}")).status == 200
    assert await used(cloud, PROJECT) == (0, 1, 1)
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}", user=RECEIVER)).status == 400


@pytest.mark.parametrize(
    ("version", "more"),
    [
        ("3.0", set[str]()),
        ("3.55", {"no_snapshots"}),
        ("3.57", {"no_snapshots", "source_project_id", "destination_project_id", "accepted"}),
    ],
)
async def test_what_is_shown(cloud: VolumeCloud, version: str, more: set[str]) -> None:
    path = "/os-volume-transfer" if version == "3.0" else "/volume-transfers"
    volume_id = await cloud.make()
    made = await offered(cloud, volume_id, name="gift", path=path, version=version)
    always = {"id", "name", "volume_id", "links", "created_at"}
    assert set(made) == {*always, "auth_key", *more}
    shown = await cloud.ask("GET", f"{path}/{made['id']}", version=version)
    assert set(shown.body["transfer"]) == {*always, *more}
    (listed,) = (await cloud.ask("GET", path, version=version)).body["transfers"]
    assert set(listed) == {"id", "name", "volume_id", "links"}
    (listed,) = (await cloud.ask("GET", f"{path}/detail", version=version)).body["transfers"]
    assert listed == shown.body["transfer"]


async def test_before_3_55_there_is_but_the_former_path(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    assert (await offer(cloud, volume_id, version="3.54")).status == 404
    former = {"path": "/os-volume-transfer", "version": "3.54"}
    assert (await offer(cloud, volume_id, no_snapshots=True, **former)).status == 400
    assert await owner_of(cloud, volume_id) == ("available", PROJECT)


async def test_others_see_no_transfer_but_accept_it_by_its_key(cloud: VolumeCloud) -> None:
    transfer = await offered(cloud, await cloud.make())
    path = f"/volume-transfers/{transfer['id']}"
    how: dict[str, Any] = {"user": RECEIVER, "version": "3.57"}
    assert (await cloud.ask("GET", path, **how)).status == 404
    assert (await cloud.ask("DELETE", path, **how)).status == 404
    assert (await cloud.ask("GET", "/volume-transfers", **how)).body["transfers"] == []
    everywhere = "/volume-transfers?all_tenants=1"
    assert (await cloud.ask("GET", everywhere, **how)).body["transfers"] == []
    (seen,) = (await cloud.ask("GET", everywhere, user="admin", version="3.57")).body["transfers"]
    assert seen["id"] == transfer["id"]
    assert (await accept(cloud, transfer)).status == 202


async def test_a_list_has_pages_and_filters(cloud: VolumeCloud) -> None:
    made = [await offered(cloud, await cloud.make(), name=name) for name in "abc"]
    path = "/volume-transfers?sort=name:asc&limit=2"
    first = (await cloud.ask("GET", path, version="3.59")).body
    assert [one["name"] for one in first["transfers"]] == ["a", "b"]
    assert first["transfers_links"][0]["rel"] == "next"
    rest = (await cloud.ask("GET", f"{path}&marker={made[1]['id']}", version="3.59")).body
    assert [one["name"] for one in rest["transfers"]] == ["c"]
    named = (await cloud.ask("GET", "/volume-transfers?name=b", version="3.59")).body
    assert [one["id"] for one in named["transfers"]] == [made[1]["id"]]


async def test_an_offer_is_taken_back(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    transfer = await offered(cloud, volume_id)
    path = f"/volume-transfers/{transfer['id']}"
    assert (await cloud.ask("DELETE", path, version="3.57")).status == 202
    assert await owner_of(cloud, volume_id) == ("available", PROJECT)
    assert (await accept(cloud, transfer)).status == 404


async def test_what_its_former_project_kept_stays_with_that_project(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    kept = await snapshot_of(cloud, volume_id)
    first = await offered(cloud, volume_id, no_snapshots=True)
    assert (await accept(cloud, first)).status == 202
    body = {"status": "error"}
    path = f"/snapshots/{kept}/action"
    await cloud.ask("POST", path, {"os-reset_status": body}, user="admin")
    again = await offered(cloud, volume_id, user=RECEIVER)
    assert (await accept(cloud, again)).status == 202
    assert (await cloud.ask("GET", f"/snapshots/{kept}")).status == 200
    assert (await cloud.ask("GET", f"/snapshots/{kept}", user=RECEIVER)).status == 404
    assert await used(cloud, PROJECT) == (0, 1, 1)
    everything = await cloud.ask("DELETE", f"/volumes/{volume_id}?cascade=1", user=RECEIVER)
    assert everything.status == 400
    assert kept.encode() not in everything.content
    assert PROJECT.encode() not in everything.content


async def test_what_it_kept_shows_nothing_that_the_next_project_says(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make(imageRef=IMAGE)
    kept = await snapshot_of(cloud, volume_id)
    image = (await cloud.show(volume_id))["volume_image_metadata"]
    transfer = await offered(cloud, volume_id, no_snapshots=True)
    assert (await accept(cloud, transfer)).status == 202
    for name, value in (
        ("os-set_image_metadata", {"metadata": {"secret": "theirs"}}),
        ("os-set_bootable", {"bootable": False}),
    ):
        assert (await cloud.act(volume_id, name, value, user=RECEIVER)).status == 200
    body: Any = {"backup": {"volume_id": volume_id, "snapshot_id": kept}}
    backup_id = (await cloud.ask("POST", "/backups", body)).key("backup")["id"]
    await cloud.settle()
    path, made = f"/backups/{backup_id}/restore", await cloud.make(snapshot_id=kept)
    restored = (await cloud.ask("POST", path, {"restore": {}})).key("restore")["volume_id"]
    await cloud.settle()
    for mine in (made, restored):
        shown = await cloud.show(mine, user=DONOR)
        assert (shown["status"], shown["bootable"]) == ("available", "true")
        assert shown["volume_image_metadata"] == image


# -- what is refused ---------------------------------------------------------------------------


async def test_a_wrong_key_changes_nothing(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    transfer = await offered(cloud, volume_id)
    answer = await accept(cloud, transfer, key="0" * 32)
    assert answer.status == 400
    assert b"auth key" in answer.content
    assert await owner_of(cloud, volume_id) == ("awaiting-transfer", PROJECT)
    assert (await accept(cloud, transfer)).status == 202


async def test_a_volume_that_is_in_use_or_unknown_is_not_offered(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.reserve(volume_id, SERVER)
    assert (await offer(cloud, volume_id)).status == 400
    assert (await offer(cloud, UNKNOWN)).status == 404
    assert (await offer(cloud, volume_id, user=RECEIVER)).status == 404
    assert (await cloud.ask("GET", "/volume-transfers", version="3.57")).body["transfers"] == []


@pytest.mark.parametrize("by", ["export", "attachment"])
async def test_a_volume_that_somebody_can_reach_is_not_offered(cloud: VolumeCloud, by: str) -> None:
    volume_id = await cloud.make()
    if by == "export":
        value = {"connector": connector()}
        answer = await cloud.act(volume_id, "os-initialize_connection", value)
        assert answer.status == 200
    else:
        await cloud.attach(volume_id)
        await cloud.act(volume_id, "os-reset_status", {"status": "available"}, user="admin")
    await cloud.settle()
    assert await cloud.status(volume_id) == "available"
    answer = await offer(cloud, volume_id)
    assert answer.status == 400
    assert b"end those first" in answer.content


@pytest.mark.parametrize("how", ["along", "behind"])
async def test_none_is_offered_while_a_snapshot_of_it_is_taken(
    cloud: VolumeCloud, how: str
) -> None:
    volume_id = await cloud.make()
    cloud.storage.knobs.hold("snapshot")
    await cloud.ask("POST", "/snapshots", {"snapshot": {"volume_id": volume_id}})
    await cloud.storage.knobs.held("snapshot")
    assert (await offer(cloud, volume_id, no_snapshots=how == "behind")).status == 400
    cloud.storage.knobs.release("snapshot")
    await cloud.settle()
    assert (await offer(cloud, volume_id, no_snapshots=how == "behind")).status == 202


@pytest.mark.parametrize("name", ["volumes", "gigabytes", "snapshots"])
async def test_a_receiver_without_room_gets_none_of_it(cloud: VolumeCloud, name: str) -> None:
    volume_id = await cloud.make(size=2)
    await snapshot_of(cloud, volume_id)
    transfer = await offered(cloud, volume_id)
    await limit(cloud, **{name: 3 if name == "gigabytes" else 0})
    assert (await accept(cloud, transfer)).status == 413
    assert await owner_of(cloud, volume_id) == ("awaiting-transfer", PROJECT)
    assert await used(cloud, OTHER_PROJECT) == (0, 0, 0)
    await limit(cloud, **{name: 4})
    assert (await accept(cloud, transfer)).status == 202


async def test_a_type_that_the_receiver_may_not_use_goes_to_nobody(cloud: VolumeCloud) -> None:
    body = {"volume_type": {"name": "own", "os-volume-type-access:is_public": False}}
    made = await cloud.ask("POST", "/types", body, user="admin")
    type_id = made.body["volume_type"]["id"]
    await let_use(cloud, type_id, PROJECT)
    volume_id = await cloud.make(volume_type="own")
    transfer = await offered(cloud, volume_id)
    assert (await accept(cloud, transfer)).status == 400
    assert await owner_of(cloud, volume_id) == ("awaiting-transfer", PROJECT)
    await let_use(cloud, type_id, OTHER_PROJECT)
    assert (await accept(cloud, transfer)).status == 202


async def test_an_offer_that_a_reset_has_ended_is_in_nobodys_way(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    old = await offered(cloud, volume_id)
    await cloud.act(volume_id, "os-reset_status", {"status": "available"}, user="admin")
    await cloud.settle()
    assert (await accept(cloud, old)).status == 400
    new = await offered(cloud, volume_id)
    assert (await accept(cloud, old)).status == 404
    assert (await accept(cloud, new)).status == 202


async def test_of_many_who_accept_at_once_one_has_it(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    transfer = await offered(cloud, volume_id)
    answers = await asyncio.gather(*[accept(cloud, transfer) for _ in range(8)])
    assert sorted({answer.status for answer in answers} - {400, 404}) == [202]
    assert [answer.status for answer in answers].count(202) == 1
    assert await used(cloud, OTHER_PROJECT) == (1, 0, 1)


# -- what a former project kept ------------------------------------------------------------------


async def make_type(cloud: VolumeCloud, name: str, *, is_public: bool = True) -> str:
    body = {"volume_type": {"name": name, "os-volume-type-access:is_public": is_public}}
    answer = await cloud.ask("POST", "/types", body, user="admin")
    return answer.body["volume_type"]["id"]


async def retype(cloud: VolumeCloud, volume_id: str, new_type: str) -> Answer:
    body = {"os-retype": {"new_type": new_type, "migration_policy": "never"}}
    return await cloud.ask("POST", f"/volumes/{volume_id}/action", body, user=RECEIVER)


async def kept_of(cloud: VolumeCloud) -> tuple[str, str]:
    """Return a volume that has gone to another project, and a snapshot that stayed behind."""
    volume_id = await cloud.make()
    kept = await snapshot_of(cloud, volume_id)
    transfer = await offered(cloud, volume_id, no_snapshots=True)
    assert (await accept(cloud, transfer)).status == 202
    return volume_id, kept


async def test_a_kept_snapshot_counts_for_its_own_project_in_another_type(
    cloud: VolumeCloud,
) -> None:
    await make_type(cloud, "plain")
    volume_id, _ = await kept_of(cloud)
    await limit(cloud, gigabytes_plain=1, snapshots_plain=0)
    body = {"quota_set": {"snapshots_plain": 0}}
    await cloud.ask("PUT", f"/os-quota-sets/{PROJECT}", body, user="admin")
    refused = await retype(cloud, volume_id, "plain")
    assert (refused.status, b"former project" in refused.content) == (413, True)
    assert PROJECT.encode() not in refused.content
    body = {"quota_set": {"snapshots_plain": 1, "gigabytes_plain": 1}}
    await cloud.ask("PUT", f"/os-quota-sets/{PROJECT}", body, user="admin")
    assert (await retype(cloud, volume_id, "plain")).status == 202


async def test_a_kept_snapshot_of_a_private_type_makes_volumes_and_backups(
    cloud: VolumeCloud,
) -> None:
    type_id = await make_type(cloud, "own", is_public=False)
    await let_use(cloud, type_id, OTHER_PROJECT)
    volume_id, kept = await kept_of(cloud)
    assert (await retype(cloud, volume_id, "own")).status == 202
    body = {"volume": {"snapshot_id": kept, "size": 1}}
    made = await cloud.ask("POST", "/volumes", body)
    assert made.status == 202, made.content
    body = {"backup": {"volume_id": volume_id, "snapshot_id": kept}}
    backup = await cloud.ask("POST", "/backups", body)
    assert backup.status == 202, backup.content
    await cloud.settle()
    shown = await cloud.ask("GET", f"/volumes/{made.body['volume']['id']}")
    assert shown.body["volume"]["status"] == "available"
    assert shown.body["volume"]["volume_type"] == "__DEFAULT__"
    shown = await cloud.ask("GET", f"/backups/{backup.body['backup']['id']}")
    assert shown.body["backup"]["status"] == "available", shown.content
    body = {"backup": {"volume_id": volume_id}}
    assert (await cloud.ask("POST", "/backups", body)).status == 404
