"""Guests that stand still and go on where they were: the same on both hypervisors.

A guest says that it is up once in its life, so one that says it once kept its memory.
"""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from mooring.agent.qemu_img import GIB
from mooring.agent.settings import HypervisorKind
from mooring.agent_api.disks import DiskSize, DiskSpec
from mooring.agent_api.servers import Guest, PowerRequest
from mooring.errors import Conflict, NoCapacity, NotFound
from tests.agent.hosts import TestHost, new_id, open_host, operation

pytestmark = pytest.mark.anyio
UP = "mooring-guest: up"
Word = Literal["on", "off", "reboot", "pause", "unpause", "suspend", "resume"]


async def change(
    host: TestHost, server_id: str, state: Word, disks: list[DiskSpec] | None = None
) -> Guest:
    request = PowerRequest(state=state, disks=disks)
    return await host.client.set_power(server_id, request, operation=operation())


async def has_kept_its_memory(host: TestHost, server_id: str, disk: DiskSpec) -> None:
    """Plug a disk in and hear of it, from a guest that did not boot again."""
    await host.plug(server_id, disk)
    said = await host.hears(server_id, f"bytes serial={disk.volume_id[:20]}")
    assert said.count(UP) == 1


async def test_a_paused_guest_goes_on_where_it_was(host: TestHost) -> None:
    server_id, first, second = new_id(), await host.make_disk(), await host.make_disk()
    await host.boot(server_id, [first])
    for _ in range(2):
        guest = await change(host, server_id, "pause")
        assert (guest.state, [disk.live for disk in guest.disks]) == ("paused", [True])
    for _ in range(2):
        assert (await change(host, server_id, "unpause")).state == "running"
    await has_kept_its_memory(host, server_id, second)


async def test_a_paused_guest_takes_disks_and_lets_go_of_them_once_it_runs(
    host: TestHost,
) -> None:
    server_id, disk = new_id(), await host.make_disk()
    await host.boot(server_id)
    await change(host, server_id, "pause")
    assert (await host.plug(server_id, disk)).live
    size = await host.client.resize_disk(server_id, disk.volume_id, 2 * GIB, operation=operation())
    assert size == DiskSize(guest_bytes=2 * GIB, image_bytes=2 * GIB)
    with pytest.raises(Conflict, match=r"is paused and lets go of nothing.* Unpause the server"):
        await host.client.unplug_disk(server_id, disk.volume_id, operation=operation())
    guest = await change(host, server_id, "unpause")
    assert [(one.live, one.persistent) for one in guest.disks] == [(True, True)]
    said = await host.hears(server_id, f"disk vdb {2 * GIB} bytes serial={disk.volume_id[:20]}")
    assert "gone" not in said
    await host.client.unplug_disk(server_id, disk.volume_id, operation=operation())
    await host.hears(server_id, "disk vdb gone")


async def test_a_suspended_guest_is_off_and_goes_on_where_it_was(host: TestHost) -> None:
    server_id, first, second = new_id(), await host.make_disk(), await host.make_disk()
    await host.boot(server_id, [first])
    for _ in range(2):
        guest = await change(host, server_id, "suspend")
        assert (guest.state, [disk.live for disk in guest.disks]) == ("suspended", [False])
    for _ in range(2):
        guest = await change(host, server_id, "resume", [first])
        assert (guest.state, [disk.live for disk in guest.disks]) == ("running", [True])
    await has_kept_its_memory(host, server_id, second)
    assert (await change(host, server_id, "off")).state == "stopped"


async def test_a_suspended_guest_is_found_again_by_the_next_agent(
    kind: HypervisorKind, inner_dirs: dict[str, Path]
) -> None:
    server_id = new_id()
    async with open_host(inner_dirs[kind], kind) as (host, _):
        disk = await host.make_disk()
        await host.boot(server_id)
        before = await change(host, server_id, "suspend")
    async with open_host(inner_dirs[kind], kind) as (host, _):
        assert await host.client.show_server(server_id) == before
        assert (await change(host, server_id, "resume", [])).state == "running"
        await has_kept_its_memory(host, server_id, disk)
        await host.remove(server_id)


@pytest.mark.parametrize("still", ["pause", "suspend"])
async def test_a_guest_that_is_started_anew_has_its_memory_no_more(
    host: TestHost, still: Word
) -> None:
    server_id = new_id()
    await host.boot(server_id)
    assert (await change(host, server_id, still)).state == f"{still}ed".replace("see", "se")
    assert (await change(host, server_id, "reboot", [])).state == "running"
    await host.hears(server_id, UP, times=2)
    await change(host, server_id, still)
    assert (await change(host, server_id, "off")).state == "stopped"
    for word in ("pause", "unpause", "suspend", "resume"):
        with pytest.raises(Conflict, match="is stopped and was not"):
            await change(host, server_id, word)
    assert (await change(host, server_id, "on")).state == "running"
    await host.hears(server_id, UP, times=3)
    await change(host, server_id, "suspend")
    assert (await change(host, server_id, "on")).state == "running"
    await host.hears(server_id, UP, times=4)


async def test_a_suspended_guest_is_asked_to_shut_down_without_waiting(host: TestHost) -> None:
    server_id = new_id()
    await host.boot(server_id)
    await change(host, server_id, "suspend")
    with pytest.raises(Conflict, match="is suspended and was not paused"):
        await change(host, server_id, "pause")
    request = PowerRequest(state="off", mode="soft", timeout_s=60)
    guest = await host.client.set_power(server_id, request, operation=operation())
    assert guest.state == "stopped"
    await host.remove(server_id)
    with pytest.raises(NotFound):
        await change(host, server_id, "resume")


async def test_a_suspended_guest_that_is_removed_leaves_nothing(
    kind: HypervisorKind, inner_dirs: dict[str, Path]
) -> None:
    server_id = new_id()
    async with open_host(inner_dirs[kind], kind) as (host, _):
        await host.boot(server_id)
        await change(host, server_id, "suspend")
        await host.remove(server_id)
        assert (await host.client.inventory()).leftovers == []
        assert list(inner_dirs[kind].rglob("*.save")) == []
        # The next guest of that name has another memory.
        await host.boot(server_id)
        await host.remove(server_id)


async def test_a_suspended_guest_goes_on_with_a_disk_that_grew_meanwhile(host: TestHost) -> None:
    server_id, disk = new_id(), await host.make_disk()
    await host.boot(server_id, [disk])
    await change(host, server_id, "suspend")
    size = await host.client.resize_disk(server_id, disk.volume_id, 2 * GIB, operation=operation())
    assert size == DiskSize(guest_bytes=2 * GIB, image_bytes=2 * GIB)
    await change(host, server_id, "resume", [disk])
    await host.hears(server_id, f"disk vdb {2 * GIB} bytes serial={disk.volume_id[:20]}")
    assert (await host.client.read_console(server_id)).count(UP) == 1


async def test_a_suspended_guest_goes_on_with_a_disk_that_lies_elsewhere(host: TestHost) -> None:
    server_id, disk, other = new_id(), await host.make_disk(), await host.make_disk()
    await host.boot(server_id, [disk])
    await host.hears(server_id, f"bytes serial={disk.volume_id[:20]}")
    await change(host, server_id, "suspend")
    # The other one's file is as good, and nobody has it.
    moved = replace(disk, connection=other.connection)
    guest = await change(host, server_id, "resume", [moved])
    path = other.connection["data"]["device_path"]
    assert [(one.path, one.live) for one in guest.disks] == [(path, True)]
    await host.client.unplug_disk(server_id, disk.volume_id, operation=operation())
    said = await host.hears(server_id, "disk vdb gone")
    assert said.count(UP) == 1


async def test_a_guest_goes_on_with_the_disks_that_it_had_and_never_with_one_it_lost(
    host: TestHost,
) -> None:
    server_id = new_id()
    kept, lost, late = [await host.make_disk() for _ in range(3)]
    await host.boot(server_id, [kept, lost])
    await change(host, server_id, "pause")
    guest = await change(host, server_id, "on", [kept, lost, late])
    assert (guest.state, [one.live for one in guest.disks]) == ("running", [True, True, False])
    await host.client.unplug_disk(server_id, late.volume_id, operation=operation())
    await change(host, server_id, "suspend")
    await host.client.unplug_disk(server_id, lost.volume_id, operation=operation())
    await host.plug(server_id, late)
    for disks in (None, [kept, late]):
        with pytest.raises(Conflict, match=f"was suspended with volume {lost.volume_id}"):
            await change(host, server_id, "resume", disks)
    guest = await change(host, server_id, "resume", [kept, lost, late])
    assert {one.volume_id: (one.live, one.persistent) for one in guest.disks} == {
        kept.volume_id: (True, True),
        lost.volume_id: (True, True),
        late.volume_id: (False, True),
    }
    assert (await host.client.read_console(server_id)).count(UP) == 1


@pytest.mark.hosts
@pytest.mark.parametrize("kind", ["libvirt"], indirect=True)
async def test_memory_without_room_is_refused_and_the_guest_runs_on(
    kind: HypervisorKind, inner_dirs: dict[str, Path]
) -> None:
    async with open_host(inner_dirs[kind], kind) as (host, running):
        server_id, disk = new_id(), await host.make_disk()
        await host.boot(server_id)
        directory: Path = vars(running.agent.hypervisor)["_connection"].memory_directory
        with small_file_system(directory):
            with pytest.raises(NoCapacity, match=r"takes 128 MiB .* has \d+ MiB free"):
                await change(host, server_id, "suspend")
            guest = await host.client.show_server(server_id)
            assert guest is not None
            assert guest.state == "running"
        await has_kept_its_memory(host, server_id, disk)
        await host.remove(server_id)


@contextmanager
def small_file_system(directory: Path) -> Generator[None]:
    """Lay a file system over a directory that has room for next to nothing."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "mooring", directory], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", directory], check=True)
