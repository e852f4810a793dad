from __future__ import annotations

from typing import Any

import pytest

from tests.identity.town import Town

pytestmark = pytest.mark.anyio


async def test_a_project_is_made_shown_changed_and_deleted(town: Town) -> None:
    made = await town.make("/projects", {"project": {"name": "blue", "colour": "blue"}})
    assert len(made["id"]) == 32
    assert made["domain_id"] == made["parent_id"] == "default"
    assert (made["enabled"], made["is_domain"], made["tags"]) == (True, False, [])
    assert made["colour"] == "blue"
    path = f"/projects/{made['id']}"
    assert made["links"]["self"] == f"http://town/identity/v3{path}"
    change = {"project": {"description": "sea", "colour": "green"}}
    changed = (await town.ask("PATCH", path, change, by="admin")).json["project"]
    assert (changed["description"], changed["colour"]) == ("sea", "green")
    assert (await town.get(path))["project"] == changed
    assert (await town.ask("DELETE", path, by="admin")).status == 204
    assert (await town.ask("GET", path, by="admin")).status == 404


@pytest.mark.parametrize(
    "project",
    [
        {"name": ""},
        {"name": " "},
        {"name": "x" * 65},
        {"name": 4},
        {"name": "a", "enabled": "yes"},
        {"name": "a", "tags": "b"},
        {},
    ],
)
async def test_a_project_that_makes_no_sense_is_400(town: Town, project: dict[str, Any]) -> None:
    answer = await town.ask("POST", "/projects", {"project": project}, by="admin")
    assert answer.status == 400


async def test_names_are_taken_once(town: Town) -> None:
    for path, body in (
        ("/projects", {"project": {"name": "demo"}}),
        ("/users", {"user": {"name": "demo"}}),
        ("/roles", {"role": {"name": "member"}}),
        ("/regions", {"region": {"id": "RegionOne"}}),
    ):
        answer = await town.ask("POST", path, body, by="admin")
        assert (answer.status, answer.json["error"]["title"]) == (409, "Conflict")
    project_id = await town.id_of("projects", "demo")
    body = {"project": {"name": "admin"}}
    assert (await town.ask("PATCH", f"/projects/{project_id}", body, by="admin")).status == 409


async def test_projects_have_no_trees_and_there_is_one_domain(town: Town) -> None:
    parent = {"name": "a", "parent_id": await town.id_of("projects", "demo")}
    assert (await town.ask("POST", "/projects", {"project": parent}, by="admin")).status == 409
    body = {"domain": {"name": "other"}}
    assert (await town.ask("POST", "/domains", body, by="admin")).status == 403
    assert [row["id"] for row in (await town.get("/domains"))["domains"]] == ["default"]
    assert (await town.get("/domains/default"))["domain"]["name"] == "Default"
    body = {"user": {"name": "a", "domain_id": "other"}}
    assert (await town.ask("POST", "/users", body, by="admin")).status == 404


@pytest.mark.parametrize("kind", ["projects", "users", "roles", "services", "endpoints", "regions"])
async def test_a_name_in_the_place_of_an_id_is_404(town: Town, kind: str) -> None:
    answer = await town.ask("GET", f"/{kind}/demo", by="admin")
    assert (answer.status, answer.json["error"]["title"]) == (404, "Not Found")


async def test_lists_are_filtered_by_attribute(town: Town) -> None:
    for name in ("sea", "seal", "moon"):
        await town.make("/projects", {"project": {"name": name, "enabled": name != "moon"}})

    async def names(query: str) -> list[str]:
        rows = (await town.get(f"/projects?{query}"))["projects"]
        return sorted(row["name"] for row in rows)

    assert await names("name=sea") == ["sea"]
    assert await names("name__startswith=sea") == ["sea", "seal"]
    assert await names("name__icontains=EAL") == ["seal"]
    assert await names("enabled=false") == ["moon"]
    assert await names("name=sea&colour=blue") == ["sea"]
    assert await names("domain_id=elsewhere") == []
    assert await names("is_domain=true") == []
    answer = await town.ask("GET", "/projects?enabled=perhaps", by="admin")
    assert answer.status == 400


async def test_lists_come_in_pages(town: Town) -> None:
    for number in range(5):
        await town.make("/roles", {"role": {"name": f"role{number}"}})
    path = "/roles?limit=3"
    seen: list[str] = []
    while path:
        page = await town.get(path)
        seen += [row["name"] for row in page["roles"]]
        following = page["links"]["next"]
        assert page.get("truncated", False) == bool(following)
        path = following.removeprefix("http://town/identity/v3") if following else ""
    assert len(seen) == len(set(seen)) == 10


async def test_a_user_never_shows_its_password(town: Town) -> None:
    user = {"name": "ann", "password": "secret", "email": "ann@town"}
    made = await town.make("/users", {"user": user})
    assert made["email"] == "ann@town"
    assert "secret" not in str(made)
    assert "password" not in made
    assert (await town.log_in("ann", "secret", project=None)).status == 201


async def test_a_user_without_a_password_cannot_log_in(town: Town) -> None:
    await town.make("/users", {"user": {"name": "ann"}})
    assert (await town.log_in("ann", "None", project=None)).status == 401


async def test_an_administrator_changes_a_password(town: Town) -> None:
    user_id = await town.add_user("ann", "secret", role="member", project="demo")
    body = {"user": {"password": "x" * 200}}
    assert (await town.ask("PATCH", f"/users/{user_id}", body, by="admin")).status == 200
    assert (await town.log_in("ann", "x" * 200, project="demo")).status == 201
    assert (await town.log_in("ann", "x" * 199, project="demo")).status == 401


@pytest.mark.parametrize("password", ["", "x" * 5000])
async def test_a_password_has_a_length(town: Town, password: str) -> None:
    body = {"user": {"name": "ann", "password": password}}
    assert (await town.ask("POST", "/users", body, by="admin")).status == 400


async def test_a_user_that_is_deleted_leaves_nothing(town: Town) -> None:
    user_id = await town.add_user("ann", "secret", role="member", project="demo")
    assert (await town.ask("DELETE", f"/users/{user_id}", by="admin")).status == 204
    rows = await town.get(f"/role_assignments?user.id={user_id}")
    assert rows["role_assignments"] == []
    assert (await town.log_in("ann", "secret", project="demo")).status == 401


async def test_immutable_roles_stay(town: Town) -> None:
    role_id = await town.id_of("roles", "member")
    path = f"/roles/{role_id}"
    assert (await town.get(path))["role"]["options"] == {"immutable": True}
    assert (await town.ask("DELETE", path, by="admin")).status == 403
    body = {"role": {"name": "sailor"}}
    assert (await town.ask("PATCH", path, body, by="admin")).status == 403
    body = {"role": {"options": {"immutable": False}}}
    assert (await town.ask("PATCH", path, body, by="admin")).status == 200
    assert (await town.ask("DELETE", path, by="admin")).status == 204


async def test_a_grant_may_be_repeated_and_is_taken_once(town: Town) -> None:
    user_id, role_id = await town.id_of("users", "demo"), await town.id_of("roles", "reader")
    for scope in (
        f"/projects/{await town.id_of('projects', 'admin')}",
        "/domains/default",
        "/system",
    ):
        path = f"{scope}/users/{user_id}/roles"
        assert (await town.get(path))["roles"] == []
        assert (await town.ask("HEAD", f"{path}/{role_id}", by="admin")).status == 404
        for _ in range(2):
            assert (await town.ask("PUT", f"{path}/{role_id}", by="admin")).status == 204
        assert (await town.ask("HEAD", f"{path}/{role_id}", by="admin")).status == 204
        assert [role["name"] for role in (await town.get(path))["roles"]] == ["reader"]
        assert (await town.ask("DELETE", f"{path}/{role_id}", by="admin")).status == 204
        assert (await town.ask("DELETE", f"{path}/{role_id}", by="admin")).status == 404


async def test_a_grant_for_something_unknown_is_404(town: Town) -> None:
    user_id, role_id = await town.id_of("users", "demo"), await town.id_of("roles", "reader")
    project_id = await town.id_of("projects", "demo")
    for path in (
        f"/projects/{project_id}/users/x/roles/{role_id}",
        f"/projects/{project_id}/users/{user_id}/roles/x",
        f"/projects/x/users/{user_id}/roles/{role_id}",
        f"/domains/x/users/{user_id}/roles/{role_id}",
    ):
        assert (await town.ask("PUT", path, by="admin")).status == 404


async def test_assignments_are_listed_with_names_and_implied_roles(town: Town) -> None:
    user_id = await town.id_of("users", "demo")
    path = f"/role_assignments?user.id={user_id}&include_names"
    [row] = (await town.get(path))["role_assignments"]
    assert row["role"]["name"] == "member"
    assert row["user"]["domain"] == {"id": "default", "name": "Default"}
    assert row["scope"]["project"]["name"] == "demo"
    assert f"/users/{user_id}/roles/{row['role']['id']}" in row["links"]["assignment"]
    rows = (await town.get(f"{path}&effective"))["role_assignments"]
    assert sorted(row["role"]["name"] for row in rows) == ["member", "reader"]
    assert [("prior_role" in row["links"]) for row in rows if row["role"]["name"] == "reader"] == [
        True
    ]


async def test_assignments_are_filtered_by_scope_and_role(town: Town) -> None:
    admin, demo = await town.id_of("roles", "admin"), await town.id_of("projects", "demo")

    async def count(query: str) -> int:
        return len((await town.get(f"/role_assignments?{query}"))["role_assignments"])

    assert await count("scope.system=all") == 1
    assert await count(f"scope.project.id={demo}") == 1
    assert await count("scope.domain.id=default") == 0
    assert await count(f"role.id={admin}") == 7
    assert await count("group.id=x") == 0
    answer = await town.ask(
        "GET", f"/role_assignments?scope.system=all&scope.project.id={demo}", by="admin"
    )
    assert answer.status == 400


async def test_implications_are_shown(town: Town) -> None:
    found = await town.get(f"/roles/{await town.id_of('roles', 'admin')}/implies")
    assert [role["name"] for role in found["role_inference"]["implies"]] == ["manager"]
    assert len((await town.get("/role_inferences"))["role_inferences"]) == 3


async def test_a_service_and_its_endpoints_are_made_and_vanish_together(town: Town) -> None:
    service = await town.make("/services", {"service": {"type": "dns", "name": "names"}})
    endpoint = {"service_id": service["id"], "interface": "public", "url": "http://dns/v2"}
    made = await town.make("/endpoints", {"endpoint": {**endpoint, "region": "New"}})
    assert (made["region_id"], made["region"]) == ("New", "New")
    assert (await town.get("/regions/New"))["region"]["id"] == "New"
    assert (await town.ask("DELETE", "/regions/New", by="admin")).status == 403
    query = f"?service_id={service['id']}&interface=public"
    assert len((await town.get(f"/endpoints{query}"))["endpoints"]) == 1
    body = {"service": {"enabled": False}}
    await town.ask("PATCH", f"/services/{service['id']}", body, by="admin")
    kinds = [entry["type"] for entry in (await town.get("/auth/catalog"))["catalog"]]
    assert "dns" not in kinds
    assert (await town.ask("DELETE", f"/services/{service['id']}", by="admin")).status == 204
    assert (await town.ask("GET", f"/endpoints/{made['id']}", by="admin")).status == 404
    assert (await town.ask("DELETE", "/regions/New", by="admin")).status == 204


@pytest.mark.parametrize(
    "change",
    [{"region_id": "nowhere"}, {"service_id": "none"}, {"interface": "secret"}, {"url": "ftp://a"}],
)
async def test_an_endpoint_that_leads_nowhere_is_400(town: Town, change: dict[str, str]) -> None:
    [service] = (await town.get("/services?type=compute"))["services"]
    endpoint = {"service_id": service["id"], "interface": "public", "url": "http://a", **change}
    answer = await town.ask("POST", "/endpoints", {"endpoint": endpoint}, by="admin")
    assert answer.status == 400


async def test_a_region_of_a_given_id_is_put(town: Town) -> None:
    answer = await town.ask("PUT", "/regions/North", {"region": {"description": "ice"}}, by="admin")
    assert (answer.status, answer.json["region"]["id"]) == (201, "North")
    child = await town.make("/regions", {"region": {"parent_region_id": "North"}})
    assert len(child["id"]) == 32
    assert (await town.ask("DELETE", "/regions/North", by="admin")).status == 403
    body = {"region": {"description": "snow"}}
    answer = await town.ask("PATCH", "/regions/North", body, by="admin")
    assert answer.json["region"]["description"] == "snow"


@pytest.mark.parametrize(
    "path",
    ["/projects", "/users", "/roles", "/domains", "/services", "/endpoints", "/role_assignments"],
)
async def test_a_member_may_not_list(town: Town, path: str) -> None:
    assert (await town.ask("GET", path, by="demo")).status == 403


async def test_a_member_sees_itself(town: Town) -> None:
    user_id, project_id = await town.id_of("users", "demo"), await town.id_of("projects", "demo")
    assert (await town.get(f"/users/{user_id}", by="demo"))["user"]["name"] == "demo"
    assert (await town.get(f"/projects/{project_id}", by="demo"))["project"]["name"] == "demo"
    projects = await town.get(f"/users/{user_id}/projects", by="demo")
    assert [project["name"] for project in projects["projects"]] == ["demo"]
    assert (await town.get(f"/users/{user_id}/groups", by="demo"))["groups"] == []
    assert (await town.get("/domains/default", by="demo"))["domain"]["id"] == "default"
    assert (await town.get("/regions", by="demo"))["regions"]
    other = await town.id_of("users", "admin")
    assert (await town.ask("GET", f"/users/{other}", by="demo")).status == 403
    other = await town.id_of("projects", "admin")
    assert (await town.ask("GET", f"/projects/{other}", by="demo")).status == 403


async def test_a_member_may_not_change_anything(town: Town) -> None:
    user_id = await town.id_of("users", "demo")
    body = {"user": {"enabled": False}}
    assert (await town.ask("PATCH", f"/users/{user_id}", body, by="demo")).status == 403
    assert (
        await town.ask("POST", "/projects", {"project": {"name": "a"}}, by="demo")
    ).status == 403


async def test_a_system_reader_reads_everything(town: Town) -> None:
    user_id, role_id = await town.id_of("users", "demo"), await town.id_of("roles", "reader")
    await town.ask("PUT", f"/system/users/{user_id}/roles/{role_id}", by="admin")
    answer = await town.log_in("demo", project=None, scope={"system": {"all": True}})
    token = answer.headers["x-subject-token"]
    assert (await town.ask("GET", "/users", by=token)).status == 200
    assert (await town.ask("POST", "/roles", {"role": {"name": "a"}}, by=token)).status == 403
