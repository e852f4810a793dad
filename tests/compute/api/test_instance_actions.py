from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mooring.compute.servers.api.server_views import host_id
from mooring.compute.tables import InstanceAction, InstanceActionEvent
from tests.callers import PROJECT
from tests.compute.api.cloud import ComputeAlone, fault_of

pytestmark = pytest.mark.anyio

REQUESTS = [f"req-{number:08d}-0000-4000-8000-000000000000" for number in range(3)]


async def furnish(cloud: ComputeAlone, **more: Any) -> str:
    """Write a server with three actions a second apart, the newest failed; return its id."""
    server_id = await cloud.server(**more)
    for at, request_id in enumerate(REQUESTS):
        now = cloud.clock.now() + timedelta(seconds=at)
        failed = request_id == REQUESTS[-1]
        action = {
            "id": at + 1,
            "server_id": server_id,
            "action": ("create", "stop", "start")[at],
            "request_id": request_id,
            "user_id": "member",
            "project_id": PROJECT,
            "saga_id": None,
            "message": "Error" if failed else None,
            "started_at": now,
            "updated_at": now,
        }
        event = {
            "action_id": at + 1,
            "event": "compute_start_instance",
            "host": "host1",
            "result": "Error" if failed else "Success",
            "details": "It broke." if failed else None,
            "traceback": "line 1" if failed else None,
            "started_at": now,
            "finished_at": now,
        }
        await cloud.put(InstanceAction, action)
        await cloud.put(InstanceActionEvent, event)
    return server_id


async def test_actions_are_listed_the_newest_first(cloud: ComputeAlone) -> None:
    server_id = await furnish(cloud)
    listed = (await cloud.get(f"/servers/{server_id}/os-instance-actions"))["instanceActions"]
    assert [one["request_id"] for one in listed] == REQUESTS[::-1]
    assert listed[0] == {
        "action": "start",
        "instance_uuid": server_id,
        "request_id": REQUESTS[2],
        "user_id": "member",
        "project_id": PROJECT,
        "start_time": "2026-01-01T00:00:02.000000",
        "message": "Error: It broke.",
    }
    assert [one["message"] for one in listed[1:]] == [None, None]
    path = f"/servers/{server_id}/os-instance-actions/{REQUESTS[2]}"
    shown = (await cloud.get(path, user="member"))["instanceAction"]
    assert shown["message"] == "Error: It broke."
    assert "line 1" not in str(shown)


async def test_actions_are_paged_from_258_on(cloud: ComputeAlone) -> None:
    server_id = await furnish(cloud)
    path, found = f"/servers/{server_id}/os-instance-actions?limit=2", list[str]()
    while path:
        listed = await cloud.get(path, version="2.58")
        assert all(one["updated_at"] for one in listed["instanceActions"])
        found += [one["request_id"] for one in listed["instanceActions"]]
        path = next((link["href"] for link in listed.get("links", [])), "")
    assert found == REQUESTS[::-1]


@pytest.mark.parametrize(
    ("query", "version", "found"),
    [
        ("changes-since=2026-01-01T00:00:01Z", "2.58", [2, 1]),
        ("changes-before=2026-01-01T00:00:01Z", "2.66", [1, 0]),
        ("limit=0", "2.58", []),
    ],
)
async def test_actions_are_found_by_time(
    cloud: ComputeAlone, query: str, version: str, found: list[int]
) -> None:
    server_id = await furnish(cloud)
    path = f"/servers/{server_id}/os-instance-actions?{query}"
    listed = (await cloud.get(path, version=version))["instanceActions"]
    assert [one["request_id"] for one in listed] == [REQUESTS[at] for at in found]


@pytest.mark.parametrize(
    ("query", "version"),
    [
        ("marker=nope", "2.58"),
        ("limit=x", "2.58"),
        ("changes-since=x", "2.58"),
        ("odd=1", "2.58"),
        ("changes-before=2026-01-01", "2.65"),
        ("changes-since=2026-01-02&changes-before=2026-01-01", "2.66"),
    ],
)
async def test_a_bad_query_is_400(cloud: ComputeAlone, query: str, version: str) -> None:
    server_id = await furnish(cloud)
    path = f"/servers/{server_id}/os-instance-actions?{query}"
    assert fault_of(await cloud.ask("GET", path, version=version))[0] == 400


@pytest.mark.parametrize(
    ("version", "user", "keys"),
    [
        ("2.50", "member", None),
        ("2.50", "admin", {"traceback"}),
        ("2.51", "member", set[str]()),
        ("2.62", "member", {"hostId"}),
        ("2.62", "admin", {"traceback", "hostId", "host"}),
        ("2.84", "member", {"hostId"}),
        ("2.84", "admin", {"traceback", "hostId", "host", "details"}),
    ],
)
async def test_events_show_more_to_those_who_may(
    cloud: ComputeAlone, version: str, user: str, keys: set[str] | None
) -> None:
    server_id = await furnish(cloud)
    path = f"/servers/{server_id}/os-instance-actions/{REQUESTS[2]}"
    action = (await cloud.get(path, version=version, user=user))["instanceAction"]
    if keys is None:
        assert "events" not in action
        return
    (event,) = action["events"]
    assert set(event) == {"event", "start_time", "finish_time", "result"} | keys
    assert event["result"] == "Error"
    assert event.get("hostId", host_id(PROJECT, "host1")) == host_id(PROJECT, "host1")
    assert event.get("details", "It broke.") == "It broke."


async def test_actions_of_deleted_servers_are_shown_from_221_on(cloud: ComputeAlone) -> None:
    server_id = await furnish(cloud, vm_state="deleted", deleted_at=cloud.clock.now())
    path = f"/servers/{server_id}/os-instance-actions"
    assert fault_of(await cloud.ask("GET", path, version="2.20"))[0] == 404
    assert len((await cloud.get(path, version="2.21"))["instanceActions"]) == 3


async def test_an_unknown_action_is_404(cloud: ComputeAlone) -> None:
    server_id = await furnish(cloud)
    path = f"/servers/{server_id}/os-instance-actions"
    assert fault_of(await cloud.ask("GET", f"{path}/req-nope"))[:2] == (404, "itemNotFound")
    assert fault_of(await cloud.ask("GET", path, user="stranger"))[0] == 404


async def test_a_request_leaves_its_action(cloud: ComputeAlone) -> None:
    server_id = await cloud.server()
    answer = await cloud.ask("POST", f"/servers/{server_id}/action", {"lock": None})
    request_id = answer.headers["x-openstack-request-id"]
    path = f"/servers/{server_id}/os-instance-actions/{request_id}"
    action = (await cloud.get(path, version="2.51"))["instanceAction"]
    assert (action["action"], action["events"][0]["result"]) == ("lock", "Success")
