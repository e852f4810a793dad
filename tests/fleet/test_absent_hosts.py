"""A host beside the control plane leaves once that is not started with it any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cloud import SimulatedCloud
from tests.web.test_audit import beside

pytestmark = pytest.mark.anyio


async def test_a_cloud_that_is_started_without_a_host_lets_go_of_it(tmp_path: Path) -> None:
    async with SimulatedCloud(tmp_path, hosts=("host1", "host2")) as cloud:
        assert await beside(cloud, "DELETE", "/mooring/hosts/host2") == 409
    async with SimulatedCloud(tmp_path, hosts=("host1",)) as cloud:
        assert await beside(cloud, "DELETE", "/mooring/hosts/host3") == 404
        assert await beside(cloud, "DELETE", "/mooring/hosts/host2", user="demo") == 403
        cloud.clock.advance(3600.0)
        assert await beside(cloud, "DELETE", "/mooring/hosts/host2") == 204
        path = "/volume/v3/os-services"
        services = (await cloud.ask("GET", path, user="admin")).body["services"]
        assert "host2" not in {one["host"].partition("@")[0] for one in services}
        assert await beside(cloud, "DELETE", "/mooring/hosts/host2") == 404
