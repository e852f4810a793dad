"""Reports of usage, of servers that are written down as if they had run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.callers import OTHER_PROJECT, PROJECT
from tests.compute.api.cloud import ComputeAlone, fault_of

pytestmark = pytest.mark.anyio
PATH = "/os-simple-tenant-usage"
START, END = "2025-12-31T00:00:00", "2026-01-01T00:00:00"
DAY = f"start={START}&end={END}"
SIZE = {"vcpus": 2, "memory_mib": 512, "disk_gib": 3, "flavor_name": "m"}


def at(hour: float) -> datetime:
    """A time on the day of which reports are asked."""
    return datetime.fromisoformat(f"{START}+00:00") + timedelta(hours=hour)


async def ran(cloud: ComputeAlone, begin: float, end: float | None = None, **more: Any) -> str:
    """Write a server that ran from one hour of the day to another, or runs yet."""
    ended = {} if end is None else {"vm_state": "deleted", "deleted_at": at(end)}
    return await cloud.server(
        launched_at=at(begin), terminated_at=ended.get("deleted_at"), **SIZE, **ended, **more
    )


async def test_a_server_counts_from_its_launch_until_it_was_deleted(cloud: ComputeAlone) -> None:
    server_id = await ran(cloud, 4, 6.5, name="gone")
    found = (await cloud.get(f"{PATH}/{PROJECT}?{DAY}"))["tenant_usage"]
    (shown,) = found.pop("server_usages")
    assert found == {
        "tenant_id": PROJECT,
        "start": f"{START}.000000",
        "stop": f"{END}.000000",
        "total_hours": 2.5,
        "total_vcpus_usage": 5.0,
        "total_memory_mb_usage": 1280.0,
        "total_local_gb_usage": 7.5,
    }
    assert shown == {
        "instance_id": server_id,
        "name": "gone",
        "tenant_id": PROJECT,
        "flavor": "m",
        "vcpus": 2,
        "memory_mb": 512,
        "local_gb": 3,
        "started_at": "2025-12-31T04:00:00.000000",
        "ended_at": "2025-12-31T06:30:00.000000",
        "hours": 2.5,
        "uptime": 9000,
        "state": "terminated",
    }


async def test_only_what_lies_in_the_period_counts_and_nothing_that_is_to_come(
    cloud: ComputeAlone,
) -> None:
    await ran(cloud, -5, 1)
    await ran(cloud, 22)
    await ran(cloud, -9, -1)
    await cloud.server(launched_at=None, **SIZE)
    (one, other) = await hours(cloud, DAY)
    assert sorted((one, other)) == [1.0, 2.0]
    cloud.clock.advance(3600.0)
    assert sorted(await hours(cloud, f"start={START}&end=2027-01-01")) == [1.0, 3.0]


async def hours(cloud: ComputeAlone, query: str) -> list[float]:
    found = (await cloud.get(f"{PATH}/{PROJECT}?{query}"))["tenant_usage"]
    return [one["hours"] for one in found["server_usages"]]


async def test_all_projects_are_an_administrator_s_to_see(cloud: ComputeAlone) -> None:
    await ran(cloud, 0, 1)
    await ran(cloud, 0, 2, project_id=OTHER_PROJECT)
    found = (await cloud.get(f"{PATH}?{DAY}", user="admin"))["tenant_usages"]
    assert [(one["tenant_id"], one["total_hours"]) for one in found] == [
        (PROJECT, 1.0),
        (OTHER_PROJECT, 2.0),
    ]
    assert "server_usages" not in found[0]
    detailed = await cloud.get(f"{PATH}?{DAY}&detailed=1", user="admin")
    assert len(detailed["tenant_usages"][1]["server_usages"]) == 1
    for path in (PATH, f"{PATH}/{OTHER_PROJECT}"):
        assert (await cloud.ask("GET", f"{path}?{DAY}")).status == 403
    assert (await cloud.get(f"{PATH}/{PROJECT}?end=2020-01-01")) == {"tenant_usage": {}}


async def test_pages_come_with_2_40(cloud: ComputeAlone) -> None:
    made = sorted([await ran(cloud, 0, 1) for _ in range(3)])
    first = await cloud.get(f"{PATH}/{PROJECT}?{DAY}&limit=2", version="2.40")
    ids = [one["instance_id"] for one in first["tenant_usage"]["server_usages"]]
    assert ids == made[:2]
    (link,) = first["tenant_usage_links"]
    rest = await cloud.get(link["href"], version="2.40")
    assert [one["instance_id"] for one in rest["tenant_usage"]["server_usages"]] == made[2:]
    assert "tenant_usage_links" not in rest
    old = await cloud.get(f"{PATH}/{PROJECT}?{DAY}&limit=2")
    assert len(old["tenant_usage"]["server_usages"]) == 3


@pytest.mark.parametrize(
    ("query", "version"),
    [
        (f"start={END}&end={START}", "2.1"),
        (f"start={END}&end={END}", "2.1"),
        ("start=yesterday", "2.1"),
        ("marker=none", "2.40"),
        ("beer=1", "2.75"),
    ],
)
async def test_what_is_no_period_is_400(cloud: ComputeAlone, query: str, version: str) -> None:
    answer = await cloud.ask("GET", f"{PATH}/{PROJECT}?{query}", version=version)
    assert fault_of(answer)[:2] == (400, "badRequest")


@pytest.mark.parametrize("path", [PATH, f"{PATH}/{PROJECT}"])
async def test_a_period_begins_with_the_calendar_at_the_earliest(
    any_cloud: ComputeAlone, path: str
) -> None:
    await ran(any_cloud, 4)
    for end in ("0001-01-02T00:00:00", "0001-01-01T00:00:00.000001"):
        found = await any_cloud.get(f"{path}?end={end}", user="admin")
        assert found == ({"tenant_usages": []} if path == PATH else {"tenant_usage": {}})
    for end in ("0001-01-01T00:00:00", "0001-01-01T00:00:00%2B01:00"):
        answer = await any_cloud.ask("GET", f"{path}?end={end}", user="admin")
        assert fault_of(answer)[:2] == (400, "badRequest")


@pytest.mark.parametrize(("word", "is_detailed"), [("True", True), ("tRUE", True), ("0", False)])
async def test_servers_are_told_of_in_the_words_of_stock_clients(
    any_cloud: ComputeAlone, word: str, is_detailed: bool
) -> None:
    await ran(any_cloud, 1, 2)
    found = await any_cloud.get(f"{PATH}?{DAY}&detailed={word}", user="admin")
    assert ["server_usages" in usage for usage in found["tenant_usages"]] == [is_detailed]
