"""Aggregates and zones through the API: shapes, codes, and the zones that hosts get."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.compute.api.desk import Desk, fault_of

pytestmark = pytest.mark.anyio

PATH = "/os-aggregates"


async def create(desk: Desk, name: str, zone: str | None = None, **more: Any) -> Any:
    body = {"aggregate": {"name": name, "availability_zone": zone, **more}}
    return await desk.ask("POST", PATH, body, who="admin", version="2.81")


async def made(desk: Desk, name: str, zone: str | None = None) -> int:
    answer = await create(desk, name, zone)
    assert answer.status_code == 200, answer.text
    return answer.json()["aggregate"]["id"]


async def act(desk: Desk, at: int, action: str, value: Any) -> Any:
    return await desk.ask("POST", f"{PATH}/{at}/action", {action: value}, who="admin")


async def zone_of(desk: Desk, host: str) -> str:
    [service] = (await desk.get(f"/os-services?host={host}", who="admin"))["services"]
    return service["zone"]


async def test_an_aggregate_is_shown_as_each_version_has_it(desk: Desk) -> None:
    await desk.host("host1")
    answer = (await create(desk, "a", "z")).json()["aggregate"]
    assert set(answer) == {
        *("id", "uuid", "name", "availability_zone"),
        *("created_at", "updated_at", "deleted", "deleted_at"),
    }
    assert (await act(desk, answer["id"], "add_host", {"host": "host1"})).status_code == 200
    value = {"metadata": {"ssd": "true"}}
    assert (await act(desk, answer["id"], "set_metadata", value)).status_code == 200
    shown = (await desk.get(f"{PATH}/{answer['id']}", who="admin"))["aggregate"]
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
    listed = (await desk.get(PATH, who="admin", version="2.41"))["aggregates"]
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
async def test_a_body_that_makes_no_sense_is_400(desk: Desk, aggregate: dict[str, Any]) -> None:
    answer = await desk.ask("POST", PATH, {"aggregate": aggregate}, who="admin")
    assert fault_of(answer)[:2] == (400, "badRequest")
    assert (await desk.get(PATH, who="admin"))["aggregates"] == []


async def test_what_is_not_there_is_404_and_no_number_is_400(desk: Desk) -> None:
    at = await made(desk, "a")
    assert fault_of(await desk.ask("GET", f"{PATH}/{at + 1}", who="admin"))[0] == 404
    assert fault_of(await desk.ask("GET", f"{PATH}/a", who="admin"))[0] == 400
    for action in ("add_host", "remove_host"):
        assert fault_of(await act(desk, at, action, {"host": "nobody"}))[0] == 404
        assert fault_of(await act(desk, at + 1, action, {"host": "nobody"}))[0] == 404
    await desk.host("host1")
    assert fault_of(await act(desk, at, "remove_host", {"host": "host1"}))[0] == 404


async def test_a_name_is_taken_once(desk: Desk) -> None:
    at = await made(desk, "a")
    await made(desk, "b")
    assert fault_of(await create(desk, "a"))[:2] == (409, "conflictingRequest")
    renamed = {"aggregate": {"name": "b"}}
    assert fault_of(await desk.ask("PUT", f"{PATH}/{at}", renamed, who="admin"))[0] == 409
    same = {"aggregate": {"name": "a"}}
    assert (await desk.ask("PUT", f"{PATH}/{at}", same, who="admin")).status_code == 200


async def test_an_aggregate_with_hosts_is_not_deleted(desk: Desk) -> None:
    await desk.host("host1")
    at = await made(desk, "a")
    assert (await act(desk, at, "add_host", {"host": "host1"})).status_code == 200
    assert fault_of(await act(desk, at, "add_host", {"host": "host1"}))[0] == 409
    assert fault_of(await desk.ask("DELETE", f"{PATH}/{at}", who="admin"))[0] == 400
    assert (await act(desk, at, "remove_host", {"host": "host1"})).status_code == 200
    assert (await desk.ask("DELETE", f"{PATH}/{at}", who="admin")).status_code == 200
    assert (await desk.get(PATH, who="admin"))["aggregates"] == []


async def test_hosts_are_in_the_zone_of_their_aggregate(desk: Desk) -> None:
    await desk.host("host1")
    await desk.host("host2")
    at = await made(desk, "a", "left")
    await act(desk, at, "add_host", {"host": "host1"})
    assert (await zone_of(desk, "host1"), await zone_of(desk, "host2")) == ("left", "nova")
    zones = (await desk.get("/os-availability-zone/detail", who="admin"))["availabilityZoneInfo"]
    assert {zone["zoneName"]: list(zone["hosts"]) for zone in zones} == {
        "left": ["host1"],
        "nova": ["host2"],
    }
    renamed = {"aggregate": {"availability_zone": "right"}}
    assert (await desk.ask("PUT", f"{PATH}/{at}", renamed, who="admin")).status_code == 200
    assert await zone_of(desk, "host1") == "right"
    await act(desk, at, "set_metadata", {"metadata": {"availability_zone": "third"}})
    assert await zone_of(desk, "host1") == "third"
    await act(desk, at, "set_metadata", {"metadata": {"availability_zone": None}})
    assert await zone_of(desk, "host1") == "nova"


async def test_a_host_is_in_one_zone_only(desk: Desk) -> None:
    await desk.host("host1")
    left, right = await made(desk, "l", "left"), await made(desk, "r", "right")
    plain = await made(desk, "p")
    await act(desk, left, "add_host", {"host": "host1"})
    refused = fault_of(await act(desk, right, "add_host", {"host": "host1"}))
    assert refused[0] == 409
    assert "left and right" in refused[2]
    assert (await act(desk, plain, "add_host", {"host": "host1"})).status_code == 200
    zone = {"metadata": {"availability_zone": "right"}}
    assert fault_of(await act(desk, plain, "set_metadata", zone))[0] == 400
    shown = (await desk.get(f"{PATH}/{right}", who="admin"))["aggregate"]
    assert (shown["hosts"], await zone_of(desk, "host1")) == ([], "left")


async def test_the_zone_of_a_host_with_servers_stays(desk: Desk) -> None:
    await desk.host("host1")
    at, other = await made(desk, "a", "left"), await made(desk, "b", "left")
    await act(desk, at, "add_host", {"host": "host1"})
    await desk.server(host="host1", zone="left")
    renamed = {"aggregate": {"availability_zone": "right"}}
    answer = fault_of(await desk.ask("PUT", f"{PATH}/{at}", renamed, who="admin"))
    assert answer[0] == 400
    assert "has servers" in answer[2]
    assert fault_of(await act(desk, at, "remove_host", {"host": "host1"}))[0] == 409
    assert await zone_of(desk, "host1") == "left"
    assert (await act(desk, other, "add_host", {"host": "host1"})).status_code == 200
    assert (await act(desk, at, "remove_host", {"host": "host1"})).status_code == 200


async def test_two_zones_that_want_a_host_at_once_do_not_both_get_it(any_desk: Desk) -> None:
    await any_desk.host("host1")
    ids = [await made(any_desk, f"a{n}", f"z{n}") for n in range(4)]
    answers = await asyncio.gather(
        *(act(any_desk, at, "add_host", {"host": "host1"}) for at in ids)
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
    listed = (await any_desk.get(PATH, who="admin"))["aggregates"]
    [zone] = [one["availability_zone"] for one in listed if one["hosts"]]
    assert await zone_of(any_desk, "host1") == zone


async def test_aggregates_are_the_administrators(desk: Desk) -> None:
    at = await made(desk, "a")
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
        answer = await desk.ask(method, path, body, who="member")
        assert fault_of(answer)[0] == 403, (method, path)


async def test_caching_images_is_refused_with_what_happens_instead(desk: Desk) -> None:
    at = await made(desk, "a")
    body = {"cache": [{"id": "11111111-1111-4111-8111-111111111111"}]}
    answer = await desk.ask("POST", f"{PATH}/{at}/images", body, who="admin", version="2.81")
    assert fault_of(answer)[:2] == (501, "notImplemented")
    older = await desk.ask("POST", f"{PATH}/{at}/images", body, who="admin", version="2.80")
    assert older.status_code == 404
