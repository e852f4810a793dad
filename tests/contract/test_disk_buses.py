"""Disks on each bus, from a guest's start on and while it runs: the same on both hypervisors.

What a guest calls them is its own affair: Linux looks at several disks on scsi at once, and gives
the letters as it gets to know them.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.agent.qemu_img import GIB
from mooring.agent_api.disks import DiskSpec
from mooring.agent_api.servers import Guest, PowerRequest, RootDisk, ServerSpec
from mooring.errors import Conflict, Invalid, NoCapacity
from tests.agent.hosts import IMAGE_ID, TestHost, new_id, operation
from tests.contract.test_rescue import boots, rescue, unrescue

pytestmark = pytest.mark.anyio
MIB = 1024**2
UP = "mooring-guest: up"
ROOT = RootDisk(image_id=IMAGE_ID, size_gib=1)
SPEC = ServerSpec(name="guest", vcpus=1, memory_mib=128, root=ROOT, network="none")
OFF = PowerRequest(state="off")
START = PowerRequest(state="on")


async def put(host: TestHost, server_id: str, spec: ServerSpec) -> Guest:
    await host.push_image()
    return await host.client.put_server(server_id, spec, operation=operation())


async def make(host: TestHost, bus: str, count: int = 1) -> list[DiskSpec]:
    """Make volumes that a guest is to have on a bus."""
    return [replace(await host.make_disk(2), bus=bus) for _ in range(count)]


def places(guest: Guest) -> list[tuple[str, str, bool]]:
    return [(disk.device, disk.bus, disk.live) for disk in guest.disks]


async def test_a_guest_boots_from_scsi_and_has_its_other_disks_there(host: TestHost) -> None:
    server_id, client = new_id(), host.client
    [first, later] = await make(host, "scsi", 2)
    spec = replace(SPEC, root_bus="scsi", bus="scsi", swap_mib=64, disks=[first])
    guest = await put(host, server_id, spec)
    assert (guest.state, guest.root_device) == ("running", "/dev/sda")
    assert places(guest) == [("/dev/sdc", "scsi", True)]
    await host.hears(server_id, UP)
    await host.hears(server_id, f" {GIB} bytes")
    await host.hears(server_id, f" {64 * MIB} bytes")
    await host.hears(server_id, f" {2 * GIB} bytes serial={first.volume_id[:20]}")
    # One comes and goes while the guest runs, and grows meanwhile.
    given = await host.plug(server_id, later)
    assert (given.device, given.bus, given.live) == ("/dev/sdd", "scsi", True)
    await host.hears(server_id, f" {2 * GIB} bytes serial={later.volume_id[:20]}")
    assert await host.plug(server_id, later) == given
    await client.resize_disk(server_id, later.volume_id, 3 * GIB, operation=operation())
    await host.hears(server_id, f" {3 * GIB} bytes serial={later.volume_id[:20]}")
    await client.unplug_disk(server_id, later.volume_id, operation=operation())
    await host.hears(server_id, " gone")
    # A start with fresh connections leaves each disk where it is.
    before = await client.show_server(server_id)
    again = PowerRequest(state="reboot", mode="hard", disks=[first])
    assert await client.set_power(server_id, again, operation=operation()) == before
    await host.hears(server_id, f" {2 * GIB} bytes", times=2)


@pytest.mark.parametrize("bus", ["sata", "usb"])
async def test_a_guest_starts_with_disks_on_other_buses(host: TestHost, bus: str) -> None:
    server_id = new_id()
    disks = await make(host, bus, 2)
    guest = await put(host, server_id, replace(SPEC, bus=bus, disks=disks))
    assert (guest.state, guest.root_device) == ("running", "/dev/vda")
    assert places(guest) == [("/dev/sda", bus, True), ("/dev/sdb", bus, True)]
    await host.hears(server_id, f"disk vda {GIB} bytes")
    again = PowerRequest(state="reboot", mode="hard", disks=disks)
    assert await host.client.set_power(server_id, again, operation=operation()) == guest


async def test_a_disk_on_usb_comes_and_goes_while_the_guest_runs(host: TestHost) -> None:
    server_id, [disk] = new_id(), await make(host, "usb")
    await put(host, server_id, replace(SPEC, bus="usb"))
    given = await host.plug(server_id, disk)
    assert (given.device, given.bus, given.live) == ("/dev/sda", "usb", True)
    await host.client.unplug_disk(server_id, disk.volume_id, operation=operation())
    guest = await host.client.show_server(server_id)
    assert guest is not None
    assert guest.disks == []


async def test_a_disk_on_sata_comes_and_goes_only_while_the_guest_is_off(host: TestHost) -> None:
    server_id, client = new_id(), host.client
    [first, later] = await make(host, "sata", 2)
    guest = await put(host, server_id, replace(SPEC, bus="sata", disks=[first]))
    with pytest.raises(Conflict, match="neither come nor go"):
        await host.plug(server_id, later)
    with pytest.raises(Conflict, match="neither come nor go"):
        await client.unplug_disk(server_id, first.volume_id, operation=operation())
    assert await client.show_server(server_id) == guest
    await client.set_power(server_id, OFF, operation=operation())
    given = await host.plug(server_id, later)
    assert (given.device, given.bus, given.live) == ("/dev/sdb", "sata", False)
    await client.unplug_disk(server_id, first.volume_id, operation=operation())
    started = await client.set_power(server_id, START, operation=operation())
    assert places(started) == [("/dev/sdb", "sata", True)]


async def test_a_bus_has_so_many_places(host: TestHost) -> None:
    server_id, client = new_id(), host.client
    *disks, one_more = await make(host, "sata", 7)
    spec = replace(SPEC, power="off", disks=disks)
    guest = await put(host, server_id, spec)
    assert [device for device, _, _ in places(guest)] == [f"/dev/sd{one}" for one in "abcdef"]
    with pytest.raises(NoCapacity, match="places for 6 disks on sata"):
        await host.plug(server_id, one_more)
    again = PowerRequest(state="on", disks=[*disks, one_more])
    with pytest.raises(NoCapacity, match="places for 6 disks on sata"):
        await client.set_power(server_id, again, operation=operation())
    assert await client.show_server(server_id) == guest


async def test_a_volume_that_may_only_be_read_has_no_place_on_sata(host: TestHost) -> None:
    server_id, [disk] = new_id(), await make(host, "sata")
    await put(host, server_id, replace(SPEC, power="off"))
    with pytest.raises(Invalid, match="may only be read"):
        await host.plug(server_id, replace(disk, read_only=True))


async def test_disks_of_two_buses_have_letters_of_their_own(host: TestHost) -> None:
    server_id, [scsi] = new_id(), await make(host, "scsi")
    virtio = await host.make_disk(3)
    spec = replace(SPEC, root_bus="scsi", disks=[replace(scsi, device="/dev/vdz"), virtio])
    guest = await put(host, server_id, spec)
    assert guest.root_device == "/dev/sda"
    assert places(guest) == [("/dev/sdb", "scsi", True), ("/dev/vda", "virtio", True)]
    await host.hears(server_id, f" {2 * GIB} bytes")
    await host.hears(server_id, f"disk vda {3 * GIB} bytes")


async def test_a_rescue_comes_before_the_disks_of_its_own_bus_alone(host: TestHost) -> None:
    server_id, [disk] = new_id(), await make(host, "scsi")
    spec = replace(SPEC, root_bus="scsi", bus="scsi", disks=[disk])
    before = await put(host, server_id, spec)
    await host.hears(server_id, f" {GIB} bytes")
    guest, _ = await rescue(host, server_id, [disk])
    assert (guest.root_device, places(guest)) == ("/dev/vda", [("/dev/sdb", "scsi", True)])
    await boots(host, server_id, 2, "second")
    await host.hears(server_id, f" {GIB} bytes", times=2)
    guest, _ = await rescue(host, server_id, [disk], bus="scsi")
    assert (guest.root_device, places(guest)) == ("/dev/sda", [("/dev/sdc", "scsi", True)])
    await boots(host, server_id, 3, "second")
    await host.hears(server_id, f" {GIB} bytes", times=3)
    assert await unrescue(host, server_id, [disk]) == before
    await boots(host, server_id, 4, "first")


async def test_a_guest_boots_from_a_volume_on_scsi(host: TestHost) -> None:
    image = await host.push_image()
    server_id, volume = new_id(), await host.make_disk(1, image.image_id)
    spec = replace(SPEC, root=None, disks=[replace(volume, boot_index=0, bus="scsi")])
    guest = await put(host, server_id, spec)
    assert (guest.root_device, places(guest)) == ("/dev/sda", [("/dev/sda", "scsi", True)])
    await host.hears(server_id, UP)
