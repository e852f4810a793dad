"""What a service has of a host stays when the host has answered since it was to be forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.errors import Unavailable
from mooring.services import SERVICES
from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio
TENANTS = [each for each in SERVICES if each.forget_host]


async def test_a_host_that_has_answered_since_is_not_forgotten(
    tmp_path: Path, database: str
) -> None:
    async with SimulatedCloud(tmp_path, database=database) as cloud:
        assert [each.name for each in TENANTS] == ["volume", "share", "compute"]
        cloud.clock.advance(10.0)
        await cloud.look_at_hosts()
        for each in TENANTS:
            forget, seen, store = each.forget_host, each.hosts_seen, cloud.cloud.stores[each.name]
            assert forget is not None
            assert seen is not None
            heard = (await store.read(seen))["h1"]
            cloud.clock.advance(10.0)
            await cloud.look_at_hosts()
            for former in (None, heard):
                with pytest.raises(Unavailable, match="joined anew"):
                    await forget(cloud.cloud[each], "h1", gone=False, heard=former)
            latest = (await store.read(seen))["h1"]
            assert latest > heard
            await forget(cloud.cloud[each], "h1", gone=False, heard=latest)
            assert await store.read(seen) == {}
            await forget(cloud.cloud[each], "h1", gone=False, heard=heard)
