"""What random histories are held to: that it is noted on each database, and that it is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.agent.world import Written
from tests.cloud import SimulatedCloud
from tests.laws import backup_scenarios, basics, history
from tests.laws.counted import find_uncounted
from tests.laws.sites import Site

pytestmark = pytest.mark.anyio


async def test_each_database_tells_when_a_pool_was_at_work_on_a_volume(
    tmp_path: Path, database: str
) -> None:
    async with SimulatedCloud(tmp_path, database=database) as cloud:
        site = Site(cloud)
        history.watch(cloud.settings)
        await basics.a_volume(site)
        await backup_scenarios.back_up(site)
        await cloud.settle()
        [copied] = history.find_copied(cloud.settings)
        assert (copied.volume_id, copied.writer) == (site.names["volume"], "its pool, backing-up")
        assert copied.until is not None
        while_copied = Written(copied.volume_id, "a guest", False, copied.until - 0.001, None)
        assert history.find_overlaps([copied, while_copied])
        afterwards = Written(copied.volume_id, "a guest", False, copied.until, None)
        assert history.find_overlaps([copied, afterwards]) == []
        assert history.find_forbidden(cloud.settings) == []
        assert await find_uncounted(site) == []


def test_a_span_that_lasts_is_held_against_every_later_one() -> None:
    lasting = Written("volume", "first", True, 0.0, 10.0)
    shared = Written("volume", "second", True, 1.0, 2.0)
    alone = Written("volume", "third", False, 5.0, 6.0)
    assert history.find_overlaps([lasting, shared]) == []
    [found] = history.find_overlaps([lasting, shared, alone])
    assert "first and third" in found
