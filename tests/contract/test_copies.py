"""Disks that a guest has on its host, brought to another one: the same on every hypervisor.

Two agents beside each other; the one that gives is what the test's hypervisor runs in. What comes
of kills, strangers and damage: tests/agent/test_copies.py.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec import Struct

from mooring.agent.settings import HypervisorKind
from mooring.agent_api.copies import CopyProgress, Offer
from mooring.agent_api.servers import PowerRequest, RootDisk, ServerSpec
from mooring.errors import Conflict, Invalid, NotFound
from tests.agent.hosts import IMAGE_ID, TestHost, new_id, operation
from tests.contract.conftest import open_either

pytestmark = pytest.mark.anyio
OFF, ON = PowerRequest(state="off"), PowerRequest(state="on")
GIB = 1024**3


class Pair(Struct):
    """Two hosts, and a guest of the first one, which is off."""

    here: TestHost
    there: TestHost
    server_id: str

    async def offer(self) -> Offer:
        """Have the guest's disks offered."""
        return await self.here.client.put_offer(self.server_id, operation=operation())

    async def bring(self) -> CopyProgress:
        """Have them copied."""
        return await self.there.client.put_copy(
            self.server_id, await self.offer(), operation=operation()
        )

    async def boot_there(self, size_gib: int = 0) -> None:
        """Start the guest from what was copied, and wait until it is up with a disk so large."""
        await self.there.client.put_server(
            self.server_id, spec(size_gib, copied=True), operation=operation()
        )
        await self.there.hears(self.server_id, "mooring-guest: up")
        await self.there.hears(self.server_id, f"disk vda {(size_gib or 1) * GIB} bytes")


def spec(size_gib: int = 0, *, copied: bool = False) -> ServerSpec:
    """A server with a root disk on its host."""
    root = RootDisk(image_id=IMAGE_ID, size_gib=size_gib, copied=copied)
    return ServerSpec(name="guest", vcpus=1, memory_mib=128, root=root, network="none")


@pytest.fixture
async def pair(kind: HypervisorKind, tmp_path: Path) -> AsyncGenerator[Pair]:
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(open_either(kind, tmp_path / "a"))
        there = await stack.enter_async_context(open_either(kind, tmp_path / "b"))
        server_id = new_id()
        await here.boot(server_id)
        # It says so after it is up, and a test may wait for it to say it again.
        await here.hears(server_id, f"disk vda {GIB} bytes")
        await here.client.set_power(server_id, OFF, operation=operation())
        yield Pair(here, there, server_id)
        for host in (here, there):
            await host.remove(server_id)


async def test_a_guest_boots_from_the_disks_that_another_host_had(pair: Pair) -> None:
    with pytest.raises(NotFound):
        await pair.there.client.show_copy(pair.server_id)
    brought = await pair.bring()
    assert brought.is_whole
    assert 0 < brought.copied_bytes == brought.total_bytes
    assert await pair.there.client.show_copy(pair.server_id) == brought
    await pair.boot_there()
    guest = await pair.there.client.show_server(pair.server_id)
    assert guest is not None
    assert (guest.image_id, guest.root_device) == (IMAGE_ID, "/dev/vda")
    await pair.here.client.withdraw_offer(pair.server_id, operation=operation())
    await pair.here.remove(pair.server_id)
    assert (await pair.here.client.inventory()).leftovers == []
    assert (await pair.there.client.inventory()).leftovers == []


async def test_a_copied_disk_is_made_larger_and_never_smaller(pair: Pair) -> None:
    await pair.bring()
    await pair.boot_there(2)
    with pytest.raises(Invalid, match="not made smaller"):
        await pair.there.client.put_server(
            pair.server_id, spec(1, copied=True), operation=operation()
        )


async def test_the_guest_that_was_copied_starts_again_where_it_was(pair: Pair) -> None:
    offer = await pair.offer()
    guest = await pair.here.client.set_power(pair.server_id, ON, operation=operation())
    assert guest.state == "running"
    with pytest.raises(Exception, match=r"offered again|not send") as late:
        await pair.there.client.put_copy(pair.server_id, offer, operation=operation())
    assert getattr(late.value, "kind", "") == "unavailable"
    with pytest.raises(Conflict, match="is running"):
        await pair.offer()
    await pair.there.client.discard_copy(pair.server_id, operation=operation())
    with pytest.raises(NotFound):
        await pair.there.client.show_copy(pair.server_id)
    with pytest.raises(NotFound, match="was copied"):
        await pair.there.client.put_server(pair.server_id, spec(copied=True), operation=operation())
    assert (await pair.there.client.inventory()).leftovers == []


async def test_what_a_guest_has_is_discarded_by_nobody(pair: Pair) -> None:
    await pair.bring()
    await pair.boot_there()
    await pair.there.client.discard_copy(pair.server_id, operation=operation())
    with pytest.raises(Conflict, match="has a guest"):
        await pair.there.client.put_copy(pair.server_id, await pair.offer(), operation=operation())
    reboot = PowerRequest(state="reboot")
    await pair.there.client.set_power(pair.server_id, reboot, operation=operation())
    await pair.there.hears(pair.server_id, "mooring-guest: up", times=2)


async def test_a_copy_is_asked_for_again_and_late_calls_have_no_effect(pair: Pair) -> None:
    named = operation()
    first = await pair.here.client.put_offer(pair.server_id, operation=named)
    again = await pair.here.client.put_offer(pair.server_id, operation=named)
    assert again.key != first.key
    assert again.disks == first.disks
    copying = operation()
    for offer in (first, again):
        done = await pair.there.client.put_copy(pair.server_id, offer, operation=copying)
        assert done.is_whole
    await pair.there.client.discard_copy(pair.server_id, operation=copying)
    with pytest.raises(Conflict, match="undone"):
        await pair.there.client.put_copy(pair.server_id, first, operation=copying)
    await pair.here.client.withdraw_offer(pair.server_id, operation=named)
    with pytest.raises(Conflict, match="undone"):
        await pair.here.client.put_offer(pair.server_id, operation=named)
    assert (await pair.there.client.inventory()).leftovers == []


async def test_what_was_kept_on_a_host_comes_back(pair: Pair) -> None:
    client = pair.here.client
    for _ in range(2):
        await client.keep_disks(pair.server_id, operation=operation())
    await client.put_server(pair.server_id, spec(2, copied=True), operation=operation())
    await pair.here.hears(pair.server_id, f"disk vda {2 * GIB} bytes")
    with pytest.raises(Conflict, match="is running"):
        await client.restore_kept(pair.server_id, operation=operation())
    await client.set_power(pair.server_id, OFF, operation=operation())
    for _ in range(2):
        await client.restore_kept(pair.server_id, operation=operation())
    await client.put_server(pair.server_id, spec(1, copied=True), operation=operation())
    await pair.here.hears(pair.server_id, f"disk vda {GIB} bytes", times=2)
    await client.forget_kept(pair.server_id, operation=operation())


async def test_what_was_kept_is_forgotten(pair: Pair) -> None:
    client = pair.here.client
    await client.keep_disks(pair.server_id, operation=operation())
    await client.forget_kept(pair.server_id, operation=operation())
    await client.put_server(pair.server_id, spec(2, copied=True), operation=operation())
    await client.set_power(pair.server_id, OFF, operation=operation())
    await client.restore_kept(pair.server_id, operation=operation())
    with pytest.raises(Invalid, match="not made smaller"):
        await client.put_server(pair.server_id, spec(1, copied=True), operation=operation())


async def test_what_was_restored_is_taken_back(pair: Pair) -> None:
    client, named = pair.here.client, operation()
    await client.keep_disks(pair.server_id, operation=operation())
    await client.put_server(pair.server_id, spec(2, copied=True), operation=operation())
    await pair.here.hears(pair.server_id, f"disk vda {2 * GIB} bytes")
    await client.set_power(pair.server_id, OFF, operation=operation())
    await client.restore_kept(pair.server_id, operation=named)
    await client.take_back_restored(pair.server_id, operation=named)
    with pytest.raises(Conflict, match="undone"):
        await client.restore_kept(pair.server_id, operation=named)
    await client.take_back_restored(pair.server_id, operation=operation())
    await client.put_server(pair.server_id, spec(0, copied=True), operation=operation())
    await pair.here.hears(pair.server_id, f"disk vda {2 * GIB} bytes", times=2)
    await client.set_power(pair.server_id, OFF, operation=operation())
    await client.restore_kept(pair.server_id, operation=operation())
    await client.forget_kept(pair.server_id, operation=operation())
    await client.put_server(pair.server_id, spec(1, copied=True), operation=operation())
    await pair.here.hears(pair.server_id, f"disk vda {GIB} bytes", times=2)
    # What was put aside is gone: a running guest is in nobody's way.
    await client.take_back_restored(pair.server_id, operation=operation())


async def test_a_guest_ends_and_leaves_its_disk_to_one_that_comes_back(pair: Pair) -> None:
    client, starting = pair.here.client, operation()
    await client.delete_server(pair.server_id, keeps_disks=True, operation=starting)
    with pytest.raises(Conflict, match="undone"):
        await client.put_server(pair.server_id, spec(copied=True), operation=starting)
    assert await client.show_server(pair.server_id) is None
    (left,) = (await client.inventory()).leftovers
    assert Path(left).name == pair.server_id
    with pytest.raises(NotFound):
        await client.put_offer(pair.server_id, operation=operation())
    guest = await client.put_server(pair.server_id, spec(copied=True), operation=operation())
    assert (guest.state, guest.image_id) == ("running", IMAGE_ID)
    await client.delete_server(pair.server_id, keeps_disks=True, operation=operation())
    await client.delete_server(pair.server_id, operation=operation())
    assert (await client.inventory()).leftovers == []


async def test_the_disk_of_a_running_guest_does_not_grow(pair: Pair) -> None:
    client = pair.here.client
    await client.set_power(pair.server_id, ON, operation=operation())
    await pair.here.hears(pair.server_id, f"disk vda {GIB} bytes", times=2)
    with pytest.raises(Conflict):
        await client.put_server(pair.server_id, spec(2, copied=True), operation=operation())
