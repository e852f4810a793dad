from __future__ import annotations

from typing import Any

import pytest

from tests.identity.cloud import ROOT, IdentityCloud

pytestmark = pytest.mark.anyio


async def make_domain(cloud: IdentityCloud, name: str = "blue", **given: Any) -> str:
    return (await cloud.make("/domains", {"domain": {"name": name, **given}}))["id"]


async def write(cloud: IdentityCloud, method: str, path: str, body: Any = None) -> int:
    return (await cloud.ask(method, path, body, user="admin")).status


async def disable(cloud: IdentityCloud, domain_id: str) -> None:
    body = {"domain": {"enabled": False}}
    assert await write(cloud, "PATCH", f"/domains/{domain_id}", body) == 200


async def furnish(cloud: IdentityCloud, domain_id: str) -> dict[str, str]:
    """Make a project, a group and a user in a domain, who is a member there and of the domain."""
    home = {"domain_id": domain_id}
    project = (await cloud.make("/projects", {"project": {"name": "p", **home}}))["id"]
    group = (await cloud.make("/groups", {"group": {"name": "g", **home}}))["id"]
    body = {"user": {"name": "ann", "password": "secret", **home}}
    user = (await cloud.make("/users", body))["id"]
    role = await cloud.id_of("roles", "member")
    for path in (
        f"/projects/{project}/users/{user}/roles/{role}",
        f"/domains/{domain_id}/users/{user}/roles/{role}",
        f"/domains/{domain_id}/groups/{group}/roles/{role}",
        f"/groups/{group}/users/{user}",
    ):
        assert await write(cloud, "PUT", path) == 204
    return {"projects": project, "groups": group, "users": user}


async def log_in(cloud: IdentityCloud, user_id: str, scope: dict[str, Any]) -> Any:
    user = {"id": user_id, "password": "secret"}
    identity = {"methods": ["password"], "password": {"user": user}}
    body = {"auth": {"identity": identity, "scope": scope}}
    return await cloud.ask("POST", "/auth/tokens", body)


async def test_a_domain_is_made_listed_changed_and_deleted(cloud: IdentityCloud) -> None:
    made = await cloud.make("/domains", {"domain": {"name": "blue", "colour": "blue"}})
    path = f"/domains/{made['id']}"
    assert made == {
        "id": made["id"],
        "name": "blue",
        "description": "",
        "enabled": True,
        "colour": "blue",
        "tags": [],
        "options": {},
        "links": {"self": f"{ROOT}/v3{path}"},
    }
    assert (await cloud.get("/domains?name=blue"))["domains"] == [made]
    body = {"domain": {"name": "sea", "description": "wide", "enabled": False}}
    changed = (await cloud.ask("PATCH", path, body, user="admin")).body["domain"]
    assert changed == made | body["domain"]
    assert [row["id"] for row in (await cloud.get("/domains?enabled=true"))["domains"]] == [
        "default"
    ]
    assert await write(cloud, "DELETE", path) == 204
    assert await write(cloud, "GET", path) == 404
    assert await write(cloud, "DELETE", path) == 404


@pytest.mark.parametrize("name", ["", " ", "x" * 65, 4, None])
async def test_a_domain_that_makes_no_sense_is_400(cloud: IdentityCloud, name: Any) -> None:
    assert await write(cloud, "POST", "/domains", {"domain": {"name": name}}) == 400


async def test_a_name_is_taken_once_and_one_domain_has_what_another_has(
    cloud: IdentityCloud,
) -> None:
    domain_id = await make_domain(cloud)
    assert await write(cloud, "POST", "/domains", {"domain": {"name": "blue"}}) == 409
    body = {"domain": {"name": "Default"}}
    assert await write(cloud, "PATCH", f"/domains/{domain_id}", body) == 409
    made = await cloud.make("/projects", {"project": {"name": "demo", "domain_id": domain_id}})
    assert made["domain_id"] == made["parent_id"] == domain_id
    body = {"user": {"name": "demo", "domain_id": domain_id}}
    assert (await cloud.make("/users", body))["domain_id"] == domain_id
    found = (await cloud.get(f"/users?domain_id={domain_id}"))["users"]
    assert [user["name"] for user in found] == ["demo"]


async def test_an_enabled_domain_is_not_deleted_and_the_default_one_never(
    cloud: IdentityCloud,
) -> None:
    domain_id = await make_domain(cloud)
    assert await write(cloud, "DELETE", f"/domains/{domain_id}") == 403
    assert await write(cloud, "DELETE", "/domains/default") == 403
    body = {"domain": {"enabled": False}}
    assert await write(cloud, "PATCH", "/domains/default", body) == 403
    assert (await cloud.log_in("demo")).status == 201


async def test_nobody_of_a_disabled_domain_changes_a_password(cloud: IdentityCloud) -> None:
    domain_id = await make_domain(cloud)
    path = f"/users/{(await furnish(cloud, domain_id))['users']}/password"
    body = {"user": {"original_password": "secret", "password": "another secret"}}
    await disable(cloud, domain_id)
    assert (await cloud.ask("POST", path, body)).status == 401
    enabled = {"domain": {"enabled": True}}
    assert await write(cloud, "PATCH", f"/domains/{domain_id}", enabled) == 200
    assert (await cloud.ask("POST", path, body)).status == 204


async def test_a_deleted_domain_takes_along_what_is_in_it(cloud: IdentityCloud) -> None:
    domain_id = await make_domain(cloud)
    made = await furnish(cloud, domain_id)
    role = await cloud.id_of("roles", "reader")
    outsider = await cloud.id_of("users", "demo")
    for path in (
        f"/projects/{made['projects']}/users/{outsider}/roles/{role}",
        f"/groups/{made['groups']}/users/{outsider}",
    ):
        assert await write(cloud, "PUT", path) == 204
    await disable(cloud, domain_id)
    assert await write(cloud, "DELETE", f"/domains/{domain_id}") == 204
    for kind, row_id in made.items():
        assert await write(cloud, "GET", f"/{kind}/{row_id}") == 404
    rows = (await cloud.get("/role_assignments?include_names"))["role_assignments"]
    assert not any(made["projects"] in str(row) or domain_id in str(row) for row in rows)
    assert (await cloud.get(f"/users/{outsider}/groups"))["groups"] == []


async def test_a_user_of_a_domain_works_in_its_project_and_for_the_domain(
    cloud: IdentityCloud,
) -> None:
    domain_id = await make_domain(cloud)
    made = await furnish(cloud, domain_id)
    place = {"id": domain_id, "name": "blue"}
    answer = await log_in(cloud, made["users"], {"project": {"id": made["projects"]}})
    assert answer.body["token"]["project"]["domain"] == place
    assert answer.body["token"]["user"]["domain"] == place
    answer = await log_in(cloud, made["users"], {"domain": {"name": "blue"}})
    assert answer.body["token"]["domain"] == place
    token = answer.headers["x-subject-token"]
    assert len(token) <= 255
    assert (await cloud.show(token)).body["token"]["domain"] == place
    domains = (await cloud.get("/auth/domains", user=token))["domains"]
    assert [domain["id"] for domain in domains] == [domain_id]


async def test_what_a_domains_admin_makes_is_in_the_domain(cloud: IdentityCloud) -> None:
    domain_id = await make_domain(cloud)
    made = await furnish(cloud, domain_id)
    role = await cloud.id_of("roles", "admin")
    path = f"/domains/{domain_id}/users/{made['users']}/roles/{role}"
    assert await write(cloud, "PUT", path) == 204
    answer = await log_in(cloud, made["users"], {"domain": {"id": domain_id}})
    token = answer.headers["x-subject-token"]
    for path, body in (
        ("/projects", {"project": {"name": "mine"}}),
        ("/users", {"user": {"name": "mine"}}),
        ("/groups", {"group": {"name": "mine"}}),
    ):
        assert (await cloud.make(path, body, user=token))["domain_id"] == domain_id


async def test_a_disabled_domain_ends_all_tokens_for_good(cloud: IdentityCloud) -> None:
    domain_id = await make_domain(cloud)
    made = await furnish(cloud, domain_id)
    role = await cloud.id_of("roles", "reader")
    demo = await cloud.id_of("projects", "demo")
    path = f"/projects/{demo}/users/{made['users']}/roles/{role}"
    assert await write(cloud, "PUT", path) == 204
    outsider = await cloud.id_of("users", "demo")
    path = f"/domains/{domain_id}/users/{outsider}/roles/{role}"
    assert await write(cloud, "PUT", path) == 204
    inside = [{"project": {"id": made["projects"]}}, {"domain": {"id": domain_id}}]
    answers = [
        await log_in(cloud, made["users"], scope) for scope in (*inside, {"project": {"id": demo}})
    ]
    answers.append(await cloud.log_in("demo", project=None, scope={"domain": {"id": domain_id}}))
    tokens = [answer.headers["x-subject-token"] for answer in answers]
    assert {(await cloud.show(token)).status for token in tokens} == {200}
    await disable(cloud, domain_id)
    assert {(await cloud.show(token)).status for token in tokens} == {404}
    assert (await log_in(cloud, made["users"], inside[0])).status == 401
    body = {"domain": {"enabled": True}}
    assert await write(cloud, "PATCH", f"/domains/{domain_id}", body) == 200
    assert {(await cloud.show(token)).status for token in tokens} == {404}
    assert (await log_in(cloud, made["users"], inside[0])).status == 201


async def test_a_project_is_no_domain(cloud: IdentityCloud) -> None:
    body = {"project": {"name": "a", "is_domain": True}}
    assert await write(cloud, "POST", "/projects", body) == 409
    assert (await cloud.get("/projects?is_domain=true"))["projects"] == []
