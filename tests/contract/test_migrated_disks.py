"""Volumes that are migrated under their guests keep their ids: the same on both hypervisors."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.errors import Conflict, NotFound
from tests.agent.hosts import TestHost, new_id, operation
from tests.contract.test_swaps import Swap, prepare, same_data

pytestmark = pytest.mark.anyio


async def prepare_move(host: TestHost) -> Swap:
    """A swap for another file of the same volume, as when that is migrated."""
    swap = await prepare(host)
    swap.new = replace(swap.new, volume_id=swap.old.volume_id)
    return swap


async def test_a_migrated_volume_goes_on_under_the_name_that_it_had(host: TestHost) -> None:
    swap = await prepare_move(host)
    given = await swap.whole()
    assert (given.volume_id, given.device) == (swap.old.volume_id, "/dev/vdb")
    assert await swap.disks() == [swap.has(swap.new)]
    assert same_data(swap)
    # Asked again it is so already.
    assert await swap.switch() == given
    await host.client.unplug_disk(
        swap.server_id, swap.old.volume_id, swap.old.attachment_id, operation=operation()
    )
    assert await swap.disks() == [swap.has(swap.new)]
    assert await swap.connected() == {swap.new.attachment_id}
    await swap.power("off")
    await swap.power("on")
    await host.hears(swap.server_id, f"serial={swap.old.volume_id[:20]}")
    assert await swap.disks() == [swap.has(swap.new)]


async def test_a_migrated_volume_is_migrated_again_and_unplugged(host: TestHost) -> None:
    swap = await prepare_move(host)
    first = swap.old
    await swap.whole()
    back = Swap(host, swap.server_id, swap.new, first)
    await host.client.disconnect(first.attachment_id, operation=operation())
    back.new = replace(first, attachment_id=new_id())
    await back.whole()
    assert await back.disks() == [back.has(back.new)]
    await host.client.unplug_disk(
        back.server_id, back.new.volume_id, back.new.attachment_id, operation=operation()
    )
    await host.hears(back.server_id, "disk vdb gone")
    assert await back.disks() == []


async def test_a_migration_that_is_stopped_leaves_the_guest_with_what_it_had(
    host: TestHost,
) -> None:
    swap = await prepare_move(host)
    await swap.whole_copy()
    await swap.stop()
    assert await swap.disks() == [swap.has(swap.old)]
    assert await swap.connected() == {swap.old.attachment_id}
    await swap.whole()
    assert await swap.disks() == [swap.has(swap.new)]


async def test_taking_the_new_place_of_a_volume_ends_the_copy_alone(host: TestHost) -> None:
    swap = await prepare_move(host)
    await swap.whole_copy()
    await host.client.unplug_disk(
        swap.server_id, swap.new.volume_id, swap.new.attachment_id, operation=operation()
    )
    assert await swap.disks() == [swap.has(swap.old)]
    with pytest.raises((Conflict, NotFound)):
        await host.client.mirroring(*swap.names)


async def test_a_guest_that_is_to_lose_the_old_place_goes_on_with_the_new_one(
    host: TestHost,
) -> None:
    swap = await prepare_move(host)
    await swap.whole_copy()
    await host.client.unplug_disk(
        swap.server_id, swap.old.volume_id, swap.old.attachment_id, operation=operation()
    )
    assert await swap.disks() == [swap.has(swap.new)]
    assert same_data(swap)
    await swap.power("off")
    await swap.power("on")
    assert await swap.disks() == [swap.has(swap.new)]
