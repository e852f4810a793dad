"""A host beside the control plane leaves once that is not started with it any more."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from mooring.fleet.app import HostView
from mooring.typed import convert
from tests.cloud import URL, SimulatedCloud
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


async def test_a_host_without_which_a_cloud_is_started_is_listed_as_absent(tmp_path: Path) -> None:
    async with SimulatedCloud(tmp_path, hosts=("host1", "host2")) as cloud:
        assert [(one.name, one.status) for one in await listed(cloud)] == [
            ("host1", "beside"),
            ("host2", "beside"),
        ]
    async with SimulatedCloud(tmp_path, hosts=("host1",)) as cloud:
        near, away = await listed(cloud)
        assert (near.name, near.status, near.silent_since) == ("host1", "beside", None)
        assert (away.name, away.status) == ("host2", "absent")
        assert away.silent_since is not None
        assert await beside(cloud, "GET", "/mooring/hosts/host2") == 200
        assert await beside(cloud, "GET", "/mooring/hosts/host2", user="demo") == 403
        assert await beside(cloud, "GET", "/mooring/hosts/host3") == 404
        cloud.clock.advance(3600.0)
        assert await beside(cloud, "DELETE", "/mooring/hosts/host2") == 204
        assert [one.name for one in await listed(cloud)] == ["host1"]


async def listed(cloud: SimulatedCloud) -> list[HostView]:
    headers = {"x-auth-token": await cloud.token("admin")}
    transport = httpx2.ASGITransport(app=cloud.cloud.app)
    async with httpx2.AsyncClient(transport=transport, base_url=URL) as client:
        answer = await client.get("/mooring/hosts", headers=headers)
    return convert(answer.json()["hosts"], list[HostView])
