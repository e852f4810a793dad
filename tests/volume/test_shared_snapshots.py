"""Snapshots of volumes that several servers may have: copies of a file that stays as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.errors import NoCapacity, Unavailable
from tests.volume.assisting import Assisting
from tests.volume.cloud import SERVER, SERVER_2, VolumeCloud
from tests.volume.test_reverting import revert
from tests.volume.test_snapshots import show, take, taken, usage

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[VolumeCloud]:
    async with VolumeCloud(tmp_path, database=database) as opened:
        yield opened


@pytest.fixture
def compute(cloud: VolumeCloud) -> Assisting:
    """A compute service that would tell what it is asked for."""
    found = Assisting(cloud)
    cloud.compute = cloud.neighbour = cloud.volume.compute = found
    return found


async def make(cloud: VolumeCloud, size: int = 1) -> str:
    return await cloud.make(size=size, volume_type=await cloud.type_with(multiattach="<is> True"))


async def look(cloud: VolumeCloud, volume_id: str) -> tuple[str, list[str]]:
    """Return the format of a volume's active file, and its snapshots in the storage."""
    found = await cloud.storage.find(volume_id)
    assert found is not None
    return found.format, found.snapshots


async def messages(cloud: VolumeCloud) -> list[str]:
    listed = (await cloud.ask("GET", "/messages")).body["messages"]
    return [one["user_message"] for one in listed]


async def state(cloud: VolumeCloud, snapshot_id: str) -> str:
    return (await show(cloud, snapshot_id))["status"]


async def test_one_of_a_free_volume_is_taken_and_deleted(cloud: VolumeCloud) -> None:
    volume_id = await make(cloud, 2)
    snapshot_id = await taken(cloud, volume_id)
    shown = await show(cloud, snapshot_id)
    assert (shown["status"], shown["size"]) == ("available", 2)
    assert shown["os-extended-snapshot-attributes:progress"] == "100%"
    assert await look(cloud, volume_id) == ("raw", [snapshot_id])
    assert await usage(cloud) == {"volumes": 1, "snapshots": 1, "gigabytes": 4}
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 400
    assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await cloud.settle()
    assert await look(cloud, volume_id) == ("raw", [])
    assert await usage(cloud) == {"volumes": 1, "snapshots": 0, "gigabytes": 2}
    assert await cloud.complaints() == []


async def test_one_of_a_volume_of_two_servers_comes_and_goes_and_asks_nothing_of_compute(
    cloud: VolumeCloud, compute: Assisting
) -> None:
    volume_id = await make(cloud)
    for server_id in (SERVER, SERVER_2):
        await cloud.attach(volume_id, server_id)
    refused = await take(cloud, volume_id)
    assert (refused.status, "in version 3.66" in refused.fault) == (400, True)
    snapshot_id = await taken(cloud, volume_id, version="3.66")
    assert await state(cloud, snapshot_id) == "available"
    assert await look(cloud, volume_id) == ("raw", [snapshot_id])
    assert await cloud.status(volume_id) == "in-use"
    assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await cloud.settle()
    assert await look(cloud, volume_id) == ("raw", [])
    assert compute.calls == []
    assert await cloud.complaints() == []


async def test_where_none_is_of_one_moment_it_is_in_error_and_says_what_to_do(
    cloud: VolumeCloud,
) -> None:
    volume_id = await make(cloud)
    await cloud.attach(volume_id)
    cloud.storage.reflinks = cloud.storage.shows_locks = False
    snapshot_id = await taken(cloud, volume_id, version="3.66")
    assert await state(cloud, snapshot_id) == "error"
    [said] = await messages(cloud)
    assert said.startswith("create snapshot:Snapshot failed to create. Volume ")
    assert "no reflinks" in said
    assert "shut its servers off, or detach it" in said
    assert await look(cloud, volume_id) == ("raw", [])
    assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await cloud.settle()
    assert await cloud.status(volume_id) == "in-use"
    assert await cloud.complaints() == []


async def test_what_the_storage_refuses_leaves_nothing(cloud: VolumeCloud) -> None:
    volume_id = await make(cloud)
    cloud.storage.knobs.fail("snapshot", NoCapacity("The pool is full."))
    snapshot_id = await taken(cloud, volume_id)
    assert await state(cloud, snapshot_id) == "error"
    assert "The pool is full." in (await messages(cloud))[0]
    cloud.storage.knobs.fail("snapshot", Unavailable("Not now."), times=1)
    assert await state(cloud, await taken(cloud, volume_id)) == "available"
    assert await cloud.complaints() == []


async def test_a_restart_in_the_middle_changes_nothing(cloud: VolumeCloud) -> None:
    volume_id = await make(cloud)
    cloud.storage.knobs.hold("snapshot")
    snapshot_id = (await take(cloud, volume_id)).body["snapshot"]["id"]
    await cloud.storage.knobs.held("snapshot")
    assert await state(cloud, snapshot_id) == "creating"
    await cloud.restart(hosts=True)
    await cloud.settle()
    assert await state(cloud, snapshot_id) == "available"
    assert await look(cloud, volume_id) == ("raw", [snapshot_id])
    assert await cloud.complaints() == []


async def test_a_volume_goes_back_grows_and_is_copied_with_such_snapshots(
    cloud: VolumeCloud,
) -> None:
    volume_id = await make(cloud)
    snapshot_id = await taken(cloud, volume_id)
    assert (await revert(cloud, volume_id, snapshot_id)).status == 202
    assert await cloud.status(volume_id) == "available"
    assert cloud.storage.knobs.passed["revert"] == 1
    assert (await cloud.act(volume_id, "os-extend", {"new_size": 2})).status == 202
    await cloud.settle()
    assert (await cloud.show(volume_id))["size"] == 2
    refused = await revert(cloud, volume_id, snapshot_id)
    assert (refused.status, "it has grown since" in refused.fault) == (400, True)
    made = await cloud.make(snapshot_id=snapshot_id)
    shown = await cloud.show(made)
    assert (shown["status"], shown["size"], shown["multiattach"]) == ("available", 1, True)
    assert await look(cloud, made) == ("raw", [])
    assert await look(cloud, volume_id) == ("raw", [snapshot_id])


async def test_a_volume_goes_with_its_snapshots(cloud: VolumeCloud) -> None:
    volume_id = await make(cloud)
    for _ in range(2):
        await taken(cloud, volume_id)
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}?cascade=True")).status == 202
    await cloud.settle()
    assert (await cloud.ask("GET", f"/volumes/{volume_id}")).status == 404
    assert await cloud.storage.volumes() == []
    assert await usage(cloud) == {"volumes": 0, "snapshots": 0, "gigabytes": 0}


async def test_one_that_is_no_more_for_several_servers_has_overlays_above_its_copies(
    cloud: VolumeCloud,
) -> None:
    volume_id = await make(cloud)
    first = await taken(cloud, volume_id)
    other = {"volume_type": {"name": "other", "extra_specs": {"multiattach": "<is> True"}}}
    assert (await cloud.ask("POST", "/types", other, user="admin")).status == 200
    for name in ("other", "__DEFAULT__"):
        answer = await cloud.act(volume_id, "os-retype", {"new_type": name})
        assert answer.status == 202, answer.content
    assert not (await cloud.show(volume_id))["multiattach"]
    cloud.clock.advance(1)
    second = await taken(cloud, volume_id)
    assert await look(cloud, volume_id) == ("qcow2", [first, second])
    refused = await cloud.act(volume_id, "os-retype", {"new_type": "other"})
    assert (refused.status, "has snapshots" in refused.fault) == (400, True)
    for snapshot_id in (second, first):
        assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
        await cloud.settle()
    assert await look(cloud, volume_id) == ("raw", [])
    assert (await cloud.act(volume_id, "os-retype", {"new_type": "other"})).status == 202
    assert await cloud.complaints() == []
