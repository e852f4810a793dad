"""What a host cannot read is named by the doctor, which takes nothing of it for missing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.agent.connections import Connections
from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent_api.disks import UnreadConnection
from mooring.agent_api.volumes import VolumeFile
from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio
WHY = "The record /srv/.mooring/volume-1.json is damaged."


async def test_a_damaged_volume_is_named_once_with_why(
    cloud: SimulatedCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await cloud.do("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
    assert made is not None
    volume_id = made.body["volume"]["id"]
    await cloud.settle()
    body = {"snapshot": {"volume_id": volume_id}}
    assert await cloud.do("POST", "/volume/v3/snapshots", body) is not None
    await cloud.settle()
    assert await cloud.complaints() == []
    told = SimulatedDriver.volumes

    async def volumes(self: SimulatedDriver) -> list[VolumeFile]:
        # What else is said of it says nothing.
        return [
            replace(one, size_gib=0, virtual_bytes=0, format="", snapshots=[], problem=WHY)
            for one in await told(self)
        ]

    with monkeypatch.context() as patched:
        patched.setattr(SimulatedDriver, "volumes", volumes)
        (line,) = await cloud.complaints()
    assert line.startswith(f"volume {volume_id}: on host ")
    assert line.endswith(WHY)


async def test_a_connection_that_a_host_cannot_read_is_named_with_why(
    cloud: SimulatedCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = UnreadConnection(attachment_id="a1", why="The record /srv/a1.json is damaged.")

    def unread(self: Connections) -> list[UnreadConnection]:
        del self
        return [lost]

    with monkeypatch.context() as patched:
        patched.setattr(Connections, "unread", unread)
        (line,) = await cloud.complaints()
    assert line.startswith("attachment a1: host ")
    assert line.endswith(f"cannot read how it is connected: {lost.why}")
    assert await cloud.complaints() == []
