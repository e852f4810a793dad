"""Whoever claims a volume or a guest keeps off all calls of before, and changes nothing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.agent_api.servers import ServerSpec
from mooring.errors import Conflict
from mooring.fence.operation import Operation
from tests.agent.hosts import TestHost, new_id, operation

pytestmark = pytest.mark.anyio


async def refuse(host: TestHost, volume_id: str, late: Operation) -> None:
    """See that a deletion comes too late."""
    with pytest.raises(Conflict, match="came too late") as caught:
        await host.client.delete_volume(volume_id, operation=late)
    assert caught.value.detail["status"] == 412


async def test_a_claimed_volume_is_not_removed_by_a_late_deletion(host: TestHost) -> None:
    late, disk = operation(), await host.make_disk()
    before = await host.client.show_volume(disk.volume_id)
    claim = operation()
    for _ in range(2):
        await host.client.claim_volume(disk.volume_id, operation=claim)
        await refuse(host, disk.volume_id, late)
    assert before is not None
    assert await host.client.show_volume(disk.volume_id) == before
    # Whoever comes after the claim may remove it.
    await host.client.unexport_volume(disk.volume_id, disk.attachment_id, operation=operation())
    await host.client.delete_volume(disk.volume_id, operation=operation())
    assert await host.client.show_volume(disk.volume_id) is None


async def test_a_claimed_guest_is_not_ended_by_a_late_deletion(host: TestHost) -> None:
    late, server_id = operation(), new_id()
    disk = replace(await host.make_disk(), boot_index=0)
    spec = ServerSpec(name="x", vcpus=1, memory_mib=64, disks=[disk])
    guest = await host.client.put_server(server_id, spec, operation=operation())
    claim = operation()
    for _ in range(2):
        await host.client.claim_server(server_id, operation=claim)
        with pytest.raises(Conflict, match="came too late"):
            await host.client.delete_server(server_id, operation=late)
    assert await host.client.show_server(server_id) == guest
    await host.remove(server_id)
    assert await host.client.show_server(server_id) is None


async def test_what_is_not_there_may_be_claimed(host: TestHost) -> None:
    late, volume_id = operation(), new_id()
    await host.client.claim_volume(volume_id, operation=operation())
    await refuse(host, volume_id, late)
    assert await host.client.show_volume(volume_id) is None
