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


async def test_pools_are_found_by_patterns_and_by_share_type(cloud: ShareCloud) -> None:
    async def found(query: str) -> list[str]:
        answer = await cloud.ask("GET", f"/scheduler-stats/pools?{query}", user="admin")
        return [pool["pool"] for pool in answer.key("pools")]

    assert await found("host=%5Ehost1%24&backend=sim.*&pool=%5Efiles%24") == ["files"]
    assert await found("pool=%5Efile%24") == []
    assert await found("pool=ile") == [], "a name must begin so"
    assert await found("pool=(f*)*.*.*.*s%24") == ["files"]
    specs = {"driver_handles_share_servers": False, "storage_protocol": "CEPHFS"}
    body = {"share_type": {"name": "ceph", "extra_specs": specs}}
    await cloud.ask("POST", "/types", body, user="admin")
    assert await found("share_type=ceph") == ["ceph"]
    for wrong in ("pool=%5B", "pool=(a)%5C1", "pool=(%3F%3Aa)", "share_type=none"):
        answer = await cloud.ask("GET", f"/scheduler-stats/pools?{wrong}", user="admin")
        assert answer.status == 400, wrong


async def test_messages_come_in_pages_and_of_a_time(cloud: ShareCloud) -> None:
    for _ in range(3):
        await cloud.make(size=200)
        cloud.clock.advance(1.0)
    [newest, middle, oldest] = (await cloud.ask("GET", "/messages")).key("messages")
    assert (newest["action_id"], newest["detail_id"]) == ("001", "002")

    async def found(query: str, version: str = "2.82") -> list[str]:
        answer = await cloud.ask("GET", f"/messages?{query}", version=version)
        return [message["id"] for message in answer.key("messages")]

    first = await cloud.ask("GET", "/messages?limit=2&sort_key=created_at&sort_dir=asc")
    assert [each["id"] for each in first.key("messages")] == [oldest["id"], middle["id"]]
    assert f"marker={middle['id']}" in first.key("messages_links")[0]["href"]
    assert await found(f"created_since={middle['created_at']}") == [newest["id"], middle["id"]]
    assert await found(f"created_before={oldest['created_at']}") == [oldest["id"]]
    assert len(await found("created_since=never", "2.51")) == 3
    assert (await cloud.ask("GET", "/messages?created_since=never")).status == 400
    assert await found("message_level=WARNING") == []


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
    assert (await cloud.ask("POST", "/share-networks", {"share_network": {}})).status == 501


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
