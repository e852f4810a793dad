"""A real guest moves between two real libvirt daemons, each in namespaces of its own.

Source: facts/real_hosts.md 4. The guest says on its console how often it has written.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent import config_drives, iso9660
from mooring.agent.qemu_img import GIB
from mooring.agent_api.config_drives import ConfigDrive
from mooring.agent_api.disks import DiskSpec
from mooring.agent_api.servers import PowerRequest, RootDisk, ServerSpec
from mooring.errors import Conflict, NotFound
from tests.agent.hosts import GUEST_IMAGE, IMAGE_ID, new_id, operation
from tests.agent.processes import AgentProcess
from tests.contract.moving_pairs import open_real_agents

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncGenerator[tuple[AgentProcess, AgentProcess]]:
    async with open_real_agents(tmp_path) as opened:
        yield opened


async def test_a_real_guest_moves_with_the_disk_on_its_host(
    pair: tuple[AgentProcess, AgentProcess],
) -> None:
    """The disk's size, and what it reads, are seen by a start from it at the other host."""
    here, there = (agent.client for agent in pair)
    server_id = new_id()
    await pair[0].host.boot(server_id)
    await pair[0].host.hears(server_id, f"boot marker written {server_id}")
    portrait = await here.show_portrait(server_id)
    assert portrait.root is not None
    assert (portrait.root.image_id, portrait.root.size_bytes) == (IMAGE_ID, GIB)
    assert 0 < portrait.root.data_bytes < 64 * 1024**2
    with pytest.raises(NotFound, match="push it first"):
        await there.put_arrival(server_id, portrait, operation=operation())
    await pair[1].host.push_image()
    await there.put_arrival(server_id, portrait, operation=operation())
    arrival = await there.show_arrival(server_id)
    with pytest.raises(Conflict, match="no root disk"):
        await here.put_departure(server_id, replace(arrival, root=""), operation=operation())
    await here.put_departure(server_id, arrival, operation=operation())
    guests = [await client.show_server(server_id) for client in (here, there)]
    assert [guest and guest.state for guest in guests] == ["migrated", "running"]
    await here.delete_server(server_id, operation=operation())
    reboot = PowerRequest(state="reboot")
    await there.set_power(server_id, reboot, operation=operation())
    await pair[1].host.hears(server_id, f"boot marker read {server_id}")
    await there.delete_server(server_id, operation=operation())
    assert (await there.inventory()).leftovers == []


async def test_a_real_guest_reads_its_own_drive_at_the_other_host(
    pair: tuple[AgentProcess, AgentProcess],
) -> None:
    """What it has mounted reads the same there, also what it has never read before."""
    here, there = (agent.client for agent in pair)
    server_id = new_id()
    drive = ConfigDrive(
        uuid=server_id,
        name="guest",
        hostname="guest",
        project_id="p1",
        availability_zone="nova",
        user_data=bytes(range(256)) * 100,
    )
    for agent in pair:
        await agent.host.push_image()
    root = RootDisk(image_id=IMAGE_ID, size_gib=1)
    spec = ServerSpec(name="guest", vcpus=1, memory_mib=128, root=root, network="none", drive=drive)
    await here.put_server(server_id, spec, operation=operation())
    await pair[0].host.hears(server_id, "drive has 25600 bytes of user data")
    await pair[0].host.hears(server_id, f"boot marker written {server_id}")
    await there.put_arrival(server_id, await here.show_portrait(server_id), operation=operation())
    arrival = await there.show_arrival(server_id)
    before = await asyncio.to_thread(digest_of, Path(arrival.drive))
    await here.put_departure(server_id, arrival, operation=operation())
    await here.delete_server(server_id, operation=operation())
    off = PowerRequest(state="off", mode="soft", timeout_s=60.0)
    await there.set_power(server_id, off, operation=operation())
    await pair[1].host.hears(server_id, f"drive still reads {before}")
    later = PowerRequest(state="on", drive=replace(drive, name="later"))
    await there.set_power(server_id, later, operation=operation())
    await pair[1].host.hears(server_id, '"name":"later"')
    await there.delete_server(server_id, operation=operation())
    for client in (here, there):
        assert (await client.inventory()).leftovers == []


def digest_of(file: Path) -> str:
    """Return what `cat openstack/*/* | sha256sum` says of a drive."""
    image = file.read_bytes()
    names = ("meta_data.json", "user_data", "vendor_data.json", "vendor_data2.json")
    paths = [f"openstack/{version}/{name}" for version in config_drives.VERSIONS for name in names]
    found = (iso9660.read(image, path) for path in paths)
    return hashlib.sha256(b"".join(one or b"" for one in found)).hexdigest()


async def test_a_real_guest_moves_and_goes_on_writing(
    pair: tuple[AgentProcess, AgentProcess], tmp_path: Path
) -> None:
    here, there = (agent.client for agent in pair)
    volume_id, server_id, first, second = (new_id() for _ in range(4))
    image = tmp_path / "volume.qcow2"
    shutil.copyfile(GUEST_IMAGE, image)
    data = {"device_path": str(image), "format": "qcow2"}
    connection = {"driver_volume_type": "local", "data": data}
    disk = DiskSpec(volume_id=volume_id, attachment_id=first, connection=connection, boot_index=0)
    spec = ServerSpec(name="guest", vcpus=1, memory_mib=128, disks=[disk], network="none")
    await here.put_server(server_id, spec, operation=operation())
    await pair[0].host.hears(server_id, "mooring-guest: up")
    portrait = await here.show_portrait(server_id)
    await there.put_arrival(server_id, portrait, operation=operation())
    await there.connect(second, volume_id, connection, server_id=server_id, operation=operation())
    arrival = await there.show_arrival(server_id)
    await here.put_departure(server_id, arrival, operation=operation())
    guests = [await client.show_server(server_id) for client in (here, there)]
    assert [guest and guest.state for guest in guests] == ["migrated", "running"]
    moved = guests[1]
    assert moved is not None
    assert [(one.attachment_id, one.live) for one in moved.disks] == [(second, True)]
    await here.delete_server(server_id, operation=operation())
    assert await here.show_server(server_id) is None
    await there.delete_server(server_id, operation=operation())


async def test_a_real_guest_that_stands_still_moves_so_and_keeps_its_memory(
    pair: tuple[AgentProcess, AgentProcess],
) -> None:
    """Paused it goes to the other host, whose daemon then saves its memory and reads it back."""
    here, there = (agent.client for agent in pair)
    server_id = new_id()
    await pair[0].host.boot(server_id)
    await here.set_power(server_id, PowerRequest(state="pause"), operation=operation())
    await pair[1].host.push_image()
    await there.put_arrival(server_id, await here.show_portrait(server_id), operation=operation())
    await here.put_departure(server_id, await there.show_arrival(server_id), operation=operation())
    guests = [await client.show_server(server_id) for client in (here, there)]
    assert [guest and guest.state for guest in guests] == ["migrated", "paused"]
    await here.delete_server(server_id, operation=operation())
    await there.set_power(server_id, PowerRequest(state="unpause"), operation=operation())
    for word in ("suspend", "resume"):
        request = PowerRequest(state=word)
        await there.set_power(server_id, request, operation=operation())
    off = PowerRequest(state="off", mode="soft", timeout_s=60.0)
    await there.set_power(server_id, off, operation=operation())
    # It hears its power button, and never said that it is up: it did so at the other host.
    said = await pair[1].host.hears(server_id, "power button")
    assert "mooring-guest: up" not in said
    await there.delete_server(server_id, operation=operation())
    assert (await there.inventory()).leftovers == []
