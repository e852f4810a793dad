"""What a growing volume is told of: upstream's names, with the size before and after."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.errors import NoCapacity
from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio

VOLUMES = "/volume/v3/volumes"


@pytest.fixture
async def cloud(tmp_path: Path, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path, notifications=("keep",)) as opened:
        yield opened


async def extend(cloud: SimulatedCloud, new_size: int) -> list[tuple[str, str, int]]:
    """Make a volume of 1 GiB, extend it, and return what is told of that."""
    made = await cloud.ask("POST", VOLUMES, {"volume": {"size": 1}})
    await cloud.settle()
    before = len(await cloud.told("volume"))
    body: dict[str, Any] = {"os-extend": {"new_size": new_size}}
    path = f"{VOLUMES}/{made.key('volume')['id']}/action"
    assert (await cloud.ask("POST", path, body)).status == 202
    await cloud.settle()
    told = (await cloud.told("volume"))[before:]
    return [
        (one.event_type, each["status"], each["size"])
        for one in told
        for each in [one.payload.get("volume_properties", one.payload)]
    ]


async def test_growing_is_told_before_storage_is_asked_and_after(cloud: SimulatedCloud) -> None:
    assert await extend(cloud, 3) == [
        ("volume.resize.start", "extending", 1),
        ("volume.resize.end", "available", 3),
    ]


async def test_a_growth_that_fails_never_ends(cloud: SimulatedCloud) -> None:
    (agent,) = cloud.agents.values()
    (driver,) = agent.agent.drivers.values()
    assert isinstance(driver, SimulatedDriver)
    driver.knobs.fail("extend", NoCapacity("The pool is full."))
    assert await extend(cloud, 3) == [("volume.resize.start", "extending", 1)]


async def test_a_pool_without_room_is_told_by_the_scheduler(cloud: SimulatedCloud) -> None:
    body = {"quota_set": {"gigabytes": -1}}
    project = (await cloud.ask("GET", "/identity/v3/auth/projects")).key("projects")[0]["id"]
    await cloud.ask("PUT", f"/volume/v3/os-quota-sets/{project}", body, user="admin")
    assert await extend(cloud, 2**30) == [("scheduler.extend_volume", "available", 1)]
