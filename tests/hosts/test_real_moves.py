"""A real guest moves between two real libvirt daemons, each in namespaces of its own.

Source: facts/real_hosts.md 4. The guest says on its console how often it has written.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent.qemu_img import GIB
from mooring.agent_api.disks import DiskSpec
from mooring.agent_api.servers import PowerRequest, ServerSpec
from mooring.errors import Conflict, NotFound
from mooring.lab.real_hosts import RealHosts
from tests.agent.hosts import GUEST_IMAGE, IMAGE_ID, new_id, operation
from tests.agent.processes import AgentProcess, agent_behind

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]


@pytest.fixture
async def pair(
    tmp_path: Path, several_hosts: None
) -> AsyncGenerator[tuple[AgentProcess, AgentProcess]]:
    del several_hosts
    lab = RealHosts(tmp_path, ("moor-a", "moor-b"))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(lab.close, guests=True)
        await lab.open()
        found: list[AgentProcess] = []
        for host in lab.hosts:
            more = ("", "", host.name, host.namespace.address)
            agent = agent_behind(host.before(), host.directory / "state", "libvirt", *more)
            found.append(await stack.enter_async_context(agent))
        yield found[0], found[1]


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
