"""Images that operations brought to hosts for themselves, and have left there, are found."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.agent.hosts import spec_of, stream
from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio


async def test_what_an_operation_that_ended_brought_is_found(cloud: SimulatedCloud) -> None:
    [host] = cloud.known_agents
    images = cloud.agents[host].agent.images
    spec = replace(spec_of(b"data", "raw"), for_operation=True)
    await images.put("copy", spec, stream(b"data"), "gone.carry")
    assert await cloud.complaints() == [
        f"image copy: host {host} has it for operation gone, which has ended"
    ]
    images.delete("copy")
    assert await cloud.complaints() == []


async def test_what_is_there_for_everybody_is_not(cloud: SimulatedCloud) -> None:
    [host] = cloud.known_agents
    images = cloud.agents[host].agent.images
    await images.put("picture", spec_of(b"data", "raw"), stream(b"data"), "gone.bring_image")
    assert await cloud.complaints() == []
