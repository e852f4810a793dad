"""The volumes that are made with a server lie where its host reaches them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.settings import PoolSettings, Role
from mooring.clients.volume_forms import REACHED_BY
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio
_HOSTS = ("host1", "host2", "host3")
_BOTH: tuple[Role, ...] = ("compute", "volume")
_HOST = "OS-EXT-SRV-ATTR:host"
_POOL = "os-vol-host-attr:host"


@pytest.fixture
async def cloud(tmp_path: Path, database: str) -> AsyncGenerator[ComputeCloud]:
    """Three hosts, each with a pool that nobody else reaches."""
    roles = dict.fromkeys(_HOSTS, _BOTH)
    async with ComputeCloud(tmp_path, hosts=_HOSTS, roles=roles, database=database) as opened:
        for host in _HOSTS:
            await _give_pool(opened, host)
        yield opened


async def _give_pool(cloud: ComputeCloud, host: str, **how: Any) -> None:
    pool = PoolSettings(name="local", driver="simulated", hosts=(host,), **how)
    await cloud.change_host(host, pools=(pool,))


async def _disable(cloud: ComputeCloud, host: str) -> None:
    body = {"host": host, "binary": "nova-compute"}
    answer = await cloud.ask("PUT", "/os-services/disable", body, user="admin", version="2.1")
    assert answer.status == 200


async def _boot(cloud: ComputeCloud, *, blank: int = 0, size: int = 1) -> dict[str, Any]:
    """Make a server on a new volume from an image, with empty ones beside; return it as it ends."""
    new = {"destination_type": "volume", "volume_size": size}
    root = {**new, "source_type": "image", "uuid": cloud.image_id, "boot_index": 0}
    more = [{**new, "source_type": "blank", "boot_index": -1}] * blank
    wanted = {"name": "s", "flavorRef": "1", "networks": "none"}
    body = {"server": {**wanted, "block_device_mapping_v2": [root, *more]}}
    made = await cloud.ask("POST", "/servers", body)
    await cloud.settle()
    return await cloud.server(made.body["server"]["id"])


async def _pools(cloud: ComputeCloud) -> list[str]:
    """Return the hosts whose pools have volumes, one for each volume; "" lies nowhere."""
    answer = await cloud.ask("GET", "/volume/v3/volumes/detail?all_tenants=1", user="admin")
    found = [volume[_POOL] for volume in answer.body["volumes"]]
    return [(pool or "").partition("@")[0] for pool in found]


async def test_they_lie_in_the_pool_of_the_host_that_the_server_got(cloud: ComputeCloud) -> None:
    await _disable(cloud, "host1")
    servers = [await _boot(cloud, blank=2), await _boot(cloud)]
    assert [server["status"] for server in servers] == ["ACTIVE"] * 2
    wanted = [servers[0][_HOST]] * 3 + [servers[1][_HOST]]
    assert sorted(await _pools(cloud)) == sorted(wanted)


async def test_a_host_that_reaches_no_pool_is_not_chosen(tmp_path: Path) -> None:
    roles: dict[str, tuple[Role, ...]] = {**dict.fromkeys(_HOSTS, ("compute",)), "host3": _BOTH}
    async with ComputeCloud(tmp_path, hosts=_HOSTS, roles=roles) as cloud:
        await _give_pool(cloud, "host3")
        server = await _boot(cloud)
        assert (server["status"], server[_HOST]) == ("ACTIVE", "host3")
        await _disable(cloud, "host3")
        message = (await _boot(cloud))["fault"]["message"]
        assert message.endswith("3 hosts: 2 out of reach of every pool, 1 disabled.")


async def test_where_the_pool_of_a_host_is_full_another_host_gets_the_server(
    cloud: ComputeCloud,
) -> None:
    for host in ("host1", "host2"):
        await _give_pool(cloud, host, total_gib=1)
    server = await _boot(cloud, blank=1, size=40)
    assert (server["status"], server[_HOST]) == ("ACTIVE", "host3")
    assert await _pools(cloud) == ["host3"] * 2
    assert await cloud.complaints() == []


async def test_where_all_pools_are_full_the_fault_says_so_of_each_host(cloud: ComputeCloud) -> None:
    for host in _HOSTS:
        await _give_pool(cloud, host, total_gib=1)
    server = await _boot(cloud, size=40)
    assert (server["status"], server[_HOST]) == ("ERROR", None)
    assert server["fault"]["message"].startswith("On host")
    told = server["fault"]["message"]
    assert "which was to be made for the server, came to be in status error" in told
    assert "volume message list says why" in told
    assert "attached" not in told
    assert await _pools(cloud) == []


async def test_only_a_service_says_which_host_is_to_reach_a_new_volume(cloud: ComputeCloud) -> None:
    answer = await cloud.ask(
        "POST", "/volume/v3/volumes", {"volume": {"size": 1}}, headers={REACHED_BY: "nowhere"}
    )
    await cloud.settle()
    volume_id = answer.body["volume"]["id"]
    assert await cloud.volume_status(volume_id) == "available"
