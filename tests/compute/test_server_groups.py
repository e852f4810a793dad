"""Where servers of a group may be, also when several are made at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import Conflict
from tests.compute.yard import IMAGE, Yard

pytestmark = pytest.mark.anyio


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    opened = Yard(tmp_path, hosts=3)
    await opened.open()
    yield opened
    await opened.close()


async def make_group(yard: Yard, policy: str, **rules: Any) -> str:
    body = {"name": "web", "policy": policy, **({"rules": rules} if rules else {})}
    answer = await yard.ask("POST", "/os-server-groups", {"server_group": body})
    assert answer.status_code == 200, answer.text
    return answer.json()["server_group"]["id"]


async def post(yard: Yard, group_id: str, **more: Any) -> str:
    server = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none", **more}
    body = {"server": server, "os:scheduler_hints": {"group": group_id}}
    answer = await yard.ask("POST", "/servers", body, who="admin" if "host" in more else "member")
    assert answer.status_code == 202, answer.text
    return answer.json()["server"]["id"]


async def make(yard: Yard, group_id: str, **more: Any) -> dict[str, Any]:
    server_id = await post(yard, group_id, **more)
    await yard.settle()
    return await yard.server(server_id)


async def hosts_of(yard: Yard) -> Counter[str]:
    answer = await yard.ask("GET", "/servers/detail", who="admin")
    listed = answer.json()["servers"]
    return Counter(server["OS-EXT-SRV-ATTR:host"] or server["status"] for server in listed)


async def test_members_of_an_anti_affinity_group_are_apart(yard: Yard) -> None:
    group_id = await make_group(yard, "anti-affinity")
    for _ in range(4):
        await make(yard, group_id)
    assert await hosts_of(yard) == {"host1": 1, "host2": 1, "host3": 1, "ERROR": 1}


async def test_the_fault_names_the_group_that_keeps_every_host_from_it(yard: Yard) -> None:
    group_id = await make_group(yard, "anti-affinity")
    disable = {"host": "host3", "binary": "nova-compute"}
    await yard.ask("PUT", "/os-services/disable", disable, who="admin", version="2.1")
    for _ in range(2):
        await make(yard, group_id)
    server = await make(yard, group_id)
    assert server["status"] == "ERROR"
    assert server["fault"]["message"] == (
        "No valid host was found. 3 hosts: 2 with a member of the anti-affinity group web, "
        "1 disabled."
    )


async def test_members_that_are_made_at_once_are_apart_too(yard: Yard) -> None:
    group_id = await make_group(yard, "anti-affinity")
    await asyncio.gather(*(post(yard, group_id, name=f"s{n}") for n in range(4)))
    await yard.settle()
    assert await hosts_of(yard) == {"host1": 1, "host2": 1, "host3": 1, "ERROR": 1}


async def test_servers_of_one_request_are_apart(yard: Yard) -> None:
    group_id = await make_group(yard, "anti-affinity")
    await make(yard, group_id, min_count=3)
    assert await hosts_of(yard) == {"host1": 1, "host2": 1, "host3": 1}


async def test_a_rule_lets_several_of_an_anti_affinity_group_share_a_host(yard: Yard) -> None:
    group_id = await make_group(yard, "anti-affinity", max_server_per_host=2)
    await make(yard, group_id, min_count=6)
    assert await hosts_of(yard) == {"host1": 2, "host2": 2, "host3": 2}
    server = await make(yard, group_id)
    assert "3 with 2 members of the anti-affinity group web" in server["fault"]["message"]


async def test_members_of_an_affinity_group_are_together(yard: Yard) -> None:
    group_id = await make_group(yard, "affinity")
    first = await make(yard, group_id, host="host2")
    assert first["OS-EXT-SRV-ATTR:host"] == "host2"
    await asyncio.gather(*(post(yard, group_id, name=f"s{n}") for n in range(3)))
    await yard.settle()
    assert await hosts_of(yard) == {"host2": 4}


async def test_the_first_members_of_an_affinity_group_agree_on_a_host(yard: Yard) -> None:
    group_id = await make_group(yard, "affinity")
    await asyncio.gather(*(post(yard, group_id, name=f"s{n}") for n in range(4)))
    await yard.settle()
    assert len(await hosts_of(yard)) == 1


async def test_an_affinity_group_whose_host_is_full_gets_no_other(yard: Yard) -> None:
    group_id = await make_group(yard, "affinity")
    where = (await make(yard, group_id))["OS-EXT-SRV-ATTR:host"]
    disable = {"host": where, "binary": "nova-compute"}
    await yard.ask("PUT", "/os-services/disable", disable, who="admin", version="2.1")
    server = await make(yard, group_id)
    assert "2 without the other members of the affinity group web" in server["fault"]["message"]


@pytest.mark.parametrize(
    ("policy", "hosts"), [("soft-affinity", [4]), ("soft-anti-affinity", [1, 1, 2])]
)
async def test_soft_policies_are_kept_where_they_can_be(
    yard: Yard, policy: str, hosts: list[int]
) -> None:
    group_id = await make_group(yard, policy)
    for _ in range(4):
        assert (await make(yard, group_id))["status"] == "ACTIVE"
    assert sorted((await hosts_of(yard)).values()) == hosts


async def test_a_member_that_failed_keeps_no_host_from_the_others(yard: Yard) -> None:
    group_id = await make_group(yard, "anti-affinity")
    yard.hypervisor("host2").knobs.fail("define", Conflict("No."))
    assert (await make(yard, group_id, host="host2"))["status"] == "ERROR"
    await make(yard, group_id, min_count=3)
    assert await hosts_of(yard) == {"host1": 1, "host2": 1, "host3": 1, "ERROR": 1}


async def test_a_deleted_member_leaves_its_group_and_its_host(yard: Yard) -> None:
    group_id = await make_group(yard, "anti-affinity")
    await make(yard, group_id, min_count=3)
    gone = (await yard.ask("GET", "/servers")).json()["servers"][0]["id"]
    await yard.ask("DELETE", f"/servers/{gone}")
    await yard.settle()
    group = (await yard.ask("GET", f"/os-server-groups/{group_id}")).json()["server_group"]
    assert len(group["members"]) == 2
    assert gone not in group["members"]
    assert (await make(yard, group_id))["status"] == "ACTIVE"


async def test_a_server_shows_its_group_and_the_group_its_servers(yard: Yard) -> None:
    group_id = await make_group(yard, "affinity")
    server = await make(yard, group_id)
    assert server["server_groups"] == [group_id]
    assert server["scheduler_hints"] == {"group": group_id}
    group = (await yard.ask("GET", f"/os-server-groups/{group_id}")).json()["server_group"]
    assert group["members"] == [server["id"]]
    assert (await yard.ask("DELETE", f"/os-server-groups/{group_id}")).status_code == 204
    assert (await yard.server(server["id"]))["server_groups"] == []


@pytest.mark.parametrize(
    "group", ["11111111-2222-4333-8444-555555555555", "web", ["11111111"], None]
)
async def test_a_group_that_is_not_there_is_400_and_nothing_is_made(yard: Yard, group: Any) -> None:
    server = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}
    body = {"server": server, "os:scheduler_hints": {"group": group}}
    assert (await yard.ask("POST", "/servers", body)).status_code == 400
    assert (await yard.ask("GET", "/servers")).json()["servers"] == []


async def test_more_members_than_the_quota_allows_are_403(yard: Yard) -> None:
    group_id = await make_group(yard, "soft-affinity")
    project = (await yard.ask("GET", f"/os-server-groups/{group_id}")).json()["server_group"]
    path, limit = f"/os-quota-sets/{project['project_id']}", {"server_group_members": 2}
    await yard.ask("PUT", path, {"quota_set": limit}, who="admin")
    await make(yard, group_id, min_count=2)
    server = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}
    body = {"server": server, "os:scheduler_hints": {"group": group_id}}
    answer = await yard.ask("POST", "/servers", body)
    assert answer.status_code == 403
    assert "too many servers in group" in answer.text
    assert len((await yard.ask("GET", "/servers")).json()["servers"]) == 2
