"""Whoever claims a volume keeps off the calls of all who had it before, and changes nothing."""

from __future__ import annotations

import pytest

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


async def test_what_is_not_there_may_be_claimed(host: TestHost) -> None:
    late, volume_id = operation(), new_id()
    await host.client.claim_volume(volume_id, operation=operation())
    await refuse(host, volume_id, late)
    assert await host.client.show_volume(volume_id) is None
