from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.volume.cloud import VolumeCloud

pytestmark = pytest.mark.anyio

SERVICE = "host1@simulated"


async def test_services_are_up_while_their_host_answers(cloud: VolumeCloud) -> None:
    answer = await cloud.ask("GET", "/os-services", user="admin")
    shown, scheduler = answer.body["services"]
    assert (scheduler["binary"], scheduler["host"]) == ("cinder-scheduler", "control-1")
    assert (scheduler["status"], scheduler["state"]) == ("enabled", "up")
    found = await cloud.ask("GET", "/os-services?binary=cinder-scheduler", user="admin")
    assert [one["binary"] for one in found.body["services"]] == ["cinder-scheduler"]
    assert (shown["binary"], shown["host"]) == ("cinder-volume", SERVICE)
    assert (shown["status"], shown["state"], shown["zone"]) == ("enabled", "up", "nova")
    assert (await cloud.ask("GET", "/os-services")).status == 403
    older = await cloud.ask("GET", "/os-services", user="admin", version="3.0")
    assert "cluster" not in older.body["services"][0]
    for query in ("binary=cinder-backup", "host=elsewhere"):
        found = await cloud.ask("GET", f"/os-services?{query}", user="admin")
        assert found.body == {"services": []}
    cloud.clock.advance(61)
    answer = await cloud.ask("GET", "/os-services", user="admin")
    assert answer.body["services"][0]["state"] == "down"
    assert await cloud.status(await cloud.make()) == "error"
    await cloud.look_at_hosts()
    assert await cloud.status(await cloud.make()) == "available"


async def test_a_silent_host_keeps_its_last_words(cloud: VolumeCloud) -> None:
    cloud.known_agents.remove("host1")
    cloud.known_agents.unix("host1", str(cloud.settings.state_path / "nobody.sock"))
    await cloud.look_at_hosts()
    answer = await cloud.ask("GET", "/os-services", user="admin")
    assert answer.body["services"][0]["state"] == "up"


async def test_a_disabled_service_gets_no_volumes(cloud: VolumeCloud) -> None:
    body = {"host": SERVICE, "binary": "cinder-volume"}
    assert (await cloud.ask("PUT", "/os-services/disable", body)).status == 403
    answer = await cloud.ask("PUT", "/os-services/disable", body, user="admin")
    assert (answer.status, answer.body["status"]) == (200, "disabled")
    assert await cloud.status(await cloud.make()) == "error"
    reasoned = body | {"disabled_reason": "new disks"}
    path = "/os-services/disable-log-reason"
    assert (await cloud.ask("PUT", path, body, user="admin")).status == 400
    answer = await cloud.ask("PUT", path, reasoned, user="admin")
    assert answer.body["disabled_reason"] == "new disks"
    answer = await cloud.ask("PUT", "/os-services/enable", body, user="admin")
    assert answer.body["status"] == "enabled"
    assert await cloud.status(await cloud.make()) == "available"
    nobody = body | {"host": "elsewhere"}
    assert (await cloud.ask("PUT", "/os-services/enable", nobody, user="admin")).status == 404


async def test_pools_are_listed_with_what_they_can(cloud: VolumeCloud) -> None:
    await cloud.make(size=3)
    brief = await cloud.ask("GET", "/scheduler-stats/get_pools", user="admin")
    assert brief.body == {"pools": [{"name": "host1@simulated#fast"}]}
    detail = await cloud.ask("GET", "/scheduler-stats/get_pools?detail=True", user="admin")
    (pool,) = detail.body["pools"]
    assert pool["capabilities"]["provisioned_capacity_gb"] == 3
    assert pool["capabilities"]["volume_backend_name"] == "fast"
    assert (await cloud.ask("GET", "/scheduler-stats/get_pools")).status == 403


async def test_a_pool_gives_no_more_than_it_has(cloud: VolumeCloud) -> None:
    cloud.volume.settings = replace(cloud.volume.settings, oversubscription_ratio=0.0003)
    volumes = [await cloud.make(size=2) for _ in range(2)]
    assert [await cloud.status(volume_id) for volume_id in volumes] == ["available", "error"]


async def test_zones_and_extensions_are_listed(cloud: VolumeCloud) -> None:
    zones = await cloud.ask("GET", "/os-availability-zone")
    expected = {"availabilityZoneInfo": [{"zoneName": "nova", "zoneState": {"available": True}}]}
    assert zones.body == expected
    listed = (await cloud.ask("GET", "/extensions")).body["extensions"]
    assert "os-volume-transfer" in {one["alias"] for one in listed}
    one = await cloud.ask("GET", f"/extensions/{listed[0]['alias']}")
    assert one.body == {"extension": listed[0]}
    assert (await cloud.ask("GET", "/extensions/nobody")).status == 404


async def test_messages_exist_from_3_3_and_end_after_their_time(cloud: VolumeCloud) -> None:
    name = await cloud.type_with(vendor_name="nobody")
    await cloud.make(volume_type=name)
    assert (await cloud.ask("GET", "/messages", version="3.2")).status == 404
    assert len((await cloud.ask("GET", "/messages", version="3.3")).body["messages"]) == 1
    assert (await cloud.ask("GET", "/messages", user="stranger")).body == {"messages": []}
    cloud.clock.advance(31 * 86400)
    await cloud.cloud.prune()
    assert (await cloud.ask("GET", "/messages")).body == {"messages": []}
