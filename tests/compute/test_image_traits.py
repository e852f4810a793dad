"""Traits that an image requires of the hosts of its servers (`trait:NAME=required`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.compute.cloud import IMAGE, ComputeCloud
from tests.compute.rebuilding import NEW, rebuild, rebuild_well, state

pytestmark = pytest.mark.anyio
GOLD = "CUSTOM_GOLD"


@pytest.fixture
async def cloud(tmp_path: Path, database: str) -> AsyncGenerator[ComputeCloud]:
    async with ComputeCloud(tmp_path, hosts=("host1", "host2"), database=database) as opened:
        await give(opened, "host2")
        yield opened


async def give(cloud: ComputeCloud, host: str) -> None:
    """Let an operator give a host the trait."""
    placement = cloud.compute.placement
    (provider,) = [one for one in await placement.providers() if one.name == host]
    body = {"resource_provider_generation": provider.generation}
    body |= {"traits": [*await placement.traits(provider.uuid), GOLD]}
    how: dict[str, Any] = {"user": "admin", "version": "1.36"}
    assert (await cloud.ask("PUT", f"/placement/traits/{GOLD}", **how)).status in {201, 204}
    path = f"/placement/resource_providers/{provider.uuid}/traits"
    assert (await cloud.ask("PUT", path, body, **how)).status == 200


async def disable(cloud: ComputeCloud, host: str) -> None:
    body = {"host": host, "binary": "nova-compute"}
    path = "/os-services/disable"
    assert (await cloud.ask("PUT", path, body, user="admin", version="2.1")).status == 200


def require(cloud: ComputeCloud, image_id: str, **traits: str) -> None:
    properties = {f"trait:{name}": value for name, value in traits.items()}
    cloud.shelf.put(image_id, b"\0" * 65536, name="choosy", **properties)


async def make(cloud: ComputeCloud) -> tuple[str, str, str]:
    """Make a server; return its id, its host and what is told of it."""
    server_id = await cloud.make_server()
    shown = await cloud.server(server_id)
    told = shown.get("fault", {}).get("message", "")
    return server_id, shown["OS-EXT-SRV-ATTR:host"], told


async def test_a_server_goes_where_its_image_may_and_moves_nowhere_else(
    cloud: ComputeCloud,
) -> None:
    require(cloud, IMAGE, **{GOLD: "required"})
    assert (await make(cloud))[1:] == ("host2", "")
    server_id, host, told = await make(cloud)
    assert (host, told) == ("host2", "")
    await cloud.look_at_hosts()
    for action in ("migrate", "os-migrateLive"):
        value = None if action == "migrate" else {"host": None, "block_migration": "auto"}
        assert await cloud.act(server_id, action, value, user="admin", version="2.90") == 202
        await cloud.settle()
        assert await state(cloud, server_id) == ("ACTIVE", None)
        assert (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"] == "host2"
        assert (await cloud.actions(server_id))[-1] == (
            "live-migration" if value else "migrate",
            "Error",
        )
    await give(cloud, "host1")
    assert await cloud.act(server_id, "migrate", None, user="admin") == 202
    await cloud.settle()
    assert (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"] == "host1"


@pytest.mark.parametrize("value", ["forbidden", "other", "Required"])
async def test_an_image_requires_traits_and_has_no_other_word(
    cloud: ComputeCloud, value: str
) -> None:
    require(cloud, IMAGE, **{GOLD: value})
    await disable(cloud, "host2")
    _, host, told = await make(cloud)
    assert (host, told) == ("host1", "")


@pytest.mark.parametrize("name", ["CUSTOM_UNKNOWN", "no trait at all"])
async def test_a_trait_that_nobody_knows_is_told(cloud: ComputeCloud, name: str) -> None:
    require(cloud, IMAGE, **{name: "required"})
    server_id, _, told = await make(cloud)
    assert await state(cloud, server_id) == ("ERROR", None)
    assert told == f"No valid host was found. 2 hosts: 2 not fit for {name}."
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.settle()
    assert await cloud.complaints() == []


async def test_a_flavor_that_forbids_what_the_image_requires_has_no_host(
    cloud: ComputeCloud,
) -> None:
    require(cloud, IMAGE, **{GOLD: "required"})
    extra = {"extra_specs": {f"trait:{GOLD}": "forbidden"}}
    assert (await cloud.ask("POST", "/flavors/1/os-extra_specs", extra, user="admin")).status == 200
    _, _, told = await make(cloud)
    assert f"its image requires the trait {GOLD}, and its flavor forbids it" in told


async def test_a_rebuild_is_refused_where_the_host_lacks_what_the_image_requires(
    cloud: ComputeCloud,
) -> None:
    await disable(cloud, "host2")
    server_id, _, _ = await make(cloud)
    require(cloud, NEW, **{GOLD: "required"})
    answer = await rebuild(cloud, server_id)
    assert (answer.status, f"requires the trait {GOLD}" in answer.fault) == (409, True)
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None)
    await give(cloud, "host1")
    await rebuild_well(cloud, server_id)
    shown = await cloud.ask("GET", f"/servers/{server_id}", version="2.98")
    image = shown.body["server"]["image"]
    assert (image["id"], image["properties"][f"trait:{GOLD}"]) == (NEW, "required")
