"""Server groups through the API: their shapes in each version, who sees them, what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.compute.groups import affinity
from mooring.compute.tables import ServerGroupMember
from tests.callers import PROJECT
from tests.compute.api.cloud import ComputeAlone, fault_of

pytestmark = pytest.mark.anyio

PATH = "/os-server-groups"


async def create(cloud: ComputeAlone, version: str = "2.64", **group: Any) -> dict[str, Any]:
    answer = await cloud.ask("POST", PATH, {"server_group": group}, version=version)
    assert answer.status == 200, answer.text
    return answer.body["server_group"]


async def test_a_group_is_shown_as_each_version_has_it(cloud: ComputeAlone) -> None:
    old = await create(cloud, "2.12", name="old", policies=["affinity"])
    assert old == {
        "id": old["id"],
        "name": "old",
        "members": [],
        "metadata": {},
        "policies": ["affinity"],
    }
    shown = (await cloud.get(f"{PATH}/{old['id']}", version="2.13"))["server_group"]
    assert shown == {**old, "project_id": PROJECT, "user_id": shown["user_id"]}
    new = await create(cloud, name="n", policy="anti-affinity", rules={"max_server_per_host": "3"})
    assert (new["policy"], new["rules"]) == ("anti-affinity", {"max_server_per_host": 3})
    assert not {"policies", "metadata"} & set(new)
    listed = (await cloud.get(PATH, version="2.64"))["server_groups"]
    assert [group["name"] for group in listed] == ["old", "n"]
    assert listed[0]["rules"] == {}


@pytest.mark.parametrize(
    ("version", "group"),
    [
        ("2.1", {"name": "g"}),
        ("2.1", {"name": "g", "policies": []}),
        ("2.1", {"name": "g", "policies": ["affinity", "anti-affinity"]}),
        ("2.1", {"name": "g", "policies": ["soft-affinity"]}),
        ("2.14", {"name": "g", "policies": ["soft-anti-affinity"]}),
        ("2.63", {"name": "g", "policy": "affinity"}),
        ("2.64", {"name": "g", "policies": ["affinity"]}),
        ("2.64", {"name": "g"}),
        ("2.64", {"name": "g", "policy": "apart"}),
        ("2.64", {"name": "", "policy": "affinity"}),
        ("2.64", {"name": " g", "policy": "affinity"}),
        ("2.64", {"name": "g", "policy": "affinity", "rules": {"max_server_per_host": 2}}),
        ("2.64", {"name": "g", "policy": "anti-affinity", "rules": {"max_server_per_host": 0}}),
        ("2.64", {"name": "g", "policy": "anti-affinity", "rules": {"most": 2}}),
    ],
)
async def test_a_body_that_makes_no_sense_is_400(
    cloud: ComputeAlone, version: str, group: dict[str, Any]
) -> None:
    answer = await cloud.ask("POST", PATH, {"server_group": group}, version=version)
    assert fault_of(answer)[:2] == (400, "badRequest")
    assert (await cloud.get(PATH))["server_groups"] == []


async def test_soft_policies_came_with_215(cloud: ComputeAlone) -> None:
    made = await create(cloud, "2.15", name="g", policies=["soft-affinity"])
    assert made["policies"] == ["soft-affinity"]


async def test_a_group_is_its_projects_own(cloud: ComputeAlone) -> None:
    made = await create(cloud, name="g", policy="affinity")
    path = f"{PATH}/{made['id']}"
    for method in ("GET", "DELETE"):
        assert fault_of(await cloud.ask(method, path, user="stranger"))[0] == 404
    assert fault_of(await cloud.ask("DELETE", path, user="reader"))[0] == 403
    body = {"server_group": {"name": "g", "policies": ["affinity"]}}
    assert fault_of(await cloud.ask("POST", PATH, body, user="reader"))[0] == 403
    assert (await cloud.get(path, user="reader"))["server_group"]["name"] == "g"
    assert (await cloud.ask("DELETE", path)).status == 204
    assert fault_of(await cloud.ask("GET", path))[0] == 404


async def test_only_administrators_list_the_groups_of_all_projects(cloud: ComputeAlone) -> None:
    await create(cloud, name="g", policy="affinity")
    body = {"server_group": {"name": "theirs", "policies": ["affinity"]}}
    assert (await cloud.ask("POST", PATH, body, user="stranger")).status == 200

    async def names(query: str, user: str) -> list[str]:
        listed = await cloud.get(f"{PATH}{query}", user=user, version="2.64")
        return [group["name"] for group in listed["server_groups"]]

    assert await names("?all_projects=true", "admin") == ["g", "theirs"]
    assert await names("?all_projects=true&limit=1&offset=1", "admin") == ["theirs"]
    assert await names("?all_projects=true", "stranger") == ["theirs"]
    assert await names("?all_projects=false", "stranger") == ["theirs"]


async def test_a_project_has_as_many_groups_as_its_quota_allows(any_cloud: ComputeAlone) -> None:
    path = f"/os-quota-sets/{PROJECT}"
    limit = {"quota_set": {"server_groups": 3}}
    assert (await any_cloud.ask("PUT", path, limit, user="admin")).status == 200
    body = {"server_group": {"name": "g", "policies": ["affinity"]}}
    answers = await asyncio.gather(*(any_cloud.ask("POST", PATH, body) for _ in range(6)))
    assert sorted(answer.status for answer in answers) == [200] * 3 + [403] * 3
    limits = (await any_cloud.get("/limits"))["limits"]["absolute"]
    assert (limits["maxServerGroups"], limits["totalServerGroupsUsed"]) == (3, 3)
    detail = (await any_cloud.get(f"{path}/detail", version="2.64"))["quota_set"]
    assert detail["server_groups"] == {"limit": 3, "in_use": 3, "reserved": 0}


async def test_of_members_that_hurry_to_one_host_as_many_get_there_as_may(
    any_cloud: ComputeAlone,
) -> None:
    rules = {"max_server_per_host": 2}
    made = await create(any_cloud, name="g", policy="anti-affinity", rules=rules)
    servers = [await any_cloud.server() for _ in range(8)]
    rows = [{"server_id": each, "group_id": made["id"], "bound_for": None} for each in servers]
    await any_cloud.put(ServerGroupMember, *rows)
    store = any_cloud.compute.store
    found = await asyncio.gather(
        *(
            store.write(lambda tx, each=each: affinity.take_place(tx, made["id"], each, "host1"))
            for each in servers
        )
    )
    assert sum(found) == 2
    await store.write(lambda tx: affinity.leave_place(tx, servers[found.index(True)]))
    late = servers[found.index(False)]
    assert await store.write(lambda tx: affinity.take_place(tx, made["id"], late, "host1"))
