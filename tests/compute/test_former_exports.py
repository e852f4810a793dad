"""What a volume was at another host, whose export the storage did not end in time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.errors import Conflict
from tests.compute.moving_volumes import FAR, SLOW, MovingVolumes

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[MovingVolumes]:
    """Hosts and pools, which the doctor finds well in the end."""
    async with MovingVolumes(tmp_path) as opened:
        yield opened
        assert await opened.complaints() == []


async def test_it_goes_although_the_storage_kept_the_export_when_compute_ended_it(
    cloud: MovingVolumes,
) -> None:
    server_id, volume_id = await cloud.prepare()
    cloud.pool(SLOW).knobs.fail("unexport", Conflict("It is in use."))
    await cloud.migrate(volume_id, FAR)
    await cloud.settle()
    assert await cloud.unfinished() == []
    await cloud.check(server_id, volume_id, "success", FAR)
