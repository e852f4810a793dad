"""Volumes that take the place of others: the same on both hypervisors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent.qemu_img import GIB
from mooring.agent.waiting import until_told
from mooring.agent_api.disks import DiskSpec, GuestDisk
from mooring.agent_api.mirrors import SWITCHED, SwitchRequest
from mooring.agent_api.servers import PowerRequest
from mooring.agent_api.snapshots import SnapshotSpec
from mooring.errors import Conflict, Invalid, NotFound
from tests.agent.hosts import BOOT_S, TestHost, new_id, operation

pytestmark = pytest.mark.anyio
MARK, FAR = b"mooring-swap" * 512, 700 << 20


class Swap:
    """A running guest with a volume, and another one that is to take its place."""

    def __init__(self, host: TestHost, server_id: str, old: DiskSpec, new: DiskSpec) -> None:
        self.host, self.server_id, self.old, self.new = host, server_id, old, new

    @property
    def names(self) -> tuple[str, str]:
        return self.server_id, self.old.volume_id

    async def begin(self) -> None:
        await self.host.client.mirror_disk(*self.names, self.new, operation=operation())

    async def in_step(self) -> None:
        async def told() -> bool:
            return (await self.host.client.mirroring(*self.names)).in_step

        assert await until_told(told, BOOT_S)

    async def switch(self) -> GuestDisk:
        wanted = SwitchRequest(volume_id=self.new.volume_id, attachment_id=self.new.attachment_id)
        return await self.host.client.switch_disk(*self.names, wanted, operation=operation())

    async def stop(self) -> None:
        attachment_id = self.new.attachment_id
        await self.host.client.stop_mirror(*self.names, attachment_id, operation=operation())

    async def whole_copy(self) -> None:
        await self.begin()
        await self.in_step()

    async def whole(self) -> GuestDisk:
        await self.whole_copy()
        return await self.switch()

    async def disks(self) -> list[tuple[str, str, bool, bool]]:
        guest = await self.host.client.show_server(self.server_id)
        assert guest is not None
        return [(one.volume_id, one.attachment_id, one.live, one.persistent) for one in guest.disks]

    async def connected(self) -> set[str]:
        inventory = await self.host.client.inventory()
        mine = {self.old.volume_id, self.new.volume_id}
        return {one.attachment_id for one in inventory.connections if one.volume_id in mine}

    async def power(self, state: str) -> None:
        request = PowerRequest(state=state)  # pyright: ignore[reportArgumentType] (one of its words)
        await self.host.client.set_power(self.server_id, request, operation=operation())

    def has(self, spec: DiskSpec) -> tuple[str, str, bool, bool]:
        return spec.volume_id, spec.attachment_id, True, True


def path_of(spec: DiskSpec) -> Path:
    return Path(spec.connection["data"]["device_path"])


async def prepare(host: TestHost, *, new_gib: int = 1) -> Swap:
    server_id = new_id()
    old = await host.make_disk(disk_format="raw")
    new = await host.make_disk(new_gib, disk_format="raw")
    if host.real:
        for at in (0, FAR):
            write(path_of(old), at, MARK)
        write(path_of(new), 4096, b"what was there before")
    await host.boot(server_id, [old])
    if host.real:
        # Else it may write that to the new one alone, once it was switched.
        await host.hears(server_id, "vdb marker written")
    return Swap(host, server_id, old, new)


def write(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), data, at)


def read(path: Path, at: int, length: int) -> bytes:
    with path.open("rb") as file:
        return os.pread(file.fileno(), length, at)


def same_data(swap: Swap) -> bool:
    """Whether both volumes hold the same, where there are files."""
    if not swap.host.real:
        return True
    old, new = path_of(swap.old), path_of(swap.new)
    return all(read(old, at, 8192) == read(new, at, 8192) for at in (0, 4096, FAR))


async def test_a_running_guest_goes_on_with_the_new_volume_and_its_data(host: TestHost) -> None:
    swap = await prepare(host)
    given = await swap.whole()
    assert (given.volume_id, given.device) == (swap.new.volume_id, "/dev/vdb")
    assert await swap.disks() == [swap.has(swap.new)]
    assert same_data(swap)
    # Both are connected until whoever asked lets go of the old one.
    assert await swap.connected() == {swap.old.attachment_id, swap.new.attachment_id}
    await host.client.disconnect(swap.old.attachment_id, operation=operation())
    assert await swap.connected() == {swap.new.attachment_id}


async def test_the_next_start_has_the_new_volume_under_its_own_name(host: TestHost) -> None:
    swap = await prepare(host)
    await swap.whole()
    said = await host.client.read_console(swap.server_id)
    assert f"serial={swap.new.volume_id[:20]}" not in said
    await swap.power("off")
    await swap.power("on")
    await host.hears(swap.server_id, f"serial={swap.new.volume_id[:20]}")
    assert await swap.disks() == [swap.has(swap.new)]


async def test_a_larger_volume_is_seen_by_the_guest_at_once(host: TestHost) -> None:
    swap = await prepare(host, new_gib=2)
    await swap.whole()
    await host.client.resize_disk(
        swap.server_id, swap.new.volume_id, 2 * GIB, operation=operation()
    )
    await host.hears(swap.server_id, f"disk vdb {2 * GIB} bytes")
    size = await host.client.show_disk_size(swap.server_id, swap.new.volume_id)
    assert (size.guest_bytes, size.image_bytes) == (2 * GIB, 2 * GIB)


async def test_each_verb_may_be_asked_again(host: TestHost) -> None:
    swap = await prepare(host)
    for _ in range(2):
        await swap.begin()
    await swap.in_step()
    first = await swap.switch()
    assert await swap.switch() == first
    assert await swap.disks() == [swap.has(swap.new)]


async def test_a_copy_that_is_stopped_leaves_the_guest_with_the_old_volume(host: TestHost) -> None:
    swap = await prepare(host)
    await swap.begin()
    await swap.in_step()
    for _ in range(2):
        await swap.stop()
    assert await swap.disks() == [swap.has(swap.old)]
    assert await swap.connected() == {swap.old.attachment_id}
    with pytest.raises(Conflict, match="ended before its time"):
        await host.client.mirroring(*swap.names)
    # What was stopped may be asked for anew.
    await swap.whole()
    assert await swap.disks() == [swap.has(swap.new)]


async def test_what_the_guest_has_by_now_is_not_taken_back(host: TestHost) -> None:
    swap = await prepare(host)
    await swap.whole()
    with pytest.raises(Conflict) as caught:
        await swap.stop()
    assert caught.value.detail[SWITCHED] is True
    assert await swap.disks() == [swap.has(swap.new)]
    assert swap.new.attachment_id in await swap.connected()


async def test_without_a_copy_in_step_nothing_is_switched(host: TestHost) -> None:
    swap = await prepare(host)
    with pytest.raises(NotFound, match="not connected"):
        await swap.switch()
    await swap.begin()
    await swap.in_step()
    await swap.power("off")
    with pytest.raises(Conflict, match="ended before its time"):
        await swap.switch()
    await swap.power("on")
    assert await swap.disks() == [swap.has(swap.old)]
    with pytest.raises(Conflict, match="ended before its time"):
        await swap.switch()
    await swap.stop()
    assert await swap.disks() == [swap.has(swap.old)]


async def test_a_guest_that_is_off_is_refused(host: TestHost) -> None:
    swap = await prepare(host)
    await swap.power("off")
    with pytest.raises(Conflict, match="does not run"):
        await swap.begin()
    await swap.stop()
    assert await swap.connected() == {swap.old.attachment_id}


async def test_a_paused_guest_is_swapped_and_goes_on(host: TestHost) -> None:
    swap = await prepare(host)
    await swap.power("pause")
    await swap.whole()
    await swap.power("unpause")
    assert await swap.disks() == [swap.has(swap.new)]


async def test_a_swapped_guest_keeps_its_memory_and_its_volume_when_suspended(
    host: TestHost,
) -> None:
    swap = await prepare(host)
    await swap.whole()
    await swap.power("suspend")
    await swap.power("resume")
    assert await swap.disks() == [swap.has(swap.new)]
    assert (await host.client.read_console(swap.server_id)).count("mooring-guest: up") == 1


async def test_a_copy_that_nobody_waits_for_ends_when_its_guest_is_suspended(
    host: TestHost,
) -> None:
    swap = await prepare(host)
    await swap.whole_copy()
    await swap.power("suspend")
    assert await swap.disks() == [(swap.old.volume_id, swap.old.attachment_id, False, True)]
    await swap.power("resume")
    assert await swap.disks() == [swap.has(swap.old)]
    with pytest.raises(Conflict, match="ended before its time"):
        await swap.switch()
    await swap.stop()
    await swap.whole()
    assert await swap.disks() == [swap.has(swap.new)]


async def test_a_disk_does_not_grow_while_it_is_copied(host: TestHost) -> None:
    swap = await prepare(host)
    await swap.whole_copy()
    with pytest.raises(Conflict, match="is copied to another one, and was not grown") as caught:
        await host.client.resize_disk(*swap.names, 2 * GIB, operation=operation())
    assert caught.value.detail["busy"] is True
    assert (await host.client.show_disk_size(*swap.names)).image_bytes == GIB
    await swap.stop()
    size = await host.client.resize_disk(*swap.names, 2 * GIB, operation=operation())
    assert (size.guest_bytes, size.image_bytes) == (2 * GIB, 2 * GIB)


async def test_a_volume_is_swapped_again_and_again(host: TestHost) -> None:
    swap = await prepare(host)
    await swap.whole()
    back = Swap(host, swap.server_id, swap.new, replace(swap.old, attachment_id=new_id()))
    await host.client.disconnect(swap.old.attachment_id, operation=operation())
    connection = await host.client.export_volume(
        back.new.volume_id,
        back.new.attachment_id,
        await host.client.connector(),
        operation=operation(),
    )
    back.new = replace(back.new, connection=connection)
    await back.begin()
    assert await back.disks() == [back.has(back.old)]
    await back.in_step()
    await back.stop()
    assert await back.disks() == [back.has(back.old)]
    await back.whole()
    assert await back.disks() == [back.has(back.new)]
    await swap.power("off")
    await swap.power("on")
    assert await back.disks() == [back.has(back.new)]


async def test_a_swapped_volume_is_unplugged_by_its_new_name(host: TestHost) -> None:
    swap = await prepare(host)
    await swap.whole()
    await host.client.unplug_disk(
        swap.server_id, swap.new.volume_id, swap.new.attachment_id, operation=operation()
    )
    await host.hears(swap.server_id, "disk vdb gone")
    assert await swap.disks() == []
    await host.plug(swap.server_id, swap.old)
    assert await swap.disks() == [swap.has(swap.old)]


async def test_unplugging_the_new_volume_ends_the_copy(host: TestHost) -> None:
    swap = await prepare(host)
    await swap.whole_copy()
    await host.client.unplug_disk(
        swap.server_id, swap.new.volume_id, swap.new.attachment_id, operation=operation()
    )
    assert await swap.disks() == [swap.has(swap.old)]
    with pytest.raises((Conflict, NotFound)):
        await host.client.mirroring(*swap.names)


async def test_a_guest_that_is_to_lose_the_old_volume_goes_on_with_the_new_one(
    host: TestHost,
) -> None:
    swap = await prepare(host)
    await swap.whole_copy()
    await host.client.unplug_disk(
        swap.server_id, swap.old.volume_id, swap.old.attachment_id, operation=operation()
    )
    assert await swap.disks() == [swap.has(swap.new)]
    assert same_data(swap)
    with pytest.raises((Conflict, NotFound)):
        await host.client.mirroring(*swap.names)
    await swap.power("off")
    await swap.power("on")
    assert await swap.disks() == [swap.has(swap.new)]


async def test_a_larger_volume_that_is_given_up_has_its_size_again(host: TestHost) -> None:
    swap = await prepare(host, new_gib=2)
    await swap.begin()
    await swap.stop()
    shown = await host.client.show_volume(swap.new.volume_id)
    assert shown is not None
    assert shown.virtual_bytes == 2 * GIB


async def test_a_larger_volume_that_is_gone_is_let_go(host: TestHost) -> None:
    swap = await prepare(host, new_gib=2)
    await swap.begin()
    await swap.power("off")
    named = swap.new.volume_id, swap.new.attachment_id
    await host.client.unexport_volume(*named, operation=operation())
    await host.client.delete_volume(named[0], operation=operation())
    for _ in range(2):
        await host.client.disconnect(named[1], operation=operation())
    assert await swap.connected() == {swap.old.attachment_id}


async def test_a_smaller_volume_is_refused(host: TestHost) -> None:
    server_id = new_id()
    old, new = await host.make_disk(2, disk_format="raw"), await host.make_disk(disk_format="raw")
    await host.boot(server_id, [old])
    swap = Swap(host, server_id, old, new)
    with pytest.raises(Invalid, match="use a larger volume"):
        await swap.begin()
    await swap.stop()
    assert await swap.disks() == [swap.has(old)]


async def test_a_volume_with_a_snapshot_is_not_copied_to(host: TestHost) -> None:
    swap, snapshot_id = await prepare(host), new_id()
    volume_id, attachment_id = swap.new.volume_id, swap.new.attachment_id
    await host.client.unexport_volume(volume_id, attachment_id, operation=operation())
    taken = SnapshotSpec("taken")
    await host.client.put_snapshot(volume_id, snapshot_id, taken, operation=operation())
    connector = await host.client.connector()
    connection = await host.client.export_volume(
        volume_id, attachment_id, connector, operation=operation()
    )
    swap.new = replace(swap.new, connection=connection)
    with pytest.raises(Conflict, match="with snapshots"):
        await swap.begin()
    await swap.stop()
    assert await swap.disks() == [swap.has(swap.old)]


async def test_what_is_not_there_is_not_swapped(host: TestHost) -> None:
    swap = await prepare(host)
    stranger = Swap(host, new_id(), swap.old, swap.new)
    with pytest.raises(NotFound):
        await stranger.begin()
    await stranger.stop()
    other = Swap(host, swap.server_id, replace(swap.old, volume_id=new_id()), swap.new)
    with pytest.raises(NotFound):
        await other.begin()
    await other.stop()
    itself = Swap(host, swap.server_id, swap.old, swap.old)
    with pytest.raises(Invalid, match="its own place"):
        await itself.begin()


async def test_a_late_copy_behind_its_end_has_no_effect(host: TestHost) -> None:
    swap = await prepare(host)
    once = operation()
    await host.client.stop_mirror(*swap.names, swap.new.attachment_id, operation=once)
    with pytest.raises(Conflict) as caught:
        await host.client.mirror_disk(*swap.names, swap.new, operation=once)
    assert caught.value.detail["status"] == 410
    assert await swap.disks() == [swap.has(swap.old)]
