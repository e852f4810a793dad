from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace
from starlette.responses import JSONResponse

from mooring.clients.snapshots import NewSnapshot, SnapshotClient
from mooring.clients.transport import Network
from mooring.clients.volume import NewVolume, VolumeClient
from mooring.errors import Conflict, Invalid, NotFound, OverQuota
from mooring.fence.operation import Operation
from mooring.who import Who
from tests.callers import PROJECT, session
from tests.volume.cloud import SERVER, UNKNOWN, VolumeCloud, connector

pytestmark = pytest.mark.anyio
USER = Who(user_id="member", project_id=PROJECT, token="member")
App = Callable[[Any, Any, Any], Awaitable[None]]


def client_of(cloud: VolumeCloud, app: App | None = None) -> VolumeClient:
    network = Network()
    network.serve("http://cloud/volume", app or cloud.cloud.apps["/volume"])
    return VolumeClient(session(network, "volume", "http://cloud/volume/v3", own="compute"))


def plain(app: App) -> App:
    """Return a service as a real Cinder is: it knows no operations, nor their header."""

    async def cinder(scope: Any, receive: Any, send: Any) -> None:
        headers = [pair for pair in scope["headers"] if pair[0] != b"mooring-operation"]
        path = scope["path"].replace("/mooring/", "/unknown/")
        await app(
            {**scope, "path": path, "raw_path": path.encode(), "headers": headers}, receive, send
        )

    return cinder


def operation(step: str = "reserve") -> Operation:
    return Operation("12345678-1234-4234-8234-123456789abc", step, 1, 5)


async def test_the_client_speaks_the_whole_new_flow(cloud: VolumeCloud) -> None:
    volumes = client_of(cloud)
    made = await volumes.create(USER, NewVolume(size_gib=1, name="data"), operation=operation())
    await cloud.settle()
    assert cloud.compute.woken == [operation().saga]
    shown = await volumes.show(USER, made.id)
    assert (shown.status, shown.size_gib, shown.is_bootable) == ("available", 1, False)
    assert [volume.id for volume in await volumes.volumes(USER, name="data")] == [made.id]
    attachment = await volumes.create_attachment(USER, made.id, SERVER)
    assert (attachment.status, attachment.server_id) == ("reserved", SERVER)
    connected = await volumes.connect_attachment(None, attachment.id, connector())
    assert connected.connection_info["driver_volume_type"] == "simulated"
    assert (await volumes.show_attachment(None, attachment.id)) == connected
    await volumes.complete_attachment(None, attachment.id)
    shown = await volumes.show(None, made.id)
    assert (shown.status, shown.attachments[0].attachment_id) == ("in-use", attachment.id)
    (listed,) = await volumes.attachments(None, volume_id=made.id, server_id=SERVER)
    assert (listed.id, listed.connection_info) == (attachment.id, {})
    await volumes.begin_detaching(USER, made.id)
    await volumes.roll_detaching(USER, made.id)
    await volumes.delete_attachment(None, attachment.id)
    await volumes.delete_attachment(None, attachment.id)
    await volumes.delete(None, made.id)
    await cloud.settle()
    await volumes.delete(None, made.id)
    with pytest.raises(NotFound):
        await volumes.show(None, made.id)


async def test_refusals_come_as_the_kinds_they_are(cloud: VolumeCloud) -> None:
    volumes = client_of(cloud)
    with pytest.raises(NotFound):
        await volumes.create_attachment(USER, UNKNOWN, SERVER)
    with pytest.raises(Invalid):
        await volumes.begin_detaching(USER, await cloud.make())
    with pytest.raises(OverQuota):
        await volumes.create(USER, NewVolume(size_gib=2000))
    volume_id = await cloud.make()
    attachment_id = await cloud.attach(volume_id)
    with pytest.raises(Conflict):
        await volumes.connect_attachment(None, attachment_id, connector("host2"))


async def test_the_legacy_actions_go_by_name(cloud: VolumeCloud) -> None:
    volumes, volume_id = client_of(cloud), await cloud.make()
    assert await volumes.act(USER, volume_id, "os-reserve") is None
    body = {"connector": connector()}
    answer = await volumes.act(None, volume_id, "os-initialize_connection", body)
    assert answer["connection_info"]["driver_volume_type"] == "simulated"


@pytest.mark.parametrize("peer", ["ours", "plain"])
async def test_what_volume_a_create_made_is_found(cloud: VolumeCloud, peer: str) -> None:
    volumes = client_of(cloud, plain(cloud.cloud.apps["/volume"]) if peer == "plain" else None)
    known = await cloud.make(name="root")
    wanted = NewVolume(size_gib=1, name="root")
    made = await volumes.create(USER, wanted, operation=operation())
    found = await volumes.bury_volumes(USER, operation(), name="root", known=[known])
    assert found == [made.id]
    for volume_id in found:
        await volumes.delete(None, volume_id, force=True)
    await cloud.settle()
    assert await cloud.count_volumes() == 1
    assert await cloud.complaints() == []


async def test_the_same_create_makes_one_volume(cloud: VolumeCloud) -> None:
    volumes = client_of(cloud)
    wanted = NewVolume(size_gib=1)
    first = await volumes.create(USER, wanted, operation=operation())
    again = await volumes.create(USER, wanted, operation=operation())
    assert first.id == again.id
    await cloud.settle()


@pytest.mark.parametrize("refuses", [True, False])
async def test_a_cinder_without_the_filters_is_asked_for_all_attachments(
    cloud: VolumeCloud, *, refuses: bool
) -> None:
    app = cloud.cloud.apps["/volume"]

    async def cinder(scope: Any, receive: Any, send: Any) -> None:
        """Refuse the filters, as resource_filters.json may have it, or overlook them."""
        is_filtered = scope["path"].endswith("/attachments") and b"_id=" in scope["query_string"]
        if is_filtered and refuses:
            await JSONResponse({"badRequest": {"message": "no"}}, 400)(scope, receive, send)
        else:
            known = [part for part in scope["query_string"].split(b"&") if b"_id=" not in part]
            query = b"&".join(known)
            await app({**scope, "query_string": query}, receive, send)

    volumes = client_of(cloud, cinder)
    mine, other = await cloud.make(), await cloud.make()
    first = await volumes.create_attachment(USER, mine, SERVER)
    second = await volumes.create_attachment(USER, other, UNKNOWN)
    listed = await volumes.attachments(None, volume_id=mine)
    assert [one.id for one in listed] == [first.id]
    assert [one.id for one in await volumes.attachments(None, server_id=UNKNOWN)] == [second.id]
    assert await volumes.attachments(None, server_id=UNKNOWN, volume_id=mine) == []


@pytest.mark.parametrize("peer", ["ours", "plain"])
async def test_what_snapshot_a_create_made_is_found(cloud: VolumeCloud, peer: str) -> None:
    app = plain(cloud.cloud.apps["/volume"]) if peer == "plain" else None
    snapshots = SnapshotClient(client_of(cloud, app).session)
    volume_id = await cloud.make()
    wanted = NewSnapshot(volume_id=volume_id, name="picture", metadata={"image_id": UNKNOWN})
    await snapshots.create(USER, replace(wanted, metadata={}))
    made = await snapshots.create(USER, wanted, operation=operation())
    await cloud.settle()
    assert await snapshots.bury(operation(), wanted) == [made.id]
    await snapshots.delete(None, made.id)
    await cloud.settle()
    with pytest.raises(NotFound):
        await snapshots.show(None, made.id)
    await snapshots.delete(None, made.id)


async def test_the_same_create_makes_one_snapshot_and_none_once_it_was_buried(
    cloud: VolumeCloud,
) -> None:
    snapshots = SnapshotClient(client_of(cloud).session)
    wanted = NewSnapshot(volume_id=await cloud.make(), name="picture", metadata={})
    first = await snapshots.create(USER, wanted, operation=operation())
    again = await snapshots.create(USER, wanted, operation=operation())
    assert (first.id, first.size_gib) == (again.id, 1)
    await cloud.settle()
    assert await snapshots.bury(operation("later"), wanted) == []
    with pytest.raises(Conflict):
        await snapshots.create(USER, wanted, operation=operation("later"))
