"""Where servers of a group may be, also when several are made at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import Conflict
from tests.compute.cloud import IMAGE, ComputeCloud

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[ComputeCloud]:
    async with ComputeCloud(tmp_path, hosts=("host1", "host2", "host3")) as opened:
        yield opened


async def make_group(cloud: ComputeCloud, policy: str, **rules: Any) -> str:
    body = {"name": "web", "policy": policy, **({"rules": rules} if rules else {})}
    answer = await cloud.ask("POST", "/os-server-groups", {"server_group": body})
    assert answer.status == 200, answer.text
    return answer.body["server_group"]["id"]


async def post(cloud: ComputeCloud, group_id: str, **more: Any) -> str:
    server = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none", **more}
    body = {"server": server, "os:scheduler_hints": {"group": group_id}}
    answer = await cloud.ask("POST", "/servers", body, user="admin" if "host" in more else "member")
    assert answer.status == 202, answer.text
    return answer.body["server"]["id"]


async def make(cloud: ComputeCloud, group_id: str, **more: Any) -> dict[str, Any]:
    server_id = await post(cloud, group_id, **more)
    await cloud.settle()
    return await cloud.server(server_id)


async def hosts_of(cloud: ComputeCloud) -> Counter[str]:
    answer = await cloud.ask("GET", "/servers/detail", user="admin")
    listed = answer.body["servers"]
    return Counter(server["OS-EXT-SRV-ATTR:host"] or server["status"] for server in listed)


async def test_members_of_an_anti_affinity_group_are_apart(cloud: ComputeCloud) -> None:
    group_id = await make_group(cloud, "anti-affinity")
    for _ in range(4):
        await make(cloud, group_id)
    assert await hosts_of(cloud) == {"host1": 1, "host2": 1, "host3": 1, "ERROR": 1}


async def test_the_fault_names_the_group_that_keeps_every_host_from_it(cloud: ComputeCloud) -> None:
    group_id = await make_group(cloud, "anti-affinity")
    disable = {"host": "host3", "binary": "nova-compute"}
    await cloud.ask("PUT", "/os-services/disable", disable, user="admin", version="2.1")
    for _ in range(2):
        await make(cloud, group_id)
    server = await make(cloud, group_id)
    assert server["status"] == "ERROR"
    assert server["fault"]["message"] == (
        "No valid host was found. 3 hosts: 2 with a member of the anti-affinity group web, "
        "1 disabled."
    )


async def test_members_that_are_made_at_once_are_apart_too(cloud: ComputeCloud) -> None:
    group_id = await make_group(cloud, "anti-affinity")
    await asyncio.gather(*(post(cloud, group_id, name=f"s{n}") for n in range(4)))
    await cloud.settle()
    assert await hosts_of(cloud) == {"host1": 1, "host2": 1, "host3": 1, "ERROR": 1}


async def test_servers_of_one_request_are_apart(cloud: ComputeCloud) -> None:
    group_id = await make_group(cloud, "anti-affinity")
    await make(cloud, group_id, min_count=3)
    assert await hosts_of(cloud) == {"host1": 1, "host2": 1, "host3": 1}


async def test_a_rule_lets_several_of_an_anti_affinity_group_share_a_host(
    cloud: ComputeCloud,
) -> None:
    group_id = await make_group(cloud, "anti-affinity", max_server_per_host=2)
    await make(cloud, group_id, min_count=6)
    assert await hosts_of(cloud) == {"host1": 2, "host2": 2, "host3": 2}
    server = await make(cloud, group_id)
    assert "3 with 2 members of the anti-affinity group web" in server["fault"]["message"]


async def test_members_of_an_affinity_group_are_together(cloud: ComputeCloud) -> None:
    group_id = await make_group(cloud, "affinity")
    first = await make(cloud, group_id, host="host2")
    assert first["OS-EXT-SRV-ATTR:host"] == "host2"
    await asyncio.gather(*(post(cloud, group_id, name=f"s{n}") for n in range(3)))
    await cloud.settle()
    assert await hosts_of(cloud) == {"host2": 4}


async def test_the_first_members_of_an_affinity_group_agree_on_a_host(cloud: ComputeCloud) -> None:
    group_id = await make_group(cloud, "affinity")
    await asyncio.gather(*(post(cloud, group_id, name=f"s{n}") for n in range(4)))
    await cloud.settle()
    assert len(await hosts_of(cloud)) == 1


async def test_an_affinity_group_whose_host_is_full_gets_no_other(cloud: ComputeCloud) -> None:
    group_id = await make_group(cloud, "affinity")
    where = (await make(cloud, group_id))["OS-EXT-SRV-ATTR:host"]
    disable = {"host": where, "binary": "nova-compute"}
    await cloud.ask("PUT", "/os-services/disable", disable, user="admin", version="2.1")
    server = await make(cloud, group_id)
    assert "2 without the other members of the affinity group web" in server["fault"]["message"]


@pytest.mark.parametrize(
    ("policy", "hosts"), [("soft-affinity", [4]), ("soft-anti-affinity", [1, 1, 2])]
)
async def test_soft_policies_are_kept_where_they_can_be(
    cloud: ComputeCloud, policy: str, hosts: list[int]
) -> None:
    group_id = await make_group(cloud, policy)
    for _ in range(4):
        assert (await make(cloud, group_id))["status"] == "ACTIVE"
    assert sorted((await hosts_of(cloud)).values()) == hosts


async def test_a_member_that_failed_keeps_no_host_from_the_others(cloud: ComputeCloud) -> None:
    group_id = await make_group(cloud, "anti-affinity")
    cloud.hypervisor("host2").knobs.fail("define", Conflict("No."))
    assert (await make(cloud, group_id, host="host2"))["status"] == "ERROR"
    await make(cloud, group_id, min_count=3)
    assert await hosts_of(cloud) == {"host1": 1, "host2": 1, "host3": 1, "ERROR": 1}


async def test_a_deleted_member_leaves_its_group_and_its_host(cloud: ComputeCloud) -> None:
    group_id = await make_group(cloud, "anti-affinity")
    await make(cloud, group_id, min_count=3)
    gone = (await cloud.ask("GET", "/servers")).body["servers"][0]["id"]
    await cloud.ask("DELETE", f"/servers/{gone}")
    await cloud.settle()
    group = (await cloud.ask("GET", f"/os-server-groups/{group_id}")).body["server_group"]
    assert len(group["members"]) == 2
    assert gone not in group["members"]
    assert (await make(cloud, group_id))["status"] == "ACTIVE"


async def test_a_server_shows_its_group_and_the_group_its_servers(cloud: ComputeCloud) -> None:
    group_id = await make_group(cloud, "affinity")
    server = await make(cloud, group_id)
    assert server["server_groups"] == [group_id]
    assert server["scheduler_hints"] == {"group": group_id}
    group = (await cloud.ask("GET", f"/os-server-groups/{group_id}")).body["server_group"]
    assert group["members"] == [server["id"]]
    assert (await cloud.ask("DELETE", f"/os-server-groups/{group_id}")).status == 204
    assert (await cloud.server(server["id"]))["server_groups"] == []


@pytest.mark.parametrize(
    "group", ["11111111-2222-4333-8444-555555555555", "web", ["11111111"], None]
)
async def test_a_group_that_is_not_there_is_400_and_nothing_is_made(
    cloud: ComputeCloud, group: Any
) -> None:
    server = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}
    body = {"server": server, "os:scheduler_hints": {"group": group}}
    assert (await cloud.ask("POST", "/servers", body)).status == 400
    assert (await cloud.ask("GET", "/servers")).body["servers"] == []


async def test_more_members_than_the_quota_allows_are_403(cloud: ComputeCloud) -> None:
    group_id = await make_group(cloud, "soft-affinity")
    project = (await cloud.ask("GET", f"/os-server-groups/{group_id}")).body["server_group"]
    path, limit = f"/os-quota-sets/{project['project_id']}", {"server_group_members": 2}
    await cloud.ask("PUT", path, {"quota_set": limit}, user="admin")
    await make(cloud, group_id, min_count=2)
    server = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}
    body = {"server": server, "os:scheduler_hints": {"group": group_id}}
    answer = await cloud.ask("POST", "/servers", body)
    assert answer.status == 403
    assert "too many servers in group" in answer.text
    assert len((await cloud.ask("GET", "/servers")).body["servers"]) == 2


@pytest.mark.parametrize("word", ["confirmResize", "revertResize"])
async def test_no_member_joins_an_affinity_group_whose_only_one_may_still_go_back(
    cloud: ComputeCloud, word: str
) -> None:
    group_id = await make_group(cloud, "affinity")
    first = (await make(cloud, group_id))["id"]
    assert await cloud.act(first, "migrate", None, user="admin") == 202
    await cloud.settle()
    assert (await cloud.server(first))["status"] == "VERIFY_RESIZE"
    refused = await make(cloud, group_id)
    assert refused["status"] == "ERROR"
    assert refused["fault"]["message"].endswith(
        "2 while a move in the affinity group web is not over or confirmed, "
        "1 without the other members of the affinity group web."
    )
    await cloud.ask("DELETE", f"/servers/{refused['id']}")
    assert await cloud.act(first, word) in {202, 204}
    await cloud.settle()
    assert (await make(cloud, group_id))["status"] == "ACTIVE"
    assert len(await hosts_of(cloud)) == 1
