"""A volume whose record is damaged is named by the doctor, which takes its snapshots for sound."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.agent.drivers.simulated import SimulatedDriver
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
