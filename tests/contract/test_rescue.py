"""Guests that boot from another disk than their own, and back: the same on both hypervisors."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.agent.qemu_img import GIB
from mooring.agent.settings import HypervisorKind
from mooring.agent.waiting import until_told
from mooring.agent_api.disks import DiskSpec
from mooring.agent_api.servers import Guest, PowerRequest, RescueDisk, ServerSpec
from mooring.errors import Conflict, NotFound
from tests.agent.hosts import (
    BOOT_S,
    GUEST_IMAGE,
    TestHost,
    new_id,
    open_host,
    operation,
    spec_of,
    stream,
)
from tests.contract import boot_discs

pytestmark = pytest.mark.anyio
UP = "mooring-guest: up"
RESCUE_ID = "0c0ffee0-0000-4000-8000-000000000002"
DISC_ID = "0c0ffee0-0000-4000-8000-000000000003"
STABLE: dict[str, dict[str, Any]] = {
    "virtio": {"is_stable": True},
    "scsi": {"is_stable": True, "bus": "scsi"},
    "sata": {"is_stable": True, "bus": "sata"},
    "usb": {"is_stable": True, "bus": "usb"},
}


async def push_other(host: TestHost) -> int:
    """See that the host has another image that boots; returns the size of its disk."""
    path = GUEST_IMAGE.with_name("second.qcow2")
    data = path.read_bytes() if host.real else b"RESCUED" * 1024
    spec = spec_of(data, "qcow2" if host.real else "raw")
    put = host.client.put_image(RESCUE_ID, spec, stream(data), operation=operation())
    return (await put).virtual_bytes


def read_other(directory: Path) -> bytes:
    """Return the disk of the other image."""
    raw = directory / "second.raw"
    argv = ("qemu-img", "convert", "-O", "raw", GUEST_IMAGE.with_name("second.qcow2"), raw)
    subprocess.run(argv, check=True)
    return raw.read_bytes()


async def push_disc(host: TestHost, directory: Path) -> None:
    """See that the host has the image of a CD-ROM, which boots as that one does."""
    data = boot_discs.build(read_other(directory) if host.real else b"RESCUED" * 1024)
    spec = spec_of(data, "raw")
    await host.client.put_image(DISC_ID, spec, stream(data), operation=operation())


async def rescue(
    host: TestHost, server_id: str, disks: list[DiskSpec], image_id: str = RESCUE_ID, **words: Any
) -> tuple[Guest, int]:
    """Boot a guest from the other image; returns it and the size of that one."""
    size = await push_other(host)
    wanted = RescueDisk(image_id=image_id, **words)
    request = PowerRequest(state="reboot", disks=disks, rescue=wanted)
    return await host.client.set_power(server_id, request, operation=operation()), size


async def unrescue(host: TestHost, server_id: str, disks: list[DiskSpec]) -> Guest:
    request = PowerRequest(state="reboot", disks=disks)
    return await host.client.set_power(server_id, request, operation=operation())


async def boots(host: TestHost, server_id: str, times: int, image: str) -> str:
    """Wait until a guest is up for that time; returns what it has said since. Real ones name it."""
    said = await host.hears(server_id, UP, times=times)
    if host.real:
        said = await host.hears(server_id, "mooring-guest: image ", times=times)
    since = said[said.rindex(UP) :]
    assert not host.real or f"mooring-guest: image {image}" in since
    return since


def places(guest: Guest) -> list[tuple[str, bool]]:
    return [(disk.device, disk.live) for disk in guest.disks]


async def test_a_guest_in_rescue_finds_its_own_disks_behind_the_one_it_boots_from(
    host: TestHost,
) -> None:
    server_id, disk = new_id(), await host.make_disk(2)
    before = await host.boot(server_id, [disk])
    await host.hears(server_id, f"disk vdb {2 * GIB} bytes")
    guest, size = await rescue(host, server_id, [disk])
    assert (guest.state, guest.rescue_image_id, guest.root_device) == (
        "running",
        RESCUE_ID,
        "/dev/vda",
    )
    assert (guest.image_id, places(guest)) == (before.image_id, [("/dev/vdc", True)])
    await boots(host, server_id, 2, "second")
    await host.hears(server_id, f"disk vda {size} bytes")
    await host.hears(server_id, f"disk vdb {GIB} bytes")
    await host.hears(server_id, f"disk vdc {2 * GIB} bytes serial={disk.volume_id[:20]}")
    assert await unrescue(host, server_id, [disk]) == before
    await boots(host, server_id, 3, "first")
    await host.hears(server_id, f"disk vda {GIB} bytes", times=2)
    await host.hears(server_id, f"disk vdb {2 * GIB} bytes serial={disk.volume_id[:20]}", times=2)


@pytest.mark.parametrize("words", STABLE)
async def test_a_stable_rescue_leaves_every_disk_its_name(host: TestHost, words: str) -> None:
    server_id, disk = new_id(), await host.make_disk(2)
    before = await host.boot(server_id, [disk])
    await host.hears(server_id, f"disk vdb {2 * GIB} bytes")
    guest, size = await rescue(host, server_id, [disk], **STABLE[words])
    device = "/dev/vdc" if words == "virtio" else "/dev/sdab"
    assert (guest.rescue_image_id, guest.root_device) == (RESCUE_ID, device)
    assert places(guest) == places(before)
    await boots(host, server_id, 2, "second")
    await host.hears(server_id, f"disk vda {GIB} bytes", times=2)
    await host.hears(server_id, f"disk vdb {2 * GIB} bytes", times=2)
    if words == "virtio":
        await host.hears(server_id, f"disk vdc {size} bytes")
    assert await unrescue(host, server_id, [disk]) == before
    await boots(host, server_id, 3, "first")


@pytest.mark.parametrize("bus", ["sata", "scsi"])
async def test_a_guest_boots_from_a_cdrom_beside_its_own_disks(
    host: TestHost, bus: str, tmp_path: Path
) -> None:
    server_id, disk = new_id(), await host.make_disk(2)
    before = await host.boot(server_id, [disk])
    await host.hears(server_id, f"disk vdb {2 * GIB} bytes")
    await push_disc(host, tmp_path)
    how = {"is_stable": True, "device": "cdrom", "bus": bus}
    guest, _ = await rescue(host, server_id, [disk], DISC_ID, **how)
    assert (guest.rescue_image_id, guest.root_device) == (DISC_ID, "/dev/sdab")
    assert (places(guest), guest.has_drive) == (places(before), False)
    await boots(host, server_id, 2, "second")
    await host.hears(server_id, f"disk vdb {2 * GIB} bytes", times=2)
    assert await unrescue(host, server_id, [disk]) == before
    await boots(host, server_id, 3, "first")


async def test_a_cdrom_on_usb_comes_and_goes_with_its_controller(
    host: TestHost, tmp_path: Path
) -> None:
    server_id = new_id()
    before = await host.boot(server_id)
    await push_disc(host, tmp_path)
    guest, _ = await rescue(host, server_id, [], DISC_ID, is_stable=True, device="cdrom", bus="usb")
    assert (guest.state, guest.root_device) == ("running", "/dev/sdab")
    assert await unrescue(host, server_id, []) == before


async def test_a_guest_without_a_disk_of_its_own_is_rescued_as_well(host: TestHost) -> None:
    image = await host.push_image()
    server_id, volume = new_id(), await host.make_disk(1, image.image_id)
    root = replace(volume, boot_index=0)
    spec = ServerSpec(name="guest", vcpus=1, memory_mib=128, disks=[root], network="none")
    before = await host.client.put_server(server_id, spec, operation=operation())
    await host.hears(server_id, UP)
    guest, _ = await rescue(host, server_id, [root], is_stable=True)
    assert [(one.device, one.boot_index) for one in guest.disks] == [("/dev/vda", None)]
    await boots(host, server_id, 2, "second")
    assert await unrescue(host, server_id, [root]) == before
    await boots(host, server_id, 3, "first")


async def test_a_guest_that_is_off_is_rescued_and_is_off_again(
    kind: HypervisorKind, inner_dirs: dict[str, Path]
) -> None:
    server_id = new_id()
    async with open_host(inner_dirs[kind], kind) as (host, _):
        await host.boot(server_id)
        off = PowerRequest(state="off", disks=[])
        before = await host.client.set_power(server_id, off, operation=operation())
        await rescue(host, server_id, [])
        await boots(host, server_id, 2, "second")
        # It keeps what it runs from while nobody starts it anew.
        soft = PowerRequest(state="off")
        guest = await host.client.set_power(server_id, soft, operation=operation())
        assert guest.rescue_image_id == RESCUE_ID
        assert await host.client.set_power(server_id, off, operation=operation()) == before
        assert list(inner_dirs[kind].rglob("*rescue*")) == []
        await host.remove(server_id)


async def _has_marked_both(host: TestHost, server_id: str) -> bool:
    """Return whether a guest has left its marker on each of two disks that boot."""
    said = await host.client.read_console(server_id)
    return said.rpartition(UP)[2].count("boot marker") == 2


async def test_a_second_rescue_begins_with_a_disk_of_its_own(
    kind: HypervisorKind, inner_dirs: dict[str, Path]
) -> None:
    server_id = new_id()
    async with open_host(inner_dirs[kind], kind) as (host, _):
        await host.boot(server_id)
        await rescue(host, server_id, [])
        await boots(host, server_id, 2, "second")
        await rescue(host, server_id, [], is_stable=True)
        await boots(host, server_id, 3, "second")
        if host.real:
            assert await until_told(lambda: _has_marked_both(host, server_id), BOOT_S)
            said = (await host.client.read_console(server_id)).rpartition(UP)[2]
            # Its own root disk is /dev/vda, of which the guest speaks first.
            assert "boot marker written" in said.partition("disk vdb")[2]
        await host.remove(server_id)
        assert (await host.client.inventory()).leftovers == []
        assert list(inner_dirs[kind].rglob("*rescue*")) == []


async def test_an_image_that_the_host_lacks_leaves_the_guest_as_it_is(host: TestHost) -> None:
    server_id = new_id()
    await host.boot(server_id)
    before = await host.client.show_server(server_id)
    request = PowerRequest(state="reboot", disks=[], rescue=RescueDisk(image_id=new_id()))
    with pytest.raises(NotFound, match="not in the cache"):
        await host.client.set_power(server_id, request, operation=operation())
    assert await host.client.show_server(server_id) == before
    assert (await host.client.read_console(server_id)).count(UP) == 1


async def test_a_guest_in_rescue_goes_to_no_other_host(host: TestHost) -> None:
    server_id = new_id()
    await host.boot(server_id)
    await rescue(host, server_id, [])
    with pytest.raises(Conflict, match="stays where it is"):
        await host.client.show_portrait(server_id)
    await unrescue(host, server_id, [])
    await host.client.show_portrait(server_id)


async def test_the_image_of_a_guest_in_rescue_is_that_of_its_own_disk(host: TestHost) -> None:
    server_id, image_id = new_id(), new_id()
    await host.boot(server_id)
    await rescue(host, server_id, [])
    await boots(host, server_id, 2, "second")
    made = await host.client.put_capture(server_id, image_id, operation=operation())
    await host.client.delete_capture(server_id, image_id, operation=operation())
    assert made.size_bytes > 0
    guest = await host.client.show_server(server_id)
    assert guest is not None
    assert guest.state == "running"


async def test_a_guest_in_rescue_stands_still_and_goes_on(host: TestHost) -> None:
    server_id, disk = new_id(), await host.make_disk()
    await host.boot(server_id, [disk])
    guest, _ = await rescue(host, server_id, [disk])
    await boots(host, server_id, 2, "second")
    await host.hears(server_id, f"disk vdc {GIB} bytes")
    for word in ("suspend", "resume"):
        disks = [disk] if word == "resume" else None
        request = PowerRequest(state=word, disks=disks)  # pyright: ignore[reportArgumentType] (one of its words)
        found = await host.client.set_power(server_id, request, operation=operation())
        assert found.rescue_image_id == RESCUE_ID
    assert found == guest
    assert (await host.client.read_console(server_id)).count(UP) == 2
