"""Which limits a list shows, and to whom."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.identity.cloud import IdentityCloud
from tests.identity.limiting import ids, limit, register, write

pytestmark = pytest.mark.anyio


@pytest.fixture
async def any_cloud(database: str, tmp_path: Path) -> AsyncIterator[IdentityCloud]:
    async with IdentityCloud(tmp_path, database=database) as opened:
        yield opened


async def test_lists_are_filtered_and_come_in_pages(any_cloud: IdentityCloud) -> None:
    nova = await any_cloud.id_of("services", "nova")
    first = await register(any_cloud)
    there = await register(any_cloud, region_id="RegionOne")
    other = await register(any_cloud, "gadgets")
    compute = await register(any_cloud, service_id=nova)
    demo = await limit(any_cloud, first)
    domain = await limit(any_cloud, there, domain_id="default")
    gadgets = await limit(any_cloud, other)
    servers = await limit(any_cloud, compute)
    project_id = demo["project_id"]
    for query, registered, limits in (
        (f"service_id={nova}", [compute], [servers]),
        ("region_id=RegionOne", [there], [domain]),
        ("resource_name=gadgets", [other], [gadgets]),
        (f"project_id={project_id}", None, [demo, gadgets, servers]),
        ("domain_id=default", None, [domain]),
        (f"service_id={nova}&resource_name=gadgets", [], []),
        ("colour=blue", [first, there, other, compute], [demo, domain, gadgets, servers]),
    ):
        if registered is not None:
            found = await ids(any_cloud, f"/registered_limits?{query}")
            assert found == sorted(row["id"] for row in registered)
        assert await ids(any_cloud, f"/limits?{query}") == sorted(row["id"] for row in limits)
    page = await any_cloud.get("/limits?limit=3")
    assert page["truncated"]
    rest = await ids(any_cloud, page["links"]["next"])
    every = [row["id"] for row in page["limits"]] + rest
    assert every == sorted(row["id"] for row in (demo, domain, gadgets, servers))


async def test_whoever_is_no_administrator_sees_the_limits_of_the_own_project(
    any_cloud: IdentityCloud,
) -> None:
    registered = await register(any_cloud)
    own = await limit(any_cloud, registered)
    admins = await limit(
        any_cloud, registered, project_id=await any_cloud.id_of("projects", "admin")
    )
    domain = await limit(any_cloud, registered, domain_id="default")
    await any_cloud.add_user("ann", "secret", role="reader", project="demo")
    token = (await any_cloud.log_in("ann", project="demo")).headers["x-subject-token"]
    for user in ("demo", token):
        assert await ids(any_cloud, "/registered_limits", user=user) == [registered["id"]]
        shown = await any_cloud.get(f"/registered_limits/{registered['id']}", user=user)
        assert shown["registered_limit"] == registered
        assert await ids(any_cloud, "/limits", user=user) == [own["id"]]
        others = f"/limits?project_id={admins['project_id']}"
        assert await ids(any_cloud, others, user=user) == []
        assert (await any_cloud.get(f"/limits/{own['id']}", user=user))["limit"] == own
        for other in (admins, domain):
            answer = await any_cloud.ask("GET", f"/limits/{other['id']}", user=user)
            assert answer.status == 403
    assert len(await ids(any_cloud, "/limits")) == 3
    assert (await any_cloud.ask("GET", "/limits")).status == 401


async def test_a_token_for_a_domain_sees_its_limits_and_those_of_its_projects(
    any_cloud: IdentityCloud,
) -> None:
    registered = await register(any_cloud)
    blue = (await any_cloud.make("/domains", {"domain": {"name": "blue"}}))["id"]
    body = {"project": {"name": "p", "domain_id": blue}}
    inside = await limit(
        any_cloud, registered, project_id=(await any_cloud.make("/projects", body))["id"]
    )
    domain = await limit(any_cloud, registered, domain_id=blue)
    other = await limit(any_cloud, registered)
    user, role = await any_cloud.id_of("users", "demo"), await any_cloud.id_of("roles", "reader")
    assert await write(any_cloud, "PUT", f"/domains/{blue}/users/{user}/roles/{role}") == 204
    answer = await any_cloud.log_in("demo", project=None, scope={"domain": {"id": blue}})
    token = answer.headers["x-subject-token"]
    seen = sorted((inside["id"], domain["id"]))
    assert await ids(any_cloud, "/limits", user=token) == seen
    for one, status in ((inside, 200), (domain, 200), (other, 403)):
        answer = await any_cloud.ask("GET", f"/limits/{one['id']}", user=token)
        assert answer.status == status
    answer = await any_cloud.log_in("demo", project=None, scope="unscoped")
    assert await ids(any_cloud, "/limits", user=answer.headers["x-subject-token"]) == []


async def test_only_an_administrator_writes_limits(cloud: IdentityCloud) -> None:
    registered = await register(cloud)
    made = await limit(cloud, registered)
    one, other = f"/registered_limits/{registered['id']}", f"/limits/{made['id']}"
    asked: list[tuple[str, str, Any]] = [
        ("POST", "/registered_limits", {"registered_limits": []}),
        ("PATCH", one, {"registered_limit": {"default_limit": -1}}),
        ("DELETE", one, None),
        ("POST", "/limits", {"limits": []}),
        ("PATCH", other, {"limit": {"resource_limit": -1}}),
        ("DELETE", other, None),
    ]
    for method, path, body in asked:
        assert (await cloud.ask(method, path, body, user="demo")).status == 403
    assert (await cloud.get(other))["limit"] == made
