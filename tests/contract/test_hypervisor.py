"""What holds for every hypervisor: the same tests on the simulated one and on libvirt."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from msgspec.structs import replace

from mooring.agent.settings import HypervisorKind
from mooring.agent_api.disks import DiskSpec
from mooring.agent_api.servers import PowerRequest, RootDisk, ServerSpec
from mooring.errors import Conflict, Invalid, NotFound
from tests.agent.hosts import (
    IMAGE_ID,
    TestHost,
    new_id,
    open_host,
    operation,
    why_no_real_guests,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def state_dirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One directory for each hypervisor: finding out about a host takes seconds, once."""
    return {kind: tmp_path_factory.mktemp(kind) for kind in ("simulated", "libvirt")}


@pytest.fixture(params=["simulated", pytest.param("libvirt", marks=pytest.mark.hosts)])
def kind(request: pytest.FixtureRequest) -> HypervisorKind:
    if request.param == "libvirt" and (reason := why_no_real_guests()):
        pytest.skip(reason)
    return request.param


@pytest.fixture
async def host(kind: HypervisorKind, state_dirs: dict[str, Path]) -> AsyncGenerator[TestHost]:
    async with open_host(state_dirs[kind], kind) as (found, _):
        yield found
        for guest in await found.client.list_servers():
            await found.remove(guest.server_id)


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
    host: TestHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libvirt_hypervisor(), "AGENT_UNPLUG_S", 1.0)
    monkeypatch.setattr(libvirt_hypervisor(), "AGENT_UNPLUG_ASK_S", 0.5)
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


def libvirt_hypervisor() -> ModuleType:
    return import_module("mooring.agent.libvirt.hypervisor")


async def test_guests_are_found_again_by_the_next_agent(
    kind: HypervisorKind, state_dirs: dict[str, Path]
) -> None:
    server_id = new_id()
    async with open_host(state_dirs[kind], kind) as (host, _):
        disk = await host.make_disk()
        await host.boot(server_id, [disk])
        before = await host.client.show_server(server_id)
    async with open_host(state_dirs[kind], kind) as (host, _):
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
