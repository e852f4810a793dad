from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.callers import OTHER_PROJECT, PROJECT
from tests.share.cloud import ShareCloud

pytestmark = pytest.mark.anyio
PATH = f"/quota-sets/{PROJECT}"


async def limit(cloud: ShareCloud, query: str = "", **limits: Any) -> Any:
    return await cloud.ask("PUT", f"{PATH}{query}", {"quota_set": limits}, user="admin")


async def create(cloud: ShareCloud, size: int = 1, **fields: Any) -> Any:
    body = {"share": {"size": size, "share_proto": "NFS", **fields}}
    return await cloud.ask("POST", "/shares", body)


@pytest.mark.parametrize(
    ("name", "value"), [("shares", 0), ("gigabytes", 3), ("per_share_gigabytes", 3)]
)
async def test_too_much_is_refused(cloud: ShareCloud, name: str, value: int) -> None:
    limits: dict[str, Any] = {name: value}
    assert (await limit(cloud, **limits)).status == 200
    answer = await create(cloud, 4)
    assert (answer.status, answer.headers["retry-after"]) == (413, "0")
    assert (await cloud.ask("GET", "/shares")).key("shares") == []


async def test_a_user_and_a_type_have_limits_of_their_own(cloud: ShareCloud) -> None:
    assert (await limit(cloud, "?user_id=member", shares=1)).status == 200
    await cloud.make()
    assert (await create(cloud)).status == 413
    assert (await limit(cloud, "?user_id=member", shares=51)).status == 400
    await cloud.ask("DELETE", f"{PATH}?user_id=member", user="admin")
    assert (await limit(cloud, "?share_type=__DEFAULT__", gigabytes=3)).status == 200
    assert (await create(cloud, 3)).status == 413
    shown = await cloud.ask("GET", f"{PATH}?share_type=__DEFAULT__")
    assert shown.key("quota_set")["gigabytes"] == 3
    assert "share_networks" not in shown.key("quota_set")
    both = await cloud.ask("GET", f"{PATH}?share_type=__DEFAULT__&user_id=member")
    assert both.status == 400
    assert (await limit(cloud, "?share_type=__DEFAULT__", share_groups=3)).status == 400


async def test_of_many_at_once_as_many_are_made_as_fit(cloud: ShareCloud) -> None:
    await limit(cloud, gigabytes=6)
    codes = [answer.status for answer in await asyncio.gather(*(create(cloud, 2) for _ in "12345"))]
    assert sorted(codes) == [200] * 3 + [413] * 2
    await cloud.settle()


async def test_what_is_in_error_counts_until_it_is_gone(cloud: ShareCloud) -> None:
    await limit(cloud, shares=1)
    share_id = await cloud.make(size=500)
    assert await cloud.status(share_id) == "error"
    assert (await create(cloud)).status == 413
    await cloud.ask("DELETE", f"/shares/{share_id}")
    await cloud.settle()
    await cloud.make()


async def test_snapshots_have_a_quota(cloud: ShareCloud) -> None:
    share_id = await cloud.make(size=2)
    await limit(cloud, snapshot_gigabytes=3)
    await cloud.snapshot(share_id)
    answer = await cloud.ask("POST", "/snapshots", {"snapshot": {"share_id": share_id}})
    assert answer.status == 413
    assert await cloud.usage("snapshot_gigabytes") == {"limit": 3, "in_use": 2, "reserved": 0}
    assert (await cloud.usage("snapshots"))["in_use"] == 1


async def test_quota_sets_show_limits_and_defaults(cloud: ShareCloud) -> None:
    await cloud.make(size=7)
    changed = await limit(cloud, shares="20", tenant_id=PROJECT)
    assert "id" not in changed.key("quota_set")
    shown = (await cloud.ask("GET", PATH, user="reader")).key("quota_set")
    assert (shown["id"], shown["shares"], shown["gigabytes"]) == (PROJECT, 20, 1000)
    assert "share_replicas" not in (await cloud.ask("GET", PATH, version="2.52")).key("quota_set")
    old = await cloud.ask("GET", f"/os-quota-sets/{PROJECT}", version="2.6")
    assert old.key("quota_set")["shares"] == 20
    defaults = (await cloud.ask("GET", f"{PATH}/defaults")).key("quota_set")
    assert (defaults["shares"], defaults["snapshots"]) == (50, 50)
    assert (await limit(cloud, gigabytes=6)).status == 400
    assert (await limit(cloud, gigabytes=6, force=True)).status == 200
    assert (await limit(cloud, nothing=1)).status == 400
    assert (await cloud.ask("DELETE", PATH)).status == 403
    assert (await cloud.ask("DELETE", PATH, user="admin")).status == 202
    assert (await cloud.ask("GET", PATH)).key("quota_set")["shares"] == 50
    assert (await cloud.ask("GET", f"/quota-sets/{OTHER_PROJECT}")).status == 403


async def test_a_class_and_the_limits(cloud: ShareCloud) -> None:
    path, body = "/quota-class-sets/default", {"quota_class_set": {"shares": 7}}
    assert (await cloud.ask("PUT", path, body)).status == 403
    assert (await cloud.ask("PUT", path, body, user="admin")).status == 200
    assert (await cloud.ask("GET", path, user="admin")).key("quota_class_set")["shares"] == 7
    await cloud.make(size=2)
    absolute = (await cloud.ask("GET", "/limits")).key("limits")["absolute"]
    assert (absolute["maxTotalShares"], absolute["totalSharesUsed"]) == (7, 1)
    assert absolute["totalShareGigabytesUsed"] == 2
