from __future__ import annotations

from typing import Any

import pytest

from mooring.share.locks import locking
from tests.share.cloud import UNKNOWN, ShareCloud

pytestmark = pytest.mark.anyio
_LOCKED = {"lock_visibility": True, "lock_deletion": True, "lock_reason": "Lock by nova"}


async def lock(cloud: ShareCloud, resource_id: str, user: str = "member", **more: Any) -> Any:
    body = {"resource_lock": {"resource_id": resource_id, **more}}
    return await cloud.ask("POST", "/resource-locks", body, user=user)


async def listed(cloud: ShareCloud, query: str = "", user: str = "member") -> list[Any]:
    answer = await cloud.ask("GET", f"/resource-locks{query}", user=user)
    return answer.key("resource_locks")


async def locked_rule(cloud: ShareCloud, share_id: str, user: str = "admin") -> str:
    """Let a client in as compute does, with all locks, and return the rule's id."""
    value = {"access_type": "ip", "access_to": "10.0.0.9", **_LOCKED}
    answer = await cloud.act(share_id, "allow_access", value, user=user)
    assert answer.key("access")["access_to"] == "10.0.0.9"
    await cloud.settle()
    return answer.body["access"]["id"]


async def test_a_locked_share_is_not_deleted(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    made = (await lock(cloud, share_id, lock_reason="keep")).key("resource_lock")
    assert (made["resource_type"], made["resource_action"]) == ("share", "delete")
    assert (made["lock_context"], made["lock_reason"]) == ("user", "keep")
    refused = await cloud.ask("DELETE", f"/shares/{share_id}")
    assert refused.status == 403
    assert made["id"] in refused.fault
    assert 'is locked ("keep")' in refused.fault
    assert (await cloud.act(share_id, "force_delete", user="admin")).status == 403
    path = f"/resource-locks/{made['id']}"
    body = {"resource_lock": {"lock_reason": "still"}}
    assert (await cloud.ask("PUT", path, body)).key("resource_lock")["lock_reason"] == "still"
    assert (await cloud.ask("DELETE", path)).status == 204
    assert (await cloud.ask("GET", path)).status == 404
    assert (await cloud.ask("DELETE", f"/shares/{share_id}")).status == 202
    await cloud.settle()


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"resource_id": UNKNOWN}, 400),
        ({"resource_type": "network"}, 400),
        ({"resource_action": "show"}, 400),
        ({"lock_reason": "r" * 1024}, 400),
        ({"resource_type": "access_rule"}, 400),
    ],
)
async def test_what_cannot_be_locked_is_refused(
    cloud: ShareCloud, wrong: dict[str, Any], status: int
) -> None:
    share_id = await cloud.make()
    body = {"resource_lock": {"resource_id": share_id, **wrong}}
    assert (await cloud.ask("POST", "/resource-locks", body)).status == status
    assert await listed(cloud) == []


async def test_a_rule_that_is_locked_hides_its_client_and_stays(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    rule_id = await locked_rule(cloud, share_id)
    path = f"/share-access-rules/{rule_id}"
    for answer in (
        (await cloud.ask("GET", path)).key("access"),
        (await cloud.ask("GET", f"/share-access-rules?share_id={share_id}")).key("access_list")[0],
    ):
        assert (answer["access_to"], answer["access_key"]) == ("******", "******")
    assert (await cloud.ask("GET", path, user="admin")).key("access")["access_to"] == "10.0.0.9"
    search = f"/share-access-rules?share_id={share_id}&access_type=ip&access_to=10.0.0.9"
    assert (await cloud.ask("GET", search)).key("access_list") == []
    assert len((await cloud.ask("GET", search, user="admin")).key("access_list")) == 1
    search = f"/share-access-rules?share_id={share_id}&access_key=******"
    assert (await cloud.ask("GET", search)).key("access_list") == []
    assert (await cloud.ask("DELETE", f"/shares/{share_id}")).status == 403
    for user in ("member", "admin"):
        denied = await cloud.act(share_id, "deny_access", {"access_id": rule_id}, user=user)
        assert denied.status == 403
    value = {"access_id": rule_id, "unrestrict": True}
    assert (await cloud.act(share_id, "deny_access", value)).status == 403
    assert await cloud.rules(share_id) == {"10.0.0.9": "active"}
    every = await listed(cloud, "?all_projects=1", "admin")
    assert sorted((each["resource_type"], each["resource_action"]) for each in every) == [
        ("access_rule", "delete"),
        ("access_rule", "show"),
        ("share", "delete"),
    ]
    assert (await cloud.act(share_id, "deny_access", value, user="admin")).status == 202
    assert (await cloud.ask("DELETE", f"/shares/{share_id}")).status == 403
    await cloud.settle()
    assert await listed(cloud, "?all_tenants=1", "admin") == []
    assert (await cloud.ask("DELETE", f"/shares/{share_id}")).status == 202
    await cloud.settle()


async def test_who_made_a_lock_sees_through_it_and_passes_over_it(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    rule_id = await locked_rule(cloud, share_id, "member")
    shown = (await cloud.ask("GET", f"/share-access-rules/{rule_id}")).key("access")
    assert shown["access_to"] == "10.0.0.9"
    other = (await cloud.ask("GET", f"/share-access-rules/{rule_id}", user="manager")).key("access")
    assert other["access_to"] == "******"
    value = {"access_id": rule_id, "unrestrict": True}
    assert (await cloud.act(share_id, "deny_access", value, user="manager")).status == 403
    assert (await cloud.act(share_id, "deny_access", value)).status == 202
    await cloud.settle()
    assert await listed(cloud) == []


async def test_a_visibility_lock_alone_does_not_keep_a_rule(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    value = {"access_type": "ip", "access_to": "10.0.0.9", "lock_visibility": True}
    rule_id = (await cloud.act(share_id, "allow_access", value)).key("access")["id"]
    await cloud.settle()
    assert [each["resource_action"] for each in await listed(cloud)] == ["show"]
    again = await lock(cloud, rule_id, resource_type="access_rule", resource_action="show")
    assert again.status == 409
    assert (await cloud.act(share_id, "deny_access", {"access_id": rule_id})).status == 202
    await cloud.settle()
    assert await listed(cloud) == []


async def test_locks_of_a_service_are_not_its_user_s(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    service = {"X-Service-Token": "compute"}
    body = {"resource_lock": {"resource_id": share_id}}
    answer = await cloud.ask("POST", "/resource-locks", body, headers=service)
    made = answer.key("resource_lock")
    assert (made["lock_context"], made["user_id"]) == ("service", "member")
    path = f"/resource-locks/{made['id']}"
    assert (await cloud.ask("GET", path)).status == 200
    assert (await cloud.ask("DELETE", path)).status == 403
    changes = {"resource_lock": {"lock_reason": "no"}}
    assert (await cloud.ask("PUT", path, changes)).status == 403
    assert (await cloud.ask("GET", path, user="stranger")).status == 404
    assert (await cloud.ask("DELETE", path, headers=service)).status == 204
    mine = (await lock(cloud, share_id, "admin")).key("resource_lock")
    path = f"/resource-locks/{mine['id']}"
    assert (await cloud.ask("DELETE", path, headers=service)).status == 403
    assert (await cloud.ask("DELETE", path, user="admin")).status == 204


async def test_locks_are_listed_by_what_they_say(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    first = (await lock(cloud, share_id, lock_reason="first one")).key("resource_lock")["id"]
    cloud.clock.advance(60.0)
    second = (await lock(cloud, share_id)).key("resource_lock")["id"]
    moment = (await listed(cloud))[0]["created_at"]
    for query, found in {
        "": [second, first],
        "?lock_reason~=FIRST": [first],
        f"?resource_id={UNKNOWN}": [],
        "?resource_action=delete&sort_dir=asc&sort_key=created_at": [first, second],
        f"?created_since={moment}": [second],
        "?limit=1": [second],
        "?unknown=1": [second, first],
    }.items():
        assert [each["id"] for each in await listed(cloud, query)] == found, query
    counted = await cloud.ask("GET", "/resource-locks?with_count=1&limit=1")
    assert (counted.key("count"), len(counted.key("resource_locks_links"))) == (2, 1)
    assert (await cloud.ask("GET", "/resource-locks?created_since=x")).status == 400
    assert await listed(cloud, "?all_tenants=1", "stranger") == []
    for lock_id in (first, second):
        assert (await cloud.ask("DELETE", f"/resource-locks/{lock_id}")).status == 204


async def test_a_lock_of_a_rule_takes_its_companion_along(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    rule_id = await cloud.allow(share_id)
    made = (await lock(cloud, rule_id, resource_type="access_rule")).key("resource_lock")
    assert {each["resource_type"] for each in await listed(cloud)} == {"access_rule", "share"}
    path, body = f"/resource-locks/{made['id']}", {"resource_lock": {"resource_action": "show"}}
    assert (await cloud.ask("PUT", path, body)).status == 200
    assert [each["resource_action"] for each in await listed(cloud)] == ["show"]
    assert (await cloud.ask("DELETE", f"/shares/{share_id}")).status == 202
    await cloud.settle()
    assert await listed(cloud, "?all_projects=1", "admin") == []


async def test_locks_come_with_their_microversions(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    assert (await cloud.ask("GET", "/resource-locks", version="2.80")).status == 404
    value = {"access_type": "ip", "access_to": "10.0.0.9", "lock_reason": "alone"}
    assert (await cloud.act(share_id, "allow_access", value)).status == 400
    old = await cloud.act(share_id, "allow_access", {**value, **_LOCKED}, version="2.81")
    assert old.status == 200
    await cloud.settle()
    assert await listed(cloud) == []
    rule = {"resource_id": old.body["access"]["id"], "resource_type": "access_rule"}
    answer = await cloud.ask("POST", "/resource-locks", {"resource_lock": rule}, version="2.81")
    assert answer.status == 400
    await cloud.act(share_id, "deny_access", {"access_id": rule["resource_id"]})
    answer = await cloud.ask("POST", "/resource-locks", {"resource_lock": rule})
    assert answer.status == 409
    await cloud.settle()


async def test_nobody_locks_a_thing_without_end(
    cloud: ShareCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locking, "SHARE_LOCKS", 2)
    share_id = await cloud.make()
    await locked_rule(cloud, share_id)
    body = {"resource_lock": {"resource_id": share_id, "resource_type": "share"}}
    statuses = [(await cloud.ask("POST", "/resource-locks", body)).status for _ in range(3)]
    assert statuses == [200, 200, 400]
