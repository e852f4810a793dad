"""Aggregates and zones through the API: shapes, codes, and the zones that hosts get."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.compute.api.cloud import ComputeAlone, fault_of

pytestmark = pytest.mark.anyio

PATH = "/os-aggregates"


async def create(cloud: ComputeAlone, name: str, zone: str | None = None, **more: Any) -> Any:
    body = {"aggregate": {"name": name, "availability_zone": zone, **more}}
    return await cloud.ask("POST", PATH, body, user="admin", version="2.81")


async def made(cloud: ComputeAlone, name: str, zone: str | None = None) -> int:
    answer = await create(cloud, name, zone)
    assert answer.status == 200, answer.text
    return answer.body["aggregate"]["id"]


async def act(cloud: ComputeAlone, at: int, action: str, value: Any) -> Any:
    return await cloud.ask("POST", f"{PATH}/{at}/action", {action: value}, user="admin")


async def zone_of(cloud: ComputeAlone, host: str) -> str:
    [service] = (await cloud.get(f"/os-services?host={host}", user="admin"))["services"]
    return service["zone"]


async def test_an_aggregate_is_shown_as_each_version_has_it(cloud: ComputeAlone) -> None:
    await cloud.host("host1")
    answer = (await create(cloud, "a", "z")).body["aggregate"]
    assert set(answer) == {
        *("id", "uuid", "name", "availability_zone"),
        *("created_at", "updated_at", "deleted", "deleted_at"),
    }
    assert (await act(cloud, answer["id"], "add_host", {"host": "host1"})).status == 200
    value = {"metadata": {"ssd": "true"}}
    assert (await act(cloud, answer["id"], "set_metadata", value)).status == 200
    shown = (await cloud.get(f"{PATH}/{answer['id']}", user="admin"))["aggregate"]
    assert shown == {
        "id": answer["id"],
        "name": "a",
        "availability_zone": "z",
        "hosts": ["host1"],
        "metadata": {"ssd": "true", "availability_zone": "z"},
        "created_at": "2026-01-01T00:00:00.000000",
        "updated_at": "2026-01-01T00:00:00.000000",
        "deleted": False,
        "deleted_at": None,
    }
    listed = (await cloud.get(PATH, user="admin", version="2.41"))["aggregates"]
    assert listed == [{**shown, "uuid": answer["uuid"]}]


@pytest.mark.parametrize(
    "aggregate",
    [
        {},
        {"name": ""},
        {"name": " a"},
        {"name": "a", "availability_zone": ""},
        {"name": "a", "availability_zone": "z:host1"},
        {"name": "a", "metadata": {}},
    ],
)
async def test_a_body_that_makes_no_sense_is_400(
    cloud: ComputeAlone, aggregate: dict[str, Any]
) -> None:
    answer = await cloud.ask("POST", PATH, {"aggregate": aggregate}, user="admin")
    assert fault_of(answer)[:2] == (400, "badRequest")
    assert (await cloud.get(PATH, user="admin"))["aggregates"] == []


async def test_what_is_not_there_is_404_and_no_number_is_400(cloud: ComputeAlone) -> None:
    at = await made(cloud, "a")
    assert fault_of(await cloud.ask("GET", f"{PATH}/{at + 1}", user="admin"))[0] == 404
    assert fault_of(await cloud.ask("GET", f"{PATH}/a", user="admin"))[0] == 400
    for method in ("GET", "DELETE"):
        assert fault_of(await cloud.ask(method, f"{PATH}/-1", user="admin"))[0] == 404
    for action in ("add_host", "remove_host"):
        assert fault_of(await act(cloud, at, action, {"host": "nobody"}))[0] == 404
        assert fault_of(await act(cloud, at + 1, action, {"host": "nobody"}))[0] == 404
    await cloud.host("host1")
    assert fault_of(await act(cloud, at, "remove_host", {"host": "host1"}))[0] == 404


async def test_a_name_is_taken_once(cloud: ComputeAlone) -> None:
    at = await made(cloud, "a")
    await made(cloud, "b")
    assert fault_of(await create(cloud, "a"))[:2] == (409, "conflictingRequest")
    renamed = {"aggregate": {"name": "b"}}
    assert fault_of(await cloud.ask("PUT", f"{PATH}/{at}", renamed, user="admin"))[0] == 409
    same = {"aggregate": {"name": "a"}}
    assert (await cloud.ask("PUT", f"{PATH}/{at}", same, user="admin")).status == 200


async def test_an_aggregate_with_hosts_is_not_deleted(cloud: ComputeAlone) -> None:
    await cloud.host("host1")
    at = await made(cloud, "a")
    assert (await act(cloud, at, "add_host", {"host": "host1"})).status == 200
    assert fault_of(await act(cloud, at, "add_host", {"host": "host1"}))[0] == 409
    assert fault_of(await cloud.ask("DELETE", f"{PATH}/{at}", user="admin"))[0] == 400
    assert (await act(cloud, at, "remove_host", {"host": "host1"})).status == 200
    assert (await cloud.ask("DELETE", f"{PATH}/{at}", user="admin")).status == 200
    assert (await cloud.get(PATH, user="admin"))["aggregates"] == []


async def test_hosts_are_in_the_zone_of_their_aggregate(cloud: ComputeAlone) -> None:
    await cloud.host("host1")
    await cloud.host("host2")
    at = await made(cloud, "a", "left")
    await act(cloud, at, "add_host", {"host": "host1"})
    assert (await zone_of(cloud, "host1"), await zone_of(cloud, "host2")) == ("left", "nova")
    zones = (await cloud.get("/os-availability-zone/detail", user="admin"))["availabilityZoneInfo"]
    assert {zone["zoneName"]: list(zone["hosts"]) for zone in zones} == {
        "left": ["host1"],
        "nova": ["host2"],
        "internal": ["control-1"],
    }
    renamed = {"aggregate": {"availability_zone": "right"}}
    assert (await cloud.ask("PUT", f"{PATH}/{at}", renamed, user="admin")).status == 200
    assert await zone_of(cloud, "host1") == "right"
    await act(cloud, at, "set_metadata", {"metadata": {"availability_zone": "third"}})
    assert await zone_of(cloud, "host1") == "third"
    await act(cloud, at, "set_metadata", {"metadata": {"availability_zone": None}})
    assert await zone_of(cloud, "host1") == "nova"


async def test_a_host_is_in_one_zone_only(cloud: ComputeAlone) -> None:
    await cloud.host("host1")
    left, right = await made(cloud, "l", "left"), await made(cloud, "r", "right")
    plain = await made(cloud, "p")
    await act(cloud, left, "add_host", {"host": "host1"})
    refused = fault_of(await act(cloud, right, "add_host", {"host": "host1"}))
    assert refused[0] == 409
    assert "left and right" in refused[2]
    assert (await act(cloud, plain, "add_host", {"host": "host1"})).status == 200
    zone = {"metadata": {"availability_zone": "right"}}
    assert fault_of(await act(cloud, plain, "set_metadata", zone))[0] == 400
    shown = (await cloud.get(f"{PATH}/{right}", user="admin"))["aggregate"]
    assert (shown["hosts"], await zone_of(cloud, "host1")) == ([], "left")


async def test_the_zone_of_a_host_with_servers_stays(cloud: ComputeAlone) -> None:
    await cloud.host("host1")
    at, other = await made(cloud, "a", "left"), await made(cloud, "b", "left")
    await act(cloud, at, "add_host", {"host": "host1"})
    await cloud.server(host="host1", zone="left")
    renamed = {"aggregate": {"availability_zone": "right"}}
    answer = fault_of(await cloud.ask("PUT", f"{PATH}/{at}", renamed, user="admin"))
    assert answer[0] == 400
    assert "has servers" in answer[2]
    assert fault_of(await act(cloud, at, "remove_host", {"host": "host1"}))[0] == 409
    assert await zone_of(cloud, "host1") == "left"
    assert (await act(cloud, other, "add_host", {"host": "host1"})).status == 200
    assert (await act(cloud, at, "remove_host", {"host": "host1"})).status == 200


async def test_two_zones_that_want_a_host_at_once_do_not_both_get_it(
    any_cloud: ComputeAlone,
) -> None:
    await any_cloud.host("host1")
    ids = [await made(any_cloud, f"a{n}", f"z{n}") for n in range(4)]
    answers = await asyncio.gather(
        *(act(any_cloud, at, "add_host", {"host": "host1"}) for at in ids)
    )
    assert sorted(answer.status for answer in answers) == [200, 409, 409, 409]
    listed = (await any_cloud.get(PATH, user="admin"))["aggregates"]
    [zone] = [one["availability_zone"] for one in listed if one["hosts"]]
    assert await zone_of(any_cloud, "host1") == zone


async def test_aggregates_are_the_administrators(cloud: ComputeAlone) -> None:
    at = await made(cloud, "a")
    calls: list[tuple[str, str, Any]] = [
        ("GET", PATH, None),
        ("POST", PATH, {"aggregate": {"name": "b"}}),
        ("GET", f"{PATH}/{at}", None),
        ("PUT", f"{PATH}/{at}", {"aggregate": {"name": "b"}}),
        ("DELETE", f"{PATH}/{at}", None),
        ("POST", f"{PATH}/{at}/action", {"add_host": {"host": "h"}}),
        ("POST", f"{PATH}/{at}/action", {"set_metadata": {"metadata": {}}}),
    ]
    for method, path, body in calls:
        answer = await cloud.ask(method, path, body, user="member")
        assert fault_of(answer)[0] == 403, (method, path)


async def test_caching_images_is_refused_with_what_happens_instead(cloud: ComputeAlone) -> None:
    at = await made(cloud, "a")
    body = {"cache": [{"id": "11111111-1111-4111-8111-111111111111"}]}
    answer = await cloud.ask("POST", f"{PATH}/{at}/images", body, user="admin", version="2.81")
    assert fault_of(answer)[:2] == (501, "notImplemented")
    older = await cloud.ask("POST", f"{PATH}/{at}/images", body, user="admin", version="2.80")
    assert older.status == 404
