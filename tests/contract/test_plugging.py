"""A volume is connected and plugged in one verb, unplugged and disconnected in another."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.agent_api.disks import DiskSpec, GuestDisk
from mooring.agent_api.servers import PowerRequest, ServerSpec
from mooring.errors import Conflict, Invalid, NotFound
from mooring.fence.operation import Operation
from tests.agent.hosts import TestHost, new_id, operation

pytestmark = pytest.mark.anyio


async def test_a_disk_brings_its_connection_and_takes_it_along(host: TestHost) -> None:
    server_id, disk = new_id(), await host.make_disk()
    await host.boot(server_id)
    given = await host.plug(server_id, disk)
    assert (given.device, given.attachment_id, given.live) == (
        "/dev/vdb",
        disk.attachment_id,
        True,
    )
    assert await host.plug(server_id, disk) == given
    assert await connected(host, disk) == [disk.attachment_id]
    await host.hears(server_id, f"bytes serial={disk.volume_id[:20]}")
    named = operation()
    for one in (named, named, operation()):
        await unplug(host, server_id, disk, one)
        assert await connected(host, disk) == []
    await host.hears(server_id, "disk vdb gone")
    assert await disks_of(host, server_id) == []
    # What was undone does not come late, and what is asked anew does.
    with pytest.raises(Conflict, match="came too late"):
        await host.client.plug_disk(server_id, disk, operation=named)
    assert await connected(host, disk) == []
    assert (await host.plug(server_id, disk)).live


async def test_an_older_attachment_neither_takes_nor_replaces_the_present_one(
    host: TestHost,
) -> None:
    server_id, older = new_id(), await host.make_disk()
    await make_stopped(host, server_id)
    await host.plug(server_id, older)
    newer = await export_again(host, older)
    with pytest.raises(Conflict, match=f"by attachment {older.attachment_id}"):
        await host.plug(server_id, newer)
    assert await connected(host, older) == [older.attachment_id]
    await unplug(host, server_id, older)
    given = await host.plug(server_id, newer)
    await unplug(host, server_id, older)
    with pytest.raises(Conflict, match=f"by attachment {newer.attachment_id}"):
        await host.plug(server_id, older)
    assert await disks_of(host, server_id) == [given]
    assert await connected(host, older) == [newer.attachment_id]


async def test_a_disk_that_a_guest_has_stays_the_file_that_it_is(host: TestHost) -> None:
    server_id, disk, other = new_id(), await host.make_disk(), await host.make_disk()
    await host.boot(server_id, [disk])
    # The other one's file is as good, and nobody has it.
    moved = replace(disk, connection=other.connection)
    has = disk.connection["data"]["device_path"]
    off = PowerRequest(state="off")
    for state, live in (("running", True), ("stopped", False)):
        given = await host.plug(server_id, moved)
        assert (given.live, given.persistent) == (live, True)
        guest = await host.client.show_server(server_id)
        assert guest is not None
        assert (guest.state, [one.path for one in guest.disks]) == (state, [has])
        await host.client.set_power(server_id, off, operation=operation())


async def test_a_guest_only_reads_what_is_exported_to_be_read(host: TestHost) -> None:
    server_id, disk = new_id(), await host.make_disk()
    await host.boot(server_id)
    # As the attachments API tells it: flat (facts/block_storage.md 3).
    data = disk.connection.get("data", disk.connection)
    kind = {"driver_volume_type": disk.connection["driver_volume_type"]}
    only_read = replace(disk, connection={**data, **kind, "access_mode": "ro"})
    assert (await host.plug(server_id, only_read)).read_only
    with pytest.raises(Invalid, match=f"may only read volume {disk.volume_id}"):
        await host.client.resize_disk(server_id, disk.volume_id, 2 << 30, operation=operation())
    [shown] = await disks_of(host, server_id)
    assert (shown.read_only, shown.live, shown.persistent) == (True, True, True)
    await unplug(host, server_id, disk)
    assert not (await host.plug(server_id, disk)).read_only


async def test_what_a_guest_is_not_given_again_is_disconnected(host: TestHost) -> None:
    kept, lost, server_id = await host.make_disk(), await host.make_disk(), new_id()
    await host.boot(server_id, [kept, lost])
    reboot = PowerRequest(state="reboot", mode="hard", disks=[kept])
    for _ in range(2):
        guest = await host.client.set_power(server_id, reboot, operation=operation())
        assert [disk.attachment_id for disk in guest.disks] == [kept.attachment_id]
        assert guest.state == "running"
        assert (await connected(host, kept), await connected(host, lost)) == (
            [kept.attachment_id],
            [],
        )
        # As where an agent dies that has told the guest, and has not disconnected it yet.
        names = lost.attachment_id, lost.volume_id, lost.connection
        await host.client.connect(*names, server_id=server_id, operation=operation())


async def test_a_connection_that_another_guest_uses_stays(host: TestHost) -> None:
    disk = await host.make_disk(disk_format="raw")
    # The old calls know no attachments: the connection is called as the volume.
    shared = replace(disk, attachment_id=disk.volume_id, shareable=True)
    first, second = new_id(), new_id()
    for server_id in (first, second):
        await make_stopped(host, server_id)
        await host.plug(server_id, shared)
    await unplug(host, second, shared)
    assert await connected(host, disk) == [shared.attachment_id]
    assert len(await disks_of(host, first)) == 1
    await unplug(host, first, shared)
    assert await connected(host, disk) == []


async def test_without_a_guest_nothing_is_connected_and_all_is_taken_back(host: TestHost) -> None:
    server_id, disk = new_id(), await host.make_disk()
    with pytest.raises(NotFound, match=server_id):
        await host.plug(server_id, disk)
    assert await connected(host, disk) == []
    await host.client.connect(
        disk.attachment_id, disk.volume_id, disk.connection, operation=operation()
    )
    await unplug(host, server_id, disk)
    assert await connected(host, disk) == []


async def test_the_verb_of_the_release_before_leaves_the_connection(host: TestHost) -> None:
    server_id, disk = new_id(), await host.make_disk()
    await make_stopped(host, server_id)
    await host.plug(server_id, disk)
    await host.client.unplug_disk(server_id, disk.volume_id, operation=operation())
    assert await disks_of(host, server_id) == []
    assert await connected(host, disk) == [disk.attachment_id]
    await host.client.disconnect(disk.attachment_id, operation=operation())
    assert await connected(host, disk) == []


async def test_an_attachment_is_no_path(host: TestHost) -> None:
    server_id, disk = new_id(), await host.make_disk()
    await make_stopped(host, server_id)
    with pytest.raises(Invalid, match="no id of an attachment"):
        await host.plug(server_id, replace(disk, attachment_id="../guests"))
    assert await disks_of(host, server_id) == []


async def make_stopped(host: TestHost, server_id: str) -> None:
    """Define a guest that boots from an empty volume, and leave it off."""
    root = replace(await host.make_disk(), boot_index=0)
    spec = ServerSpec(name="x", vcpus=1, memory_mib=64, disks=[root], power="off")
    await host.client.put_server(server_id, spec, operation=operation())


async def unplug(
    host: TestHost, server_id: str, disk: DiskSpec, named: Operation | None = None
) -> None:
    await host.client.unplug_disk(
        server_id, disk.volume_id, disk.attachment_id, operation=named or operation()
    )


async def export_again(host: TestHost, disk: DiskSpec) -> DiskSpec:
    """Export a volume by a second attachment."""
    attachment_id = new_id()
    connection = await host.client.export_volume(
        disk.volume_id, attachment_id, await host.client.connector(), operation=operation()
    )
    return replace(disk, attachment_id=attachment_id, connection=connection)


async def disks_of(host: TestHost, server_id: str) -> list[GuestDisk]:
    """Return the volumes of a guest but for the one that it boots from."""
    guest = await host.client.show_server(server_id)
    assert guest is not None
    return [replace(disk, path="") for disk in guest.disks if disk.boot_index != 0]


async def connected(host: TestHost, disk: DiskSpec) -> list[str]:
    """Return the attachments by which the host has a volume connected."""
    found = (await host.client.inventory()).connections
    return [one.attachment_id for one in found if one.volume_id == disk.volume_id]
