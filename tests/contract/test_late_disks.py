"""Guests that let go of a disk after they were told to keep it: the same on both hypervisors."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.app import RunningAgent
from mooring.agent.qemu_img import GIB
from mooring.agent.settings import HypervisorKind
from mooring.agent.simulated import SimulatedHypervisor
from mooring.agent_api.disks import DiskSize, DiskSpec
from mooring.errors import Conflict, NotFound
from tests.agent.hosts import TestHost, new_id, open_host, operation

pytestmark = pytest.mark.anyio


async def let_go(running: RunningAgent, server_id: str, disk: DiskSpec) -> None:
    """Let a guest come to what it was asked for and has refused, as one does that was slow."""
    hypervisor: Any = running.agent.hypervisor
    if isinstance(hypervisor, SimulatedHypervisor):
        hypervisor.let_go(server_id, disk.volume_id)
        return
    from mooring.agent.libvirt import devices

    ask = partial(devices.ask_to_let_go, volume_id=disk.volume_id)
    await hypervisor._with(server_id, ask)  # noqa: SLF001 (no verb asks QEMU and goes)


async def test_a_disk_that_a_guest_lets_go_of_late_comes_back(
    kind: HypervisorKind, inner_dirs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_host(inner_dirs[kind], kind) as (host, running):
        server_id, disk, other = new_id(), await host.make_disk(), await host.make_disk()
        await host.boot(server_id, [disk, other])
        await host.hears(server_id, f"bytes serial={other.volume_id[:20]}")
        await refuse(host, running, server_id, disk, monkeypatch)
        await let_go(running, server_id, disk)
        await host.hears(server_id, "disk vdb gone")
        await has_again(host, server_id, disk)
        size = await host.client.resize_disk(
            server_id, disk.volume_id, 2 * GIB, operation=operation()
        )
        assert size == DiskSize(guest_bytes=2 * GIB, image_bytes=2 * GIB)
        await host.remove(server_id)


async def refuse(
    host: TestHost,
    running: RunningAgent,
    server_id: str,
    disk: DiskSpec,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Have a detach refused for want of an answer."""
    with monkeypatch.context() as patched:
        if host.real:
            from mooring.agent.libvirt import unplugging

            patched.setattr(unplugging, "AGENT_UNPLUG_S", -1.0)
        else:
            vars(running.agent.hypervisor)["stubborn"].add(disk.volume_id)
        with pytest.raises(Conflict, match="attached as before"):
            await host.client.unplug_disk(
                server_id, disk.volume_id, disk.attachment_id, operation=operation()
            )


async def has_again(host: TestHost, server_id: str, disk: DiskSpec) -> None:
    """Wait until a guest has a disk for the second time, as it had it."""
    await host.hears(server_id, f"disk vdb {GIB} bytes serial={disk.volume_id[:20]}", times=2)
    guest = await host.client.show_server(server_id)
    assert guest is not None
    assert [(one.device, one.live, one.persistent) for one in guest.disks] == [
        ("/dev/vdb", True, True),
        ("/dev/vdc", True, True),
    ]


async def test_what_a_guest_let_go_of_without_an_agent_comes_back_with_the_next_one(
    kind: HypervisorKind, inner_dirs: dict[str, Path]
) -> None:
    server_id = new_id()
    async with open_host(inner_dirs[kind], kind) as (host, running):
        disk, other = await host.make_disk(), await host.make_disk()
        await host.boot(server_id, [disk, other])
        await host.hears(server_id, f"bytes serial={other.volume_id[:20]}")
        # Its ears are shut, as those of an agent that died.
        hear = vars(running.agent.hypervisor)["_tell"]
        hear.late_disks, shut = None, hear.late_disks
        await let_go(running, server_id, disk)
        await host.hears(server_id, "disk vdb gone")
        guest = await host.client.show_server(server_id)
        assert guest is not None
        assert [one.live for one in guest.disks] == [False, True]
        await has_it_no_more(host, server_id, disk, other)
        await shut.close()
    async with open_host(inner_dirs[kind], kind) as (host, _):
        await has_again(host, server_id, disk)
        await host.remove(server_id)


async def has_it_no_more(host: TestHost, server_id: str, disk: DiskSpec, other: DiskSpec) -> None:
    """See that nothing is done to a disk that a running guest has let go of."""
    named, client = (server_id, disk.volume_id), host.client
    seen = (await client.inventory()).disks
    assert [one.volume_id for one in seen] == [other.volume_id]
    new = await host.make_disk()
    for asked in (
        client.show_disk_size(*named),
        client.resize_disk(*named, 2 * GIB, operation=operation()),
        client.mirror_disk(*named, new, operation=operation()),
        client.mirroring(*named),
    ):
        with pytest.raises(NotFound, match="has no volume"):
            await asked


async def test_what_is_not_connected_any_more_does_not_come_back(
    kind: HypervisorKind, inner_dirs: dict[str, Path]
) -> None:
    async with open_host(inner_dirs[kind], kind) as (host, running):
        server_id, disk, other = new_id(), await host.make_disk(), await host.make_disk()
        await host.boot(server_id, [disk, other])
        await host.hears(server_id, f"bytes serial={other.volume_id[:20]}")
        await running.agent.connections.disconnect(disk.attachment_id)
        await let_go(running, server_id, disk)
        await let_go(running, server_id, other)
        await host.hears(server_id, f"bytes serial={other.volume_id[:20]}", times=2)
        guest = await host.client.show_server(server_id)
        assert guest is not None
        assert [one.live for one in guest.disks] == [False, True]
        await host.remove(server_id)
