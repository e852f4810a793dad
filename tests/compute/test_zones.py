"""Where servers go by zones and by the metadata of aggregates."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.compute.scheduling import picking
from tests.callers import PROJECT
from tests.compute.cloud import IMAGE, ComputeCloud
from tests.compute.fenced import forget

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[ComputeCloud]:
    async with ComputeCloud(tmp_path, hosts=("host1", "host2", "host3")) as opened:
        yield opened


async def aggregate(
    cloud: ComputeCloud, host: str, zone: str | None = None, **metadata: str
) -> int:
    body = {"aggregate": {"name": f"of {host}", "availability_zone": zone}}
    answer = await cloud.ask("POST", "/os-aggregates", body, user="admin")
    at = answer.body["aggregate"]["id"]
    for action in ({"add_host": {"host": host}}, {"set_metadata": {"metadata": metadata}}):
        answer = await cloud.ask("POST", f"/os-aggregates/{at}/action", action, user="admin")
        assert answer.status == 200, answer.text
    return at


async def flavor(cloud: ComputeCloud, **specs: str) -> str:
    body = {"flavor": {"name": "special", "ram": 64, "vcpus": 1, "disk": 1}}
    answer = await cloud.ask("POST", "/flavors", body, user="admin")
    flavor_id = answer.body["flavor"]["id"]
    extra = {"extra_specs": {f"aggregate_instance_extra_specs:{k}": v for k, v in specs.items()}}
    await cloud.ask("POST", f"/flavors/{flavor_id}/os-extra_specs", extra, user="admin")
    return flavor_id


async def placed(cloud: ComputeCloud, **more: Any) -> tuple[str, str]:
    server = await cloud.server(await cloud.make_server(**more))
    return server["OS-EXT-SRV-ATTR:host"], server["OS-EXT-AZ:availability_zone"]


async def test_a_server_is_in_the_zone_that_was_asked_for(cloud: ComputeCloud) -> None:
    await aggregate(cloud, "host2", "east")
    for _ in range(2):
        assert await placed(cloud, availability_zone="east") == ("host2", "east")
    assert (await placed(cloud, availability_zone="nova"))[1] == "nova"
    answer = await cloud.ask("GET", "/servers/detail?availability_zone=east", user="admin")
    assert len(answer.body["servers"]) == 2


async def test_servers_spread_over_the_hosts_by_the_memory_that_is_free(
    cloud: ComputeCloud,
) -> None:
    body = {"flavor": {"name": "large", "ram": 8192, "vcpus": 1, "disk": 1}}
    large = (await cloud.ask("POST", "/flavors", body, user="admin")).body["flavor"]["id"]
    first, _ = await placed(cloud, flavorRef=large)
    others = [(await placed(cloud))[0] for _ in range(4)]
    assert sorted(others) == sorted(2 * [host for host in cloud.hosts if host != first])


async def test_a_zone_without_room_says_what_spoke_against_each_host(cloud: ComputeCloud) -> None:
    await aggregate(cloud, "host2", "east")
    disable = {"host": "host2", "binary": "nova-compute"}
    await cloud.ask("PUT", "/os-services/disable", disable, user="admin", version="2.1")
    server = await cloud.server(await cloud.make_server(availability_zone="east"))
    assert server["status"] == "ERROR"
    assert server["fault"]["message"] == (
        "No valid host was found. 3 hosts: 2 outside of zone east, 1 disabled."
    )


async def test_a_host_that_was_forced_down_is_told_from_one_that_is_silent(
    cloud: ComputeCloud,
) -> None:
    services = (await cloud.ask("GET", "/os-services?binary=nova-compute", user="admin")).body[
        "services"
    ]
    for service in services:
        path = f"/os-services/{service['id']}"
        answer = await cloud.ask("PUT", path, {"forced_down": True}, user="admin")
        assert answer.status == 200, answer.text
    server = await cloud.server(await cloud.make_server())
    message = "No valid host was found. 3 hosts: 3 forced down."
    assert server["fault"]["message"] == message


async def test_a_flavor_that_is_too_large_names_what_there_is_no_room_for(
    cloud: ComputeCloud,
) -> None:
    body = {"flavor": {"name": "huge", "ram": 64, "vcpus": 9999, "disk": 1}}
    answer = await cloud.ask("POST", "/flavors", body, user="admin")
    wanted = {"flavorRef": answer.body["flavor"]["id"]}
    quota = {"quota_set": {"cores": -1}}
    await cloud.ask("PUT", f"/os-quota-sets/{PROJECT}", quota, user="admin")
    server = await cloud.server(await cloud.make_server(**wanted))
    message = "No valid host was found. 3 hosts: 3 without room for 9999 VCPU."
    assert server["fault"]["message"] == message


async def test_a_trait_that_no_host_has_is_named(cloud: ComputeCloud) -> None:
    body = {"flavor": {"name": "able", "ram": 64, "vcpus": 1, "disk": 1}}
    flavor_id = (await cloud.ask("POST", "/flavors", body, user="admin")).body["flavor"]["id"]
    extra = {"extra_specs": {"trait:HW_CPU_X86_VMX": "required"}}
    await cloud.ask("POST", f"/flavors/{flavor_id}/os-extra_specs", extra, user="admin")
    server = await cloud.server(await cloud.make_server(flavorRef=flavor_id))
    message = "No valid host was found. 3 hosts: 3 not fit for HW_CPU_X86_VMX."
    assert server["fault"]["message"] == message


async def test_a_flavor_asks_for_the_metadata_of_an_aggregate(cloud: ComputeCloud) -> None:
    special = await flavor(cloud, ssd="<or> true <or> yes")
    await aggregate(cloud, "host1", ssd="false")
    await aggregate(cloud, "host3", ssd="true")
    for _ in range(2):
        assert (await placed(cloud, flavorRef=special))[0] == "host3"


async def test_hosts_that_are_kept_for_a_project_take_no_others(cloud: ComputeCloud) -> None:
    await aggregate(cloud, "host1", filter_tenant_id="somebody")
    await aggregate(cloud, "host2", filter_tenant_id=f"somebody,{PROJECT}")
    await aggregate(cloud, "host3", filter_tenant_id="somebody")
    for _ in range(2):
        assert (await placed(cloud))[0] == "host2"


@pytest.mark.parametrize("kept", ["host1", "host2", "host3"])
async def test_a_host_is_found_behind_those_that_have_room_and_are_kept_for_others(
    cloud: ComputeCloud, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picking, "FEW", 1)
    monkeypatch.setattr(picking, "MANY", 2)
    for host in {"host1", "host2", "host3"} - {kept}:
        await aggregate(cloud, host, filter_tenant_id="somebody")
    assert (await placed(cloud))[0] == kept


async def test_a_host_by_its_zone_and_name_is_the_only_one(cloud: ComputeCloud) -> None:
    await aggregate(cloud, "host2", "east")
    wanted = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}
    for zone, host in (("east:host2", "host2"), ("nova:host3:host3", "host3"), (":host1", "host1")):
        body = {"server": {**wanted, "availability_zone": zone}}
        answer = await cloud.ask("POST", "/servers", body, user="admin")
        assert answer.status == 202, answer.text
        await cloud.settle()
        server = await cloud.server(answer.body["server"]["id"])
        assert server["OS-EXT-SRV-ATTR:host"] == host
    body = {"server": {**wanted, "availability_zone": "east:host1"}}
    answer = await cloud.ask("POST", "/servers", body, user="admin")
    assert answer.status == 400
    assert "host1 is in availability zone nova" in answer.text


async def test_a_removed_host_leaves_its_aggregates(cloud: ComputeCloud) -> None:
    at = await aggregate(cloud, "host3", "east")
    await forget(cloud, "host3")
    answer = await cloud.ask("GET", f"/os-aggregates/{at}", user="admin")
    assert answer.body["aggregate"]["hosts"] == []


async def test_a_host_to_which_a_server_may_go_back_stays_in_its_zone(cloud: ComputeCloud) -> None:
    path = f"/os-aggregates/{await aggregate(cloud, 'host1', 'east')}/action"
    assert (
        await cloud.ask("POST", path, {"add_host": {"host": "host2"}}, user="admin")
    ).status == 200
    server_id = await cloud.make_server(availability_zone="east")
    host = (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]
    assert await cloud.act(server_id, "migrate", None, user="admin") == 202
    await cloud.settle()
    await cloud.look_at_hosts()
    refused = await cloud.ask("POST", path, {"remove_host": {"host": host}}, user="admin")
    assert (refused.status, "servers move from it" in refused.text) == (409, True)
    assert await cloud.act(server_id, "revertResize", None, user="admin") == 202
    await cloud.settle()
    shown = await cloud.server(server_id)
    assert (shown["OS-EXT-SRV-ATTR:host"], shown["OS-EXT-AZ:availability_zone"]) == (host, "east")
    assert await cloud.complaints() == []
