from __future__ import annotations

from pathlib import Path

import pytest

from tests.share.cloud import ShareCloud

pytestmark = pytest.mark.anyio


async def test_pools_and_services_are_the_operator_s(cloud: ShareCloud) -> None:
    for path in ("/scheduler-stats/pools", "/scheduler-stats/pools/detail", "/services"):
        assert (await cloud.ask("GET", path)).status == 403
    pools = (await cloud.ask("GET", "/scheduler-stats/pools/detail", user="admin")).key("pools")
    assert [pool["name"] for pool in pools] == ["host1@simulated#ceph", "host1@simulated#files"]
    capabilities = pools[1]["capabilities"]
    assert (capabilities["storage_protocol"], capabilities["total_capacity_gb"]) == ("NFS", 100)
    one = await cloud.ask("GET", "/scheduler-stats/pools?pool=files", user="admin")
    assert one.key("pools") == [
        {"name": "host1@simulated#files", "host": "host1", "backend": "simulated", "pool": "files"}
    ]
    [service] = (await cloud.ask("GET", "/services", user="admin")).key("services")
    assert (service["host"], service["state"]) == ("host1@simulated", "up")
    old = await cloud.ask("GET", "/os-services", user="admin", version="2.6")
    assert len(old.key("services")) == 1
    assert (await cloud.ask("GET", "/services?host=other", user="admin")).key("services") == []


async def test_a_service_that_is_disabled_gets_no_shares(cloud: ShareCloud) -> None:
    body = {"host": "host1@simulated", "binary": "manila-share"}
    disabled = await cloud.ask("PUT", "/services/disable", body, user="admin")
    assert disabled.key("disabled") is True
    lost = await cloud.make()
    [told] = await cloud.messages(lost)
    assert "that are disabled" in told["user_message"]
    assert (await cloud.ask("PUT", "/services/enable", body, user="admin")).status == 200
    assert await cloud.status(await cloud.make()) == "available"
    wrong = {**body, "host": "nobody"}
    assert (await cloud.ask("PUT", "/services/enable", wrong, user="admin")).status == 404


async def test_a_pool_whose_host_is_silent_gets_no_shares(cloud: ShareCloud) -> None:
    cloud.clock.advance(61.0)
    lost = await cloud.make()
    [told] = await cloud.messages(lost)
    assert "whose host is silent" in told["user_message"]
    [service] = (await cloud.ask("GET", "/services", user="admin")).key("services")
    assert service["state"] == "down"


async def test_what_is_not_here_is_an_empty_list(cloud: ShareCloud) -> None:
    for path, name in {
        "/share-networks": "share_networks",
        "/share-replicas/detail": "share_replicas",
        "/share-groups": "share_groups",
        "/security-services/detail": "security_services",
        "/extensions": "extensions",
    }.items():
        assert (await cloud.ask("GET", path)).body == {name: []}
    [zone] = (await cloud.ask("GET", "/availability-zones")).key("availability_zones")
    assert zone["name"] == "nova"
    assert (await cloud.ask("GET", "/os-availability-zone", version="2.6")).status == 200
    assert (await cloud.ask("POST", "/share-networks", {"share_network": {}})).status == 405


async def test_what_is_told_to_whoever_listens(tmp_path: Path) -> None:
    async with ShareCloud(tmp_path, notifications=("keep",)) as cloud:
        share_id = await cloud.make(name="docs")
        await cloud.act(share_id, "extend", {"new_size": 2})
        await cloud.settle()
        await cloud.act(share_id, "shrink", {"new_size": 1})
        await cloud.settle()
        await cloud.ask("DELETE", f"/shares/{share_id}")
        await cloud.settle()
        told = await cloud.told("share")
        phases = ("start", "end")
        verbs = ("create", "extend", "shrink", "delete")
        assert [one.event_type for one in told] == [
            f"share.{verb}.{phase}" for verb in verbs for phase in phases
        ]
        assert told[1].payload["share_id"] == share_id
        assert told[1].payload["host"] == "host1@simulated#files"
