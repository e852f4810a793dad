"""What holds for every hypervisor: the same tests on the simulated one and on libvirt."""

from __future__ import annotations

import asyncio
import os
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from mooring.agent.app import RunningAgent
from mooring.agent.qemu_img import GIB
from mooring.agent.settings import HypervisorKind
from mooring.agent_api.disks import DiskSize, DiskSpec
from mooring.agent_api.servers import PowerRequest, RootDisk, ServerSpec
from mooring.agent_api.volumes import Extended
from mooring.errors import Conflict, Invalid, NoCapacity, NotFound
from tests.agent.hosts import (
    IMAGE_ID,
    TestHost,
    new_id,
    open_host,
    operation,
)

pytestmark = pytest.mark.anyio


async def test_a_guest_boots_says_so_and_leaves_nothing(host: TestHost) -> None:
    server_id = new_id()
    guest = await host.boot(server_id)
    assert (guest.state, guest.image_id, guest.root_device) == ("running", IMAGE_ID, "/dev/vda")
    assert await host.client.read_console(server_id, 0) == ""
    last = await host.client.read_console(server_id, 1)
    assert last.count("\n") <= 1
    await host.remove(server_id)
    await host.remove(server_id)
    assert await host.client.show_server(server_id) is None
    with pytest.raises(NotFound):
        await host.client.read_console(server_id)
    assert (await host.client.inventory()).leftovers == []


async def test_disks_come_and_go_while_the_guest_runs(host: TestHost) -> None:
    server_id, disk = new_id(), await host.make_disk()
    await host.boot(server_id)
    given = await host.plug(server_id, disk)
    assert (given.device, given.attachment_id) == ("/dev/vdb", disk.attachment_id)
    assert (given.live, given.persistent) == (True, True)
    assert (await host.plug(server_id, disk)).device == "/dev/vdb"
    await host.hears(server_id, f"disk vdb {1024**3} bytes serial={disk.volume_id[:20]}")
    with pytest.raises(Conflict):
        await host.client.disconnect(disk.attachment_id, operation=operation())
    for _ in range(2):
        await host.client.unplug_disk(server_id, disk.volume_id, operation=operation())
    await host.hears(server_id, "disk vdb gone")
    guest = await host.client.show_server(server_id)
    assert guest is not None
    assert guest.disks == []
    await host.client.disconnect(disk.attachment_id, operation=operation())
    assert (await host.client.inventory()).connections == []


async def test_a_stopped_guest_keeps_its_disks_and_takes_new_ones(host: TestHost) -> None:
    server_id = new_id()
    first, second = await host.make_disk(), await host.make_disk(2)
    await host.boot(server_id, [first])
    off = PowerRequest(state="off", mode="soft", timeout_s=60)
    guest = await host.client.set_power(server_id, off, operation=operation())
    assert guest.state == "stopped"
    await host.tells(server_id, "guest_stopped", "shut down")
    assert "power button" in await host.client.read_console(server_id)
    given = await host.plug(server_id, second)
    assert (given.device, given.live) == ("/dev/vdc", False)
    await host.client.unplug_disk(server_id, first.volume_id, operation=operation())
    guest = await host.client.set_power(server_id, PowerRequest(state="on"), operation=operation())
    assert [(disk.device, disk.live) for disk in guest.disks] == [("/dev/vdc", True)]
    await host.hears(server_id, "mooring-guest: up", times=2)
    await host.hears(server_id, f"bytes serial={second.volume_id[:20]}")


async def test_the_sizes_of_a_disk_are_told_whether_its_guest_runs_or_not(host: TestHost) -> None:
    server_id, disk = new_id(), await host.make_disk(2)
    await host.boot(server_id, [disk])
    size = await host.client.show_disk_size(server_id, disk.volume_id)
    assert (size.guest_bytes, size.image_bytes) == (2 * 1024**3, 2 * 1024**3)
    (seen,) = (await host.client.inventory()).disks
    assert (seen.server_id, seen.volume_id, seen.size) == (server_id, disk.volume_id, size)
    off = PowerRequest(state="off")
    await host.client.set_power(server_id, off, operation=operation())
    assert await host.client.show_disk_size(server_id, disk.volume_id) == size
    for server, volume in ((server_id, new_id()), (new_id(), disk.volume_id)):
        with pytest.raises(NotFound):
            await host.client.show_disk_size(server, volume)


async def test_a_reboot_brings_exactly_the_disks_it_is_given(host: TestHost) -> None:
    server_id = new_id()
    first, second = await host.make_disk(), await host.make_disk()
    await host.boot(server_id, [first])
    power = PowerRequest(state="reboot", mode="hard", disks=[second])
    guest = await host.client.set_power(server_id, power, operation=operation())
    assert guest.state == "running"
    assert [disk.volume_id for disk in guest.disks] == [second.volume_id]
    await host.hears(server_id, "mooring-guest: up", times=2)
    power = PowerRequest(state="reboot", mode="soft", timeout_s=60)
    await host.client.set_power(server_id, power, operation=operation())
    await host.hears(server_id, "mooring-guest: up", times=3)


async def test_a_guest_takes_26_disks_and_no_more(host: TestHost) -> None:
    server_id = new_id()
    await host.boot(server_id)
    disks = [await host.make_disk() for _ in range(26)]
    devices = [(await host.plug(server_id, disk)).device for disk in disks[:25]]
    assert devices == [f"/dev/vd{letter}" for letter in "bcdefghijklmnopqrstuvwxyz"]
    with pytest.raises(Exception, match=r"letters|no free device") as caught:
        await host.plug(server_id, disks[25])
    assert getattr(caught.value, "kind", "") == "no_capacity"
    await host.hears(server_id, "disk vdz")


async def test_a_disk_grows_under_its_guest(host: TestHost) -> None:
    server_id, disk = new_id(), await host.make_disk()
    await host.boot(server_id, [disk])
    volume_id, named = disk.volume_id, operation()
    refused = await host.client.extend_volume(volume_id, 2, operation=operation())
    assert refused == Extended(GIB, needs_compute=True)
    for one in (named, named, operation()):
        size = await host.client.resize_disk(server_id, volume_id, 2 * GIB, operation=one)
        assert size == DiskSize(guest_bytes=2 * GIB, image_bytes=2 * GIB)
    await host.hears(server_id, f"disk vdb {2 * GIB} bytes serial={volume_id[:20]}")
    found = await host.client.show_volume(volume_id)
    assert found is not None
    assert (found.size_gib, found.virtual_bytes) == (2, 2 * GIB)
    grown = await host.client.extend_volume(volume_id, 2, operation=operation())
    assert grown == Extended(2 * GIB)
    late = await host.client.resize_disk(server_id, volume_id, GIB, operation=operation())
    assert late == DiskSize(guest_bytes=2 * GIB, image_bytes=2 * GIB)
    assert await host.client.show_volume(volume_id) == found
    assert (await host.client.inventory()).leftovers == []


async def test_the_disk_of_a_stopped_guest_grows_in_its_file(host: TestHost) -> None:
    server_id, disk = new_id(), await host.make_disk()
    await host.boot(server_id, [disk])
    off, on = PowerRequest(state="off"), PowerRequest(state="on")
    await host.client.set_power(server_id, off, operation=operation())
    size = await host.client.resize_disk(server_id, disk.volume_id, 2 * GIB, operation=operation())
    assert size == DiskSize(guest_bytes=2 * GIB, image_bytes=2 * GIB)
    grown = await host.client.extend_volume(disk.volume_id, 3, operation=operation())
    assert grown == Extended(3 * GIB)
    late = await host.client.resize_disk(server_id, disk.volume_id, 2 * GIB, operation=operation())
    assert late == DiskSize(guest_bytes=3 * GIB, image_bytes=3 * GIB)
    await host.client.set_power(server_id, on, operation=operation())
    await host.hears(server_id, f"disk vdb {3 * GIB} bytes serial={disk.volume_id[:20]}")


async def test_what_is_not_there_does_not_grow(host: TestHost) -> None:
    server_id, volume_id = new_id(), new_id()
    with pytest.raises(NotFound, match=server_id):
        await host.client.resize_disk(server_id, volume_id, GIB, operation=operation())
    disk = await host.make_disk()
    spec = ServerSpec(name="x", vcpus=1, memory_mib=64, disks=[replace(disk, boot_index=0)])
    await host.client.put_server(server_id, spec, operation=operation())
    with pytest.raises(NotFound, match=volume_id):
        await host.client.resize_disk(server_id, volume_id, GIB, operation=operation())
    with pytest.raises(Invalid, match="whole sectors"):
        await host.client.resize_disk(server_id, disk.volume_id, GIB + 1, operation=operation())
    with pytest.raises(NotFound, match=volume_id):
        await host.client.extend_volume(volume_id, 2, operation=operation())


async def test_a_growth_that_was_given_up_does_not_come_late(host: TestHost) -> None:
    server_id, disk, named = new_id(), await host.make_disk(), operation()
    spec = ServerSpec(name="x", vcpus=1, memory_mib=64, disks=[replace(disk, boot_index=0)])
    await host.client.put_server(server_id, spec, operation=operation())
    await host.client.forget_resize(server_id, disk.volume_id, operation=named)
    await host.client.forget_extend(disk.volume_id, operation=named)
    with pytest.raises(Conflict, match="has been undone"):
        await host.client.resize_disk(server_id, disk.volume_id, 2 * GIB, operation=named)
    with pytest.raises(Conflict, match="has been undone"):
        await host.client.extend_volume(disk.volume_id, 2, operation=named)
    found = await host.client.show_volume(disk.volume_id)
    assert found is not None
    assert found.virtual_bytes == GIB
    await host.client.resize_disk(server_id, disk.volume_id, 2 * GIB, operation=operation())


async def test_a_guest_boots_from_a_volume(host: TestHost) -> None:
    image = await host.push_image()
    server_id, disk = new_id(), await host.make_disk(image_id=image.image_id)
    await host.client.delete_image(image.image_id, operation=operation())
    boot = replace(disk, boot_index=0)
    spec = ServerSpec(name="guest", vcpus=1, memory_mib=128, disks=[boot], network="auto")
    guest = await host.client.put_server(server_id, spec, operation=operation())
    assert (guest.root_device, guest.image_id) == ("/dev/vda", "")
    assert [(one.device, one.boot_index) for one in guest.disks] == [("/dev/vda", 0)]
    await host.hears(server_id, f"disk vda {1024**3} bytes serial={disk.volume_id[:20]}")


async def test_a_guest_keeps_its_root_disk_when_the_image_leaves_the_cache(host: TestHost) -> None:
    server_id = new_id()
    await host.boot(server_id)
    await host.client.delete_image(IMAGE_ID, operation=operation())
    power = PowerRequest(state="reboot", mode="hard")
    guest = await host.client.set_power(server_id, power, operation=operation())
    assert guest.state == "running"
    await host.hears(server_id, "mooring-guest: up", times=2)


@pytest.mark.hosts
@pytest.mark.parametrize("kind", ["libvirt"], indirect=True)
async def test_a_booting_guest_is_asked_again_until_it_lets_go(host: TestHost) -> None:
    server_id, disk = new_id(), await host.make_disk()
    await host.push_image()
    root = RootDisk(image_id=IMAGE_ID, size_gib=1)
    spec = ServerSpec(name="guest", vcpus=1, memory_mib=128, root=root, disks=[disk])
    await host.client.put_server(server_id, spec, operation=operation())
    await host.client.unplug_disk(server_id, disk.volume_id, operation=operation())
    guest = await host.client.show_server(server_id)
    assert guest is not None
    assert (guest.state, guest.disks) == ("running", [])


@pytest.mark.hosts
@pytest.mark.parametrize("kind", ["libvirt"], indirect=True)
async def test_a_guest_that_keeps_its_disk_has_it_as_before(
    kind: HypervisorKind, inner_dirs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libvirt_unplugging(), "AGENT_UNPLUG_S", 1.0)
    monkeypatch.setattr(libvirt_unplugging(), "AGENT_UNPLUG_ASK_S", 0.5)
    async with open_host(inner_dirs[kind], kind) as (host, _):
        server_id, empty, disk = new_id(), await host.make_disk(), await host.make_disk()
        # Nothing boots from an empty volume, so nobody lets go of anything.
        spec = ServerSpec(
            name="guest", vcpus=1, memory_mib=128, disks=[replace(empty, boot_index=0), disk]
        )
        before = await host.client.put_server(server_id, spec, operation=operation())
        with pytest.raises(Conflict, match="keeps volume"):
            await host.client.unplug_disk(server_id, disk.volume_id, operation=operation())
        assert await host.client.show_server(server_id) == before
        off = PowerRequest(state="off")
        await host.client.set_power(server_id, off, operation=operation())
        await host.client.unplug_disk(server_id, disk.volume_id, operation=operation())
        guest = await host.client.show_server(server_id)
        assert guest is not None
        assert [one.volume_id for one in guest.disks] == [empty.volume_id]
        await host.remove(server_id)


def libvirt_unplugging() -> ModuleType:
    return import_module("mooring.agent.libvirt.unplugging")


async def test_guests_are_found_again_by_the_next_agent(
    kind: HypervisorKind, inner_dirs: dict[str, Path]
) -> None:
    server_id = new_id()
    async with open_host(inner_dirs[kind], kind) as (host, _):
        disk = await host.make_disk()
        await host.boot(server_id, [disk])
        before = await host.client.show_server(server_id)
    async with open_host(inner_dirs[kind], kind) as (host, _):
        assert await host.client.show_server(server_id) == before
        await host.hears(server_id, f"bytes serial={disk.volume_id[:20]}")
        await host.client.unplug_disk(server_id, disk.volume_id, operation=operation())
        await host.hears(server_id, "disk vdb gone")
        await host.remove(server_id)


async def test_what_makes_no_sense_is_refused(host: TestHost) -> None:
    await host.push_image()
    server_id = new_id()
    missing = ServerSpec(name="x", vcpus=1, memory_mib=64, root=RootDisk(image_id=new_id()))
    with pytest.raises(NotFound, match="not in the cache"):
        await host.client.put_server(server_id, missing, operation=operation())
    nothing = ServerSpec(name="x", vcpus=1, memory_mib=64)
    with pytest.raises(Invalid, match="nothing to boot from"):
        await host.client.put_server(server_id, nothing, operation=operation())
    foreign = DiskSpec(
        volume_id=new_id(),
        attachment_id=new_id(),
        connection={"driver_volume_type": "iscsi", "data": {"device_path": "/dev/null"}},
        boot_index=0,
    )
    spec = ServerSpec(name="x", vcpus=1, memory_mib=64, disks=[foreign])
    with pytest.raises(Invalid, match="cannot connect volumes of type iscsi"):
        await host.client.put_server(server_id, spec, operation=operation())
    assert await host.client.show_server(server_id) is None
    with pytest.raises(NotFound):
        await host.plug(server_id, await host.make_disk())


@pytest.mark.hosts
@pytest.mark.parametrize("kind", ["libvirt"], indirect=True)
@pytest.mark.parametrize("disk_format", ["raw", "qcow2"])
async def test_qemu_grows_a_disk_running_paused_and_off(
    kind: HypervisorKind, inner_dirs: dict[str, Path], disk_format: Literal["raw", "qcow2"]
) -> None:
    async with open_host(inner_dirs[kind], kind) as (host, running):
        server_id, disk = new_id(), await host.make_disk(disk_format=disk_format)
        await start_on(host, server_id, disk)
        # The file alone has grown already, behind QEMU's back: only the guest must be told.
        if disk_format == "raw":
            os.truncate(disk.connection["data"]["device_path"], 2 * GIB)
        assert await grow(host, server_id, disk, 2) == both(2)
        await pause(running, server_id)
        guest = await host.client.show_server(server_id)
        assert guest is not None
        assert guest.state == "paused"
        assert await grow(host, server_id, disk, 3) == both(3)
        off = PowerRequest(state="off")
        await host.client.set_power(server_id, off, operation=operation())
        assert await grow(host, server_id, disk, 4) == both(4)
        on = PowerRequest(state="on")
        await host.client.set_power(server_id, on, operation=operation())
        assert await grow(host, server_id, disk, 4) == both(4)
        await host.remove(server_id)


@pytest.mark.hosts
@pytest.mark.parametrize("kind", ["libvirt"], indirect=True)
async def test_a_guest_that_goes_while_its_disk_grows_has_it_grown(
    kind: HypervisorKind, inner_dirs: dict[str, Path]
) -> None:
    async with open_host(inner_dirs[kind], kind) as (host, running):
        server_id, disk = new_id(), await host.make_disk(disk_format="qcow2")
        await start_on(host, server_id, disk)
        domain = domain_of(running, server_id)
        # The guest is there when it is looked at, and gone when QEMU is asked.
        ended = Domain(domain)
        resize_live = import_module("mooring.agent.libvirt.sizes").resize_live
        assert resize_live(ended, disk.volume_id, 2 * GIB) is None
        assert ended.was_asked
        assert await grow(host, server_id, disk, 2) == both(2)
        await host.remove(server_id)


@pytest.mark.hosts
@pytest.mark.parametrize("kind", ["libvirt"], indirect=True)
@pytest.mark.parametrize("disk_format", ["raw", "qcow2"])
async def test_a_growth_that_no_file_can_hold_is_refused_and_changes_nothing(
    host: TestHost, disk_format: Literal["raw", "qcow2"]
) -> None:
    server_id, disk = new_id(), await host.make_disk(disk_format=disk_format)
    await start_on(host, server_id, disk)
    for power in (PowerRequest(state="on"), PowerRequest(state="off")):
        await host.client.set_power(server_id, power, operation=operation())
        with pytest.raises(NoCapacity):
            await grow(host, server_id, disk, 2**30)
        found = await host.client.show_volume(disk.volume_id)
        assert found is not None
        assert found.virtual_bytes == GIB
        assert await grow(host, server_id, disk, 1) == both(1)


class Domain:
    """A domain that is switched off just before it is asked to grow a disk."""

    def __init__(self, domain: Any) -> None:
        self._domain, self.was_asked = domain, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._domain, name)

    def blockResize(self, *words: Any) -> None:  # noqa: N802  (libvirt's name)
        self._domain.destroy()
        self.was_asked = True
        self._domain.blockResize(*words)


async def start_on(host: TestHost, server_id: str, disk: DiskSpec) -> None:
    """Start a guest on an empty volume: QEMU runs, and nothing boots."""
    spec = ServerSpec(name="x", vcpus=1, memory_mib=64, disks=[replace(disk, boot_index=0)])
    await host.client.put_server(server_id, spec, operation=operation())


async def grow(host: TestHost, server_id: str, disk: DiskSpec, size_gib: int) -> DiskSize:
    return await host.client.resize_disk(
        server_id, disk.volume_id, size_gib * GIB, operation=operation()
    )


def both(size_gib: int) -> DiskSize:
    return DiskSize(guest_bytes=size_gib * GIB, image_bytes=size_gib * GIB)


async def pause(running: RunningAgent, server_id: str) -> None:
    await asyncio.to_thread(domain_of(running, server_id).suspend)


def domain_of(running: RunningAgent, server_id: str) -> Any:
    connection = vars(running.agent.hypervisor)["_connection"]
    return connection.handle.lookupByUUIDString(server_id)
