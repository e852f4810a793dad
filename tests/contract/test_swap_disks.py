"""Swap disks of guests on their host: the same on both hypervisors (facts/compute.md 3.4)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent import swap_disks
from mooring.agent.settings import HypervisorKind
from mooring.agent_api.servers import PowerRequest, RootDisk, ServerSpec
from mooring.errors import Conflict, Invalid, NotFound
from tests.agent.hosts import IMAGE_ID, TestHost, new_id, operation
from tests.contract.moving_pairs import boot, open_hosts

pytestmark = pytest.mark.anyio
MIB = 1024**2
OFF, REBOOT = PowerRequest(state="off"), PowerRequest(state="reboot", disks=[])
ROOT = RootDisk(image_id=IMAGE_ID, size_gib=1)
SPEC = ServerSpec(name="guest", vcpus=1, memory_mib=128, root=ROOT, network="none", swap_mib=64)
WORDS, AT = b"what the guest had to put aside", 8 * MIB


async def write(swap: Path) -> None:
    """Write as the guest would, behind the header."""

    def work() -> None:
        with swap.open("r+b") as file:
            os.pwrite(file.fileno(), WORDS, AT)
            os.fsync(file.fileno())

    await asyncio.to_thread(work)


async def says(swap: Path) -> tuple[int, bool]:
    """Return how large a swap disk is, in MiB, and whether the words are on it."""
    content = await asyncio.to_thread(swap.read_bytes)
    assert content[4086:4096] == b"SWAPSPACE2"
    return len(content) // MIB, content[AT:].startswith(WORDS)


async def test_a_guest_has_a_swap_disk_as_large_as_it_is_to_be(
    host: TestHost, kind: HypervisorKind, state_dirs: dict[str, Path]
) -> None:
    server_id, client = new_id(), host.client
    own = state_dirs[kind] / "guests" / server_id
    swap = own / swap_disks.FILE
    assert (await host.boot(server_id, swap_mib=64)).swap_mib == 64
    await host.hears(server_id, f"disk vdb {64 * MIB} bytes")
    await write(swap)
    # It is kept while the guest is, through a reboot and a request that is repeated.
    await client.set_power(server_id, REBOOT, operation=operation())
    await host.hears(server_id, f"disk vdb {64 * MIB} bytes", times=2)
    await client.set_power(server_id, OFF, operation=operation())
    off = replace(SPEC, power="off")
    await client.put_server(server_id, off, operation=operation())
    assert await says(swap) == (64, True)
    # One of another size is made anew, and none is removed.
    await client.put_server(server_id, replace(SPEC, swap_mib=32), operation=operation())
    await host.hears(server_id, f"disk vdb {32 * MIB} bytes")
    assert await says(swap) == (32, False)
    await client.set_power(server_id, OFF, operation=operation())
    guest = await client.put_server(server_id, replace(off, swap_mib=0), operation=operation())
    assert (guest.swap_mib, await asyncio.to_thread(swap.exists)) == (0, False)
    # One that comes back gets another one.
    await client.put_server(server_id, off, operation=operation())
    await client.delete_server(server_id, keeps_disks=True, operation=operation())
    assert not await asyncio.to_thread(swap.exists)
    await host.remove(server_id)
    assert (await client.inventory()).leftovers == []


async def test_a_swap_disk_is_behind_the_root_disk_and_before_volumes(host: TestHost) -> None:
    server_id, client = new_id(), host.client
    await host.push_image()
    first, second = await host.make_disk(), await host.make_disk()
    wish = replace(first, device="/dev/vdc")
    spec = replace(SPEC, disks=[wish, second], power="off")
    guest = await client.put_server(server_id, spec, operation=operation())
    assert [disk.device for disk in guest.disks] == ["/dev/vdc", "/dev/vdd"]
    third = await host.make_disk()
    assert (await host.plug(server_id, replace(third, device="/dev/vdb"))).device == "/dev/vde"
    # Who has the letter keeps it: the swap disk moves on.
    spec = replace(spec, disks=[replace(first, device="/dev/vdb"), second, third])
    guest = await client.put_server(server_id, spec, operation=operation())
    assert [disk.device for disk in guest.disks] == ["/dev/vdb", "/dev/vdd", "/dev/vde"]


async def test_more_than_a_guest_can_have_is_refused(host: TestHost) -> None:
    server_id = new_id()
    for spec, said in (
        (replace(SPEC, swap_mib=-1), "number of MiB"),
        (replace(SPEC, disks=[await host.make_disk()] * 25), "26 disks at most"),
    ):
        with pytest.raises(Invalid, match=said):
            await host.client.put_server(server_id, spec, operation=operation())
    with pytest.raises(NotFound):
        await host.client.read_console(server_id)
    assert (await host.client.inventory()).leftovers == []


async def test_a_guest_that_runs_on_elsewhere_has_what_it_put_aside(
    kind: HypervisorKind, tmp_path: Path
) -> None:
    async with open_hosts(kind, tmp_path) as hosts:
        moving = await boot(hosts, swap_mib=64)
        here, there = moving.swaps()
        await write(here)
        await moving.expect()
        await moving.connect()
        with pytest.raises(Conflict, match="made no swap disk"):
            await moving.send(swap="")
        await moving.turn_away()
        assert not await asyncio.to_thread(there.exists)
        await moving.expect()
        await moving.connect()
        await moving.send()
        assert await moving.states() == ("migrated", "running")
        assert await says(there) == (64, True)
        await hosts.here.remove(moving.server_id)
        assert not await asyncio.to_thread(here.exists)
        guest = await hosts.there.client.show_server(moving.server_id)
        assert guest is not None
        assert guest.swap_mib == 64
