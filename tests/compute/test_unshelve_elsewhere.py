"""A server that comes back to another host than the first one that was to have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compute.cloud import ComputeCloud
from tests.compute.elsewhere import refuse
from tests.compute.moving import server_that_moves
from tests.compute.test_shelve import HOSTS, act, is_back, put_away

pytestmark = pytest.mark.anyio


async def test_of_the_host_that_could_not_have_it_no_notification_tells(tmp_path: Path) -> None:
    """An unshelving is told of as begun and as done, never as an error (facts/compute.md 12.3)."""
    async with ComputeCloud(tmp_path, hosts=HOSTS, notifications=("keep",)) as cloud:
        moving = await server_that_moves(cloud)
        await put_away(moving)
        before = len(await cloud.told("compute"))
        asked = refuse(cloud, cloud.hosts, "/servers/", one=True)
        assert await act(moving, "unshelve") == 202
        assert len({*asked}) == 2
        await is_back(moving)
        told = [one.event_type for one in (await cloud.told("compute"))[before:]]
        assert told == ["instance.unshelve.start", "instance.unshelve.end"]
