"""GET /servers: filters, order and pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import Engine, event

from mooring import limits
from mooring.compute.tables import ServerTag
from tests.callers import OTHER_PROJECT
from tests.compute.api.cloud import IMAGE, URL, ComputeAlone, fault_of

pytestmark = pytest.mark.anyio


async def names(
    cloud: ComputeAlone, query: str, *, version: str = "2.1", user: str = "member"
) -> list[str]:
    listed = await cloud.get(f"/servers{query}", version=version, user=user)
    return [server["name"] for server in listed["servers"]]


async def refuse(
    cloud: ComputeAlone, query: str, *, version: str = "2.1", user: str = "member"
) -> Any:
    answer = await cloud.ask("GET", f"/servers{query}", version=version, user=user)
    return fault_of(answer)[:2]


async def write(cloud: ComputeAlone, *rows: dict[str, Any]) -> list[str]:
    """Write servers, each a second younger than the one before."""
    ids: list[str] = []
    for at, row in enumerate(rows):
        now = cloud.clock.now() + timedelta(seconds=at)
        ids.append(await cloud.server(created_at=now, updated_at=now, **row))
    return ids


async def test_the_newest_comes_first(cloud: ComputeAlone) -> None:
    await write(cloud, {"name": "a"}, {"name": "b"}, {"name": "c"})
    assert await names(cloud, "") == ["c", "b", "a"]


async def test_a_project_sees_its_own(cloud: ComputeAlone) -> None:
    await write(cloud, {"name": "mine"}, {"name": "theirs", "project_id": OTHER_PROJECT})
    assert await names(cloud, "") == ["mine"]
    assert await names(cloud, "", user="stranger") == ["theirs"]
    assert await names(cloud, "", user="admin") == ["mine"]


@pytest.mark.parametrize("word", ["1", "true", "True", ""])
async def test_all_projects_are_for_administrators(cloud: ComputeAlone, word: str) -> None:
    await write(cloud, {"name": "mine"}, {"name": "theirs", "project_id": OTHER_PROJECT})
    assert await names(cloud, f"?all_tenants={word}", user="admin") == ["theirs", "mine"]
    assert await refuse(cloud, f"?all_tenants={word}") == (403, "forbidden")


async def test_an_administrator_may_name_a_project(cloud: ComputeAlone) -> None:
    await write(cloud, {"name": "mine"}, {"name": "theirs", "project_id": OTHER_PROJECT})
    query = f"?all_tenants=1&project_id={OTHER_PROJECT}"
    assert await names(cloud, query, user="admin") == ["theirs"]
    query = f"?all_tenants=&tenant_id={OTHER_PROJECT}"
    assert await names(cloud, query, user="admin") == ["theirs"]


async def test_a_project_that_is_named_alone_makes_no_difference(cloud: ComputeAlone) -> None:
    """facts/compute.md 10.1: project_id and tenant_id go with all_tenants."""
    await write(cloud, {"name": "mine"}, {"name": "theirs", "project_id": OTHER_PROJECT})
    for key in ("project_id", "tenant_id"):
        assert await names(cloud, f"?{key}={OTHER_PROJECT}", user="admin") == ["mine"]
    assert await names(cloud, f"?tenant_id={OTHER_PROJECT}") == ["mine"]


async def test_pages_follow_their_links_to_the_end(cloud: ComputeAlone) -> None:
    await write(cloud, *({"name": f"s{at}"} for at in range(5)))
    path, found = "/servers?limit=2&sort_key=display_name&sort_dir=asc", list[str]()
    while path:
        listed = await cloud.get(path)
        found += [server["name"] for server in listed["servers"]]
        links = listed.get("servers_links", [])
        path = links[0]["href"] if links else ""
    assert found == ["s0", "s1", "s2", "s3", "s4"]


async def test_a_direction_alone_turns_the_usual_order(cloud: ComputeAlone) -> None:
    await write(cloud, *({"name": f"s{at}"} for at in range(3)))
    usual = await names(cloud, "")
    assert await names(cloud, "?sort_dir=asc") == usual[::-1]
    assert await names(cloud, "?sort_dir=desc") == usual


async def test_the_link_of_a_detailed_page_is_detailed(cloud: ComputeAlone) -> None:
    await write(cloud, {"name": "a"}, {"name": "b"})
    listed = await cloud.get("/servers/detail?limit=1&name=.")
    (link,) = listed["servers_links"]
    assert link["rel"] == "next"
    assert link["href"].startswith(f"{URL}/v2.1/servers/detail?")
    assert "name=." in link["href"]
    assert f"marker={listed['servers'][0]['id']}" in link["href"]


@pytest.mark.parametrize(
    "query",
    [
        "?limit=-1",
        "?limit=x",
        "?marker=11111111-1111-4111-8111-111111111111",
        "?sort_key=secret",
        "?sort_key=display_name&sort_dir=up",
        "?sort_dir=up",
        "?name=(",
        "?name=*",
        "?name=" + "a" * 256,
        "?name=(a)%5C1",
        "?name=(%3F=a)",
        "?changes-since=yesterday",
        "?info_cache=1",
        "?_private=1",
        "?metadata=1",
    ],
)
async def test_a_bad_query_is_400(cloud: ComputeAlone, query: str) -> None:
    assert await refuse(cloud, query) == (400, "badRequest")


async def test_a_limit_of_none_is_none(cloud: ComputeAlone) -> None:
    await write(cloud, {"name": "a"})
    assert await cloud.get("/servers?limit=0") == {"servers": []}


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("web", {"web1", "web2"}),
        ("^web1$", {"web1"}),
        ("b.$", {"web1", "web2", "db1"}),
        ("x", set[str]()),
        (r"\w\d$", {"web1", "web2", "db1"}),
        ("(e|d)b(1|2)", {"web1", "web2", "db1"}),
        (".*.*.*.*.*.*.*.*(a*)*(a*)*X", set[str]()),
    ],
)
async def test_names_are_searched_by_pattern(
    cloud: ComputeAlone, pattern: str, found: set[str]
) -> None:
    await write(cloud, {"name": "web1"}, {"name": "web2"}, {"name": "db1"})
    assert set(await names(cloud, f"?name={quote(pattern)}")) == found


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ("ACTIVE", {"active"}),
        ("active", {"active"}),
        ("REBOOT", {"rebooting"}),
        ("SHUTOFF", {"stopped"}),
        ("ERROR", {"error"}),
        ("PAUSED", set[str]()),
    ],
)
async def test_servers_are_found_by_status(
    cloud: ComputeAlone, status: str, found: set[str]
) -> None:
    await write(
        cloud,
        {"name": "active"},
        {"name": "rebooting", "task_state": "rebooting"},
        {"name": "stopped", "vm_state": "stopped"},
        {"name": "error", "vm_state": "error"},
    )
    assert set(await names(cloud, f"?status={status}")) == found


async def test_an_unknown_status_is_nothing_and_400_from_238_on(cloud: ComputeAlone) -> None:
    await write(cloud, {"name": "a"})
    assert await names(cloud, "?status=HAPPY", version="2.37") == []
    assert await refuse(cloud, "?status=HAPPY", version="2.38") == (400, "badRequest")


async def test_deleted_servers_are_for_administrators(cloud: ComputeAlone) -> None:
    now = cloud.clock.now()
    await write(cloud, {"name": "a"}, {"name": "gone", "vm_state": "deleted", "deleted_at": now})
    assert await refuse(cloud, "?status=DELETED") == (403, "forbidden")
    assert await names(cloud, "?deleted=1") == ["a"]
    for query in ("?status=DELETED", "?deleted=true"):
        assert await names(cloud, query, user="admin") == ["gone"]


async def test_changes_since_shows_deleted_ones_too(cloud: ComputeAlone) -> None:
    now = cloud.clock.now()
    gone = {"name": "gone", "vm_state": "deleted", "deleted_at": now}
    await write(cloud, {"name": "old"}, {"name": "new"}, gone)
    assert await names(cloud, "?changes-since=2026-01-01T00:00:01Z") == ["gone", "new"]
    query = "?changes-since=2026-01-01T00:00:00Z&changes-before=2026-01-01T00:00:01Z"
    assert await names(cloud, query, version="2.66") == ["new", "old"]
    backwards = "?changes-since=2026-01-02&changes-before=2026-01-01"
    assert await refuse(cloud, backwards, version="2.66") == (400, "badRequest")


async def test_a_second_that_was_shown_is_whole(cloud: ComputeAlone) -> None:
    moment = cloud.clock.now().replace(microsecond=700_000)
    await cloud.server(name="now", created_at=moment, updated_at=moment)
    [shown] = (await cloud.get("/servers/detail"))["servers"]
    assert await names(cloud, f"?changes-before={shown['updated']}", version="2.66") == ["now"]
    earlier = f"{shown['updated'][:-1]}.500000Z"
    assert await names(cloud, f"?changes-before={earlier}", version="2.66") == []


async def test_image_and_flavor_are_compared(cloud: ComputeAlone) -> None:
    await write(cloud, {"name": "a"}, {"name": "b", "image_id": "", "flavor_id": "2"})
    assert await names(cloud, f"?image={IMAGE}") == ["a"]
    assert await names(cloud, "?flavor=2") == ["b"]
    assert await names(cloud, "?flavor=nope") == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("tags=red", {"a", "b"}),
        ("tags=red,blue", {"a"}),
        ("tags-any=blue,green", {"a", "c"}),
        ("not-tags=red,blue", {"b", "c"}),
        ("not-tags-any=red,green", set[str]()),
    ],
)
async def test_tags_are_filtered_from_226_on(
    cloud: ComputeAlone, query: str, found: set[str]
) -> None:
    tags = {"a": ["red", "blue"], "b": ["red"], "c": ["green"]}
    ids = await write(cloud, *({"name": name} for name in tags))
    rows = [
        {"server_id": server_id, "tag": tag}
        for server_id, given in zip(ids, tags.values(), strict=True)
        for tag in given
    ]
    await cloud.put(ServerTag, *rows)
    assert set(await names(cloud, f"?{query}", version="2.26")) == found
    assert set(await names(cloud, f"?{query}", version="2.25")) == {"a", "b", "c"}


@pytest.mark.parametrize("name", ["tags", "tags-any", "not-tags", "not-tags-any"])
async def test_more_tags_than_a_query_may_have_are_refused(cloud: ComputeAlone, name: str) -> None:
    most = ",".join(f"t{number}" for number in range(limits.WEB_CONDITIONS))
    assert await names(cloud, f"?{name}={most}", version="2.26") == []
    assert await refuse(cloud, f"?{name}={most},more", version="2.26") == (400, "badRequest")


async def test_locked_ones_are_filtered_from_273_on(cloud: ComputeAlone) -> None:
    await write(cloud, {"name": "a", "locked_by": "owner"}, {"name": "b"})
    assert await names(cloud, "?locked=true", version="2.73") == ["a"]
    assert await names(cloud, "?locked=false", version="2.73") == ["b"]
    assert await names(cloud, "?locked=true", version="2.72") == ["b", "a"]
    assert await names(cloud, "?sort_key=locked&sort_dir=asc", version="2.73") == ["a", "b"]


async def test_hosts_are_for_administrators(cloud: ComputeAlone) -> None:
    await write(cloud, {"name": "a", "host": "host1"}, {"name": "b", "host": "host2"})
    assert await names(cloud, "?host=host1", user="admin") == ["a"]
    assert await names(cloud, "?node=host2", user="admin") == ["b"]
    assert await names(cloud, "?host=host1") == ["b", "a"]
    assert await names(cloud, "?sort_key=host&sort_dir=asc", user="admin") == ["a", "b"]
    assert await refuse(cloud, "?sort_key=host") == (403, "forbidden")


async def test_more_filters_are_for_everybody_from_283_on(cloud: ComputeAlone) -> None:
    await write(cloud, {"name": "a", "vm_state": "stopped", "power_state": 4}, {"name": "b"})
    assert await names(cloud, "?power_state=4", version="2.82") == ["b", "a"]
    for query in ("?power_state=4", "?vm_state=stopped"):
        assert await names(cloud, query, version="2.83") == ["a"]
        assert await names(cloud, query, user="admin") == ["a"]


async def test_no_server_has_an_address(cloud: ComputeAlone) -> None:
    await write(cloud, {"name": "a"})
    assert await names(cloud, "?ip=10.") == []
    assert await names(cloud, "?ip6=fe80", version="2.5") == []
    assert await names(cloud, "?ip6=fe80", version="2.4") == ["a"]


async def test_unknown_keys_are_400_from_275_on(cloud: ComputeAlone) -> None:
    await write(cloud, {"name": "a"})
    assert await names(cloud, "?surprise=1", version="2.74") == ["a"]
    assert await refuse(cloud, "?surprise=1", version="2.75") == (400, "badRequest")


async def test_rows_without_a_value_are_paged_too(cloud: ComputeAlone) -> None:
    rows = [{"name": f"s{at}", "key_name": None if at % 2 else f"k{at}"} for at in range(6)]
    await write(cloud, *rows)
    for direction in ("asc", "desc"):
        path, found = f"/servers?limit=1&sort_key=key_name&sort_dir={direction}", list[str]()
        while path:
            listed = await cloud.get(path)
            found += [server["name"] for server in listed["servers"]]
            path = next((link["href"] for link in listed.get("servers_links", [])), "")
        whole = await names(cloud, f"?sort_key=key_name&sort_dir={direction}")
        assert found == whole
        assert sorted(found) == [f"s{at}" for at in range(6)]


async def test_a_page_costs_the_same_queries_for_one_and_for_many(cloud: ComputeAlone) -> None:
    await cloud.host("host1")
    counted: list[str] = []

    def count(*args: Any) -> None:
        counted.append(args[2])

    async def cost(more: int) -> int:
        await write(cloud, *({"name": "s", "host": "host1"} for _ in range(more)))
        counted.clear()
        await cloud.get("/servers/detail", version="2.104", user="admin")
        return len([statement for statement in counted if statement.startswith("SELECT")])

    event.listen(Engine, "before_cursor_execute", count)
    try:
        assert await cost(1) == await cost(20) <= 6
    finally:
        event.remove(Engine, "before_cursor_execute", count)


async def test_head_answers_like_get_without_a_body(cloud: ComputeAlone) -> None:
    answer = await cloud.ask("HEAD", "/servers")
    assert (answer.status, answer.content) == (200, b"")
