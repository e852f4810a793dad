"""Who has a volume's image open, and that nobody takes a file from them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.agent_api.servers import PowerRequest, ServerSpec
from mooring.agent_api.volumes import Holder, Holders
from mooring.errors import Conflict, Invalid, NotFound
from tests.agent.hosts import TestHost, new_id, operation

pytestmark = pytest.mark.anyio


async def test_a_guest_holds_its_volumes_while_it_runs(host: TestHost) -> None:
    server_id, disk = new_id(), await host.make_disk()
    volume_id = disk.volume_id
    assert await host.client.show_holders(volume_id) == Holders(held=False)
    # QEMU has the image open, whether anything boots from it or not.
    spec = ServerSpec(name="x", vcpus=1, memory_mib=64, disks=[replace(disk, boot_index=0)])
    await host.client.put_server(server_id, spec, operation=operation())
    name = (await host.client.host()).name
    holder = Holder(attachment_id=disk.attachment_id, host=name)
    assert await host.client.show_holders(volume_id) == Holders(held=True, holders=[holder])
    power = PowerRequest(state="off")
    await host.client.set_power(server_id, power, operation=operation())
    assert await host.client.show_holders(volume_id) == Holders(held=False)
    with pytest.raises(NotFound):
        await host.client.show_holders(new_id())


async def test_an_image_that_a_guest_writes_to_is_given_to_no_other_one(host: TestHost) -> None:
    disk = await host.make_disk()
    spec = ServerSpec(name="x", vcpus=1, memory_mib=64, disks=[replace(disk, boot_index=0)])
    first, second = new_id(), new_id()
    await host.client.put_server(first, spec, operation=operation())
    for _ in range(2):
        with pytest.raises(Conflict, match="in use by another program or guest") as refusal:
            await host.client.put_server(second, spec, operation=operation())
        # So whoever waits for the other one's end tries again.
        assert refusal.value.detail["busy"]
    guest = await host.client.show_server(second)
    assert guest is not None
    assert guest.state in {"stopped", "crashed"}
    with pytest.raises(Conflict, match="open in another program") as refusal:
        await host.client.resize_disk(second, disk.volume_id, 2 << 30, operation=operation())
    assert refusal.value.detail["busy"]
    size = await host.client.show_disk_size(first, disk.volume_id)
    assert (size.guest_bytes, size.image_bytes) == (1 << 30, 1 << 30)
    off, on = PowerRequest(state="off"), PowerRequest(state="on")
    await host.client.set_power(first, off, operation=operation())
    assert (await host.client.set_power(second, on, operation=operation())).state == "running"
    with pytest.raises(Conflict, match="in use by another program or guest"):
        await host.client.set_power(first, on, operation=operation())


async def test_a_file_is_taken_from_nobody_who_has_it_open(host: TestHost) -> None:
    server_id, disk = new_id(), await host.make_disk()
    spec = ServerSpec(name="x", vcpus=1, memory_mib=64, disks=[replace(disk, boot_index=0)])
    guest = await host.client.put_server(server_id, spec, operation=operation())
    with pytest.raises(Invalid, match="cannot be taken from whoever has it open"):
        await host.client.fence_holder(disk.volume_id, disk.attachment_id, operation=operation())
    for _ in range(2):
        await host.client.lift_fence(disk.volume_id, disk.attachment_id, operation=operation())
    assert await host.client.show_server(server_id) == guest
    assert (await host.client.show_holders(disk.volume_id)).held
    with pytest.raises(NotFound):
        await host.client.fence_holder(new_id(), disk.attachment_id, operation=operation())


async def test_guests_that_share_a_file_take_no_lock_on_it(host: TestHost) -> None:
    """It grows behind them: nothing tells of that danger but attachments, which volume looks at."""
    made = await host.make_disk(disk_format="raw")
    disk = replace(made, boot_index=0, shareable=True)
    spec = ServerSpec(name="x", vcpus=1, memory_mib=64, disks=[disk])
    first, second = new_id(), new_id()
    for server_id in (first, second):
        guest = await host.client.put_server(server_id, spec, operation=operation())
        assert guest.state == "running"
    name = (await host.client.host()).name
    holder = Holder(attachment_id=disk.attachment_id, host=name)
    held = await host.client.show_holders(disk.volume_id)
    assert held == Holders(held=True, holders=[holder]), "they have it open all the same"
    grown = await host.client.extend_volume(disk.volume_id, 2, operation=operation())
    assert not grown.needs_compute
    found = await host.client.show_volume(disk.volume_id)
    assert found is not None
    assert found.virtual_bytes == 2 << 30
    # Who wants it for itself alone finds them in the way.
    alone = replace(spec, disks=[replace(disk, shareable=False)])
    with pytest.raises(Conflict, match="in use by another program or guest"):
        await host.client.put_server(new_id(), alone, operation=operation())
