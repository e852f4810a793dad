"""An agent that is killed in the middle of a verb: the next one ends the verb right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.agent.qemu_img import GIB
from mooring.agent_api.config_drives import ConfigDrive
from mooring.agent_api.disks import DiskSize, DiskSpec
from mooring.agent_api.servers import PowerRequest, RootDisk, ServerSpec
from mooring.agent_api.volumes import Extended, VolumeSpec
from mooring.errors import Unavailable
from mooring.fence.operation import Operation
from tests.agent.hosts import IMAGE_ID, TestHost, new_id, operation, why_no_real_guests
from tests.agent.processes import agent_process, emulators

pytestmark = [pytest.mark.anyio, pytest.mark.kill]
DELAYS_MS = (56, 64, 72, 80, 88, 96, 110, 150, 220, 320)


def drive_of(server_id: str) -> ConfigDrive:
    return ConfigDrive(
        uuid=server_id, name="x", hostname="x", project_id="p1", availability_zone="nova"
    )


SERVER = ServerSpec(
    name="x",
    vcpus=1,
    memory_mib=128,
    root=RootDisk(image_id=IMAGE_ID, size_gib=1),
    network="none",
)
Verb = Callable[[TestHost, Operation], Awaitable[Any]]


@pytest.fixture(params=["simulated", pytest.param("libvirt", marks=pytest.mark.hosts)])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "libvirt" and (reason := why_no_real_guests()):
        pytest.skip(reason)
    return request.param


@pytest.fixture
async def state_dir(tmp_path: Path, kind: str) -> AsyncGenerator[Path]:
    """A host's directory; what guests a failing test leaves in it are ended."""
    yield tmp_path
    async with agent_process(tmp_path, kind) as agent:
        for guest in await agent.client.list_servers():
            await agent.host.remove(guest.server_id)
    assert emulators(str(tmp_path)) == []


async def killed_at(state_dir: Path, kind: str, points: str, verb: Verb) -> Any:
    """Run a verb, killing its agent at each of the points; return the last agent's answer."""
    named = operation()
    for point in points.split():
        async with agent_process(state_dir, kind, f"agent/{point}") as agent:
            with pytest.raises(Unavailable):
                await verb(agent.host, named)
            await agent.died()
    async with agent_process(state_dir, kind) as agent:
        return await verb(agent.host, named)


async def test_verbs_end_right_wherever_their_agent_was_killed(state_dir: Path, kind: str) -> None:
    server_id, volume_id, attachment_id = new_id(), new_id(), new_id()
    kill, told = partial(killed_at, state_dir, kind), replace(SERVER, drive=drive_of(server_id))
    async with agent_process(state_dir, kind) as agent:
        await agent.host.push_image()
    await kill("put_volume/begin put_volume/acted", make_volume(volume_id))
    guest = await kill(
        "put_server/begin put_server/rooted put_server/defined put_server/told put_server/acted",
        lambda host, named: host.client.put_server(server_id, told, operation=named),
    )
    assert (guest.state, guest.has_drive) == ("running", True)
    connection = await kill(
        "export_volume/begin export_volume/acted", export(volume_id, attachment_id)
    )
    await use_the_disk(kill, server_id, (volume_id, attachment_id, connection))
    await kill(
        "delete_server/begin delete_server/acted",
        lambda host, named: host.client.delete_server(server_id, operation=named),
    )
    await kill(
        "unexport_volume/begin unexport_volume/acted",
        lambda host, named: host.client.unexport_volume(volume_id, attachment_id, operation=named),
    )
    await capture_the_volume(kill, volume_id)
    await kill(
        "delete_volume/begin delete_volume/acted",
        lambda host, named: host.client.delete_volume(volume_id, operation=named),
    )
    async with agent_process(state_dir, kind) as agent:
        left = await agent.client.inventory()
    assert (left.guests, left.volumes, left.connections, left.leftovers) == ([], [], [], [])


async def capture_the_volume(kill: Callable[[str, Verb], Awaitable[Any]], volume_id: str) -> None:
    image_id = new_id()
    captured = await kill(
        "put_volume_capture/begin put_volume_capture/copied put_volume_capture/acted",
        lambda host, named: host.client.put_volume_capture(
            volume_id, image_id, "qcow2", operation=named
        ),
    )
    assert captured.is_whole
    await kill(
        "delete_volume_capture/begin delete_volume_capture/acted",
        lambda host, named: host.client.delete_volume_capture(volume_id, image_id, operation=named),
    )


def make_volume(volume_id: str) -> Verb:
    spec = VolumeSpec(pool="local", size_gib=1)
    return lambda host, named: host.client.put_volume(volume_id, spec, operation=named)


def export(volume_id: str, attachment_id: str) -> Verb:
    async def verb(host: TestHost, named: Operation) -> Any:
        connector = await host.client.connector()
        return await host.client.export_volume(volume_id, attachment_id, connector, operation=named)

    return verb


async def use_the_disk(
    kill: Callable[[str, Verb], Awaitable[Any]], server_id: str, ids: tuple[str, str, Any]
) -> None:
    """Plug a volume in, reboot with it, take it out, let go of it: killed in each."""
    volume_id, attachment_id, connection = ids
    disk = DiskSpec(volume_id=volume_id, attachment_id=attachment_id, connection=connection)
    await kill(
        "connect/begin connect/acted",
        lambda host, named: host.client.connect(
            attachment_id, volume_id, connection, operation=named
        ),
    )
    given = await kill(
        "plug_disk/begin plug_disk/connected plug_disk/acted",
        lambda host, named: host.client.plug_disk(server_id, disk, operation=named),
    )
    assert (given.device, given.live, given.persistent) == ("/dev/vdb", True, True)
    await grow_the_disk(kill, server_id, volume_id)
    drive = drive_of(server_id)
    reboot = PowerRequest(state="reboot", mode="hard", disks=[disk], drive=drive)
    guest = await kill(
        "set_power/begin set_power/off set_power/told set_power/acted",
        lambda host, named: host.client.set_power(server_id, reboot, operation=named),
    )
    assert (guest.state, [one.device for one in guest.disks]) == ("running", ["/dev/vdb"])
    await kill(
        "unplug_disk/begin unplug_disk/unplugged unplug_disk/acted",
        lambda host, named: host.client.unplug_disk(
            server_id, volume_id, attachment_id, operation=named
        ),
    )
    await kill(
        "disconnect/begin disconnect/acted",
        lambda host, named: host.client.disconnect(attachment_id, operation=named),
    )
    grown = await kill(
        "extend_volume/begin extend_volume/acted",
        lambda host, named: host.client.extend_volume(volume_id, 3, operation=named),
    )
    assert grown == Extended(3 * GIB)


async def grow_the_disk(
    kill: Callable[[str, Verb], Awaitable[Any]], server_id: str, volume_id: str
) -> None:
    """Grow a disk that a running guest has: the pool passes it on, the hypervisor does it."""
    asked = await kill(
        "extend_volume/begin extend_volume/acted",
        lambda host, named: host.client.extend_volume(volume_id, 2, operation=named),
    )
    assert asked == Extended(GIB, needs_compute=True)
    size = await kill(
        "resize_disk/begin resize_disk/acted",
        lambda host, named: host.client.resize_disk(server_id, volume_id, 2 * GIB, operation=named),
    )
    assert size == DiskSize(guest_bytes=2 * GIB, image_bytes=2 * GIB)
    late = operation()
    await kill(
        "forget_resize/begin forget_resize/acted",
        lambda host, _: host.client.forget_resize(server_id, volume_id, operation=late),
    )


@pytest.mark.hosts
@pytest.mark.parametrize("kind", ["libvirt"], indirect=True)
async def test_a_start_killed_at_any_moment_leaves_one_guest_or_none(
    state_dir: Path, kind: str
) -> None:
    async with agent_process(state_dir, kind) as agent:
        await agent.host.push_image()
    for delay_ms in DELAYS_MS:
        server_id, named = new_id(), operation()
        async with agent_process(state_dir, kind) as agent:
            start = agent.client.put_server(server_id, SERVER, operation=named)
            asking = asyncio.create_task(start)
            await asyncio.wait({asking}, timeout=delay_ms / 1000)
            await agent.kill()
            await asyncio.gather(asking, return_exceptions=True)
        async with agent_process(state_dir, kind) as agent:
            guest = await agent.client.put_server(server_id, SERVER, operation=named)
            assert guest.state == "running", f"killed after {delay_ms} ms"
            assert len(emulators(server_id)) == 1
            if delay_ms == DELAYS_MS[-1]:
                await agent.host.hears(server_id, "mooring-guest: up")
            await agent.host.remove(server_id)
            assert emulators(server_id) == []
