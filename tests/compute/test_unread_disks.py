"""A guest's volume that its host cannot read is told of, and logged once."""

from __future__ import annotations

import pytest
import structlog

from mooring.agent_api.disks import DiskSize
from mooring.errors import Unavailable
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio


async def test_a_volume_that_a_host_cannot_read_is_found_and_logged_once(
    cloud: ComputeCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    await cloud.attach(server_id, volume_id)
    await cloud.settle()
    why = ["The share is not mounted."]

    async def fail(server: str, volume: str) -> DiskSize:
        del server, volume
        raise Unavailable(why[0], private="a path")

    with monkeypatch.context() as patched, structlog.testing.capture_logs() as logged:
        patched.setattr(cloud.agents["host1"].agent.hypervisor, "disk_size", fail)
        for _ in range(3):
            assert await cloud.complaints() == [
                f"server {server_id}: host host1 cannot read its volume {volume_id}: {why[0]}"
            ]
        why[0] = "It is still not mounted."
        await cloud.complaints()
    told = [one["log_level"] for one in logged if one["event"] == "a disk cannot be read"]
    assert told == ["warning"] * 2
    assert await cloud.complaints() == []
