from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.volume.backends.loops.watch_pools import look_once
from tests.volume.dock import Dock

pytestmark = pytest.mark.anyio

SERVICE = "host1@simulated"


async def test_services_are_up_while_their_host_answers(dock: Dock) -> None:
    answer = await dock.ask("GET", "/os-services", who="admin")
    (shown,) = answer.json["services"]
    assert (shown["binary"], shown["host"]) == ("cinder-volume", SERVICE)
    assert (shown["status"], shown["state"], shown["zone"]) == ("enabled", "up", "nova")
    assert (await dock.ask("GET", "/os-services")).status == 403
    older = await dock.ask("GET", "/os-services", who="admin", version="3.0")
    assert "cluster" not in older.json["services"][0]
    for query in ("binary=cinder-backup", "host=elsewhere"):
        found = await dock.ask("GET", f"/os-services?{query}", who="admin")
        assert found.json == {"services": []}
    dock.clock.advance(61)
    answer = await dock.ask("GET", "/os-services", who="admin")
    assert answer.json["services"][0]["state"] == "down"
    assert await dock.status(await dock.make()) == "error"
    await look_once(dock.volume)
    assert await dock.status(await dock.make()) == "available"


async def test_a_silent_host_keeps_its_last_words(dock: Dock) -> None:
    dock.agents.remove("host1")
    dock.agents.unix("host1", str(dock.location / "nobody.sock"))
    await look_once(dock.volume)
    answer = await dock.ask("GET", "/os-services", who="admin")
    assert answer.json["services"][0]["state"] == "up"


async def test_a_disabled_service_gets_no_volumes(dock: Dock) -> None:
    body = {"host": SERVICE, "binary": "cinder-volume"}
    assert (await dock.ask("PUT", "/os-services/disable", body)).status == 403
    answer = await dock.ask("PUT", "/os-services/disable", body, who="admin")
    assert (answer.status, answer.json["status"]) == (200, "disabled")
    assert await dock.status(await dock.make()) == "error"
    reasoned = body | {"disabled_reason": "new disks"}
    path = "/os-services/disable-log-reason"
    assert (await dock.ask("PUT", path, body, who="admin")).status == 400
    answer = await dock.ask("PUT", path, reasoned, who="admin")
    assert answer.json["disabled_reason"] == "new disks"
    answer = await dock.ask("PUT", "/os-services/enable", body, who="admin")
    assert answer.json["status"] == "enabled"
    assert await dock.status(await dock.make()) == "available"
    nobody = body | {"host": "elsewhere"}
    assert (await dock.ask("PUT", "/os-services/enable", nobody, who="admin")).status == 404


async def test_pools_are_listed_with_what_they_can(dock: Dock) -> None:
    await dock.make(size=3)
    brief = await dock.ask("GET", "/scheduler-stats/get_pools", who="admin")
    assert brief.json == {"pools": [{"name": "host1@simulated#fast"}]}
    detail = await dock.ask("GET", "/scheduler-stats/get_pools?detail=True", who="admin")
    (pool,) = detail.json["pools"]
    assert pool["capabilities"]["provisioned_capacity_gb"] == 3
    assert pool["capabilities"]["volume_backend_name"] == "simulated"
    assert (await dock.ask("GET", "/scheduler-stats/get_pools")).status == 403


async def test_a_pool_gives_no_more_than_it_has(dock: Dock) -> None:
    dock.volume.settings = replace(dock.settings, oversubscription_ratio=0.0003)
    volumes = [await dock.make(size=2) for _ in range(2)]
    assert [await dock.status(volume_id) for volume_id in volumes] == ["available", "error"]


async def test_zones_and_extensions_are_listed(dock: Dock) -> None:
    zones = await dock.ask("GET", "/os-availability-zone")
    expected = {"availabilityZoneInfo": [{"zoneName": "nova", "zoneState": {"available": True}}]}
    assert zones.json == expected
    assert (await dock.ask("GET", "/extensions")).json == {"extensions": []}


async def test_messages_exist_from_3_3_and_end_after_their_time(dock: Dock) -> None:
    name = await dock.type_with(vendor_name="nobody")
    await dock.make(volume_type=name)
    assert (await dock.ask("GET", "/messages", version="3.2")).status == 404
    assert len((await dock.ask("GET", "/messages", version="3.3")).json["messages"]) == 1
    assert (await dock.ask("GET", "/messages", who="stranger")).json == {"messages": []}
    dock.clock.advance(31 * 86400)
    await look_once(dock.volume)
    assert (await dock.ask("GET", "/messages")).json == {"messages": []}
