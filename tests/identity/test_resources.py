from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring import limits
from tests.identity.cloud import ROOT, IdentityCloud

pytestmark = pytest.mark.anyio


async def test_a_project_is_made_shown_changed_and_deleted(cloud: IdentityCloud) -> None:
    made = await cloud.make("/projects", {"project": {"name": "blue", "colour": "blue"}})
    assert len(made["id"]) == 32
    assert made["domain_id"] == made["parent_id"] == "default"
    assert (made["enabled"], made["is_domain"], made["tags"]) == (True, False, [])
    assert made["colour"] == "blue"
    path = f"/projects/{made['id']}"
    assert made["links"]["self"] == f"{ROOT}/v3{path}"
    change = {"project": {"description": "sea", "colour": "green"}}
    changed = (await cloud.ask("PATCH", path, change, user="admin")).body["project"]
    assert (changed["description"], changed["colour"]) == ("sea", "green")
    assert (await cloud.get(path))["project"] == changed
    assert (await cloud.ask("DELETE", path, user="admin")).status == 204
    assert (await cloud.ask("GET", path, user="admin")).status == 404


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
async def test_a_project_that_makes_no_sense_is_400(
    cloud: IdentityCloud, project: dict[str, Any]
) -> None:
    answer = await cloud.ask("POST", "/projects", {"project": project}, user="admin")
    assert answer.status == 400


async def test_names_are_taken_once(cloud: IdentityCloud) -> None:
    for path, body in (
        ("/projects", {"project": {"name": "demo"}}),
        ("/users", {"user": {"name": "demo"}}),
        ("/roles", {"role": {"name": "member"}}),
        ("/regions", {"region": {"id": "RegionOne"}}),
    ):
        answer = await cloud.ask("POST", path, body, user="admin")
        assert (answer.status, answer.body["error"]["title"]) == (409, "Conflict")
    project_id = await cloud.id_of("projects", "demo")
    body = {"project": {"name": "admin"}}
    assert (await cloud.ask("PATCH", f"/projects/{project_id}", body, user="admin")).status == 409


async def test_projects_have_no_trees(cloud: IdentityCloud) -> None:
    parent = {"name": "a", "parent_id": await cloud.id_of("projects", "demo")}
    assert (await cloud.ask("POST", "/projects", {"project": parent}, user="admin")).status == 409


async def test_a_user_of_an_unknown_domain_is_404(cloud: IdentityCloud) -> None:
    assert [row["id"] for row in (await cloud.get("/domains"))["domains"]] == ["default"]
    assert (await cloud.get("/domains/default"))["domain"]["name"] == "Default"
    body = {"user": {"name": "a", "domain_id": "other"}}
    assert (await cloud.ask("POST", "/users", body, user="admin")).status == 404


@pytest.mark.parametrize("kind", ["projects", "users", "roles", "services", "endpoints", "regions"])
async def test_a_name_in_the_place_of_an_id_is_404(cloud: IdentityCloud, kind: str) -> None:
    answer = await cloud.ask("GET", f"/{kind}/demo", user="admin")
    assert (answer.status, answer.body["error"]["title"]) == (404, "Not Found")


async def test_lists_are_filtered_by_attribute(cloud: IdentityCloud) -> None:
    for name in ("sea", "seal", "moon"):
        await cloud.make("/projects", {"project": {"name": name, "enabled": name != "moon"}})

    async def names(query: str) -> list[str]:
        rows = (await cloud.get(f"/projects?{query}"))["projects"]
        return sorted(row["name"] for row in rows)

    assert await names("name=sea") == ["sea"]
    assert await names("name__startswith=sea") == ["sea", "seal"]
    assert await names("name__icontains=EAL") == ["seal"]
    assert await names("enabled=false") == ["moon"]
    assert await names("name=sea&colour=blue") == ["sea"]
    assert await names("name=sea&sort_key=name&sort_dir=desc") == ["sea"]
    assert await names("domain_id=elsewhere") == []
    assert await names("is_domain=true") == []
    answer = await cloud.ask("GET", "/projects?enabled=perhaps", user="admin")
    assert answer.status == 400


async def test_lists_come_in_pages(cloud: IdentityCloud) -> None:
    for number in range(5):
        await cloud.make("/roles", {"role": {"name": f"role{number}"}})
    path = "/roles?limit=3"
    seen: list[str] = []
    while path:
        page = await cloud.get(path)
        seen += [row["name"] for row in page["roles"]]
        following = page["links"]["next"]
        assert page.get("truncated", False) == bool(following)
        path = following or ""
    assert len(seen) == len(set(seen)) == 10


async def test_a_project_has_tags_of_its_own_one_by_one(cloud: IdentityCloud) -> None:
    project = await cloud.make("/projects", {"project": {"name": "p", "tags": ["a"]}})
    path = f"/projects/{project['id']}/tags"
    for tag in ("b", "b"):
        assert (await cloud.ask("PUT", f"{path}/{tag}", user="admin")).status == 201
    assert (await cloud.get(path, user="admin")) == {"tags": ["a", "b"]}
    for method in ("GET", "HEAD"):
        assert (await cloud.ask(method, f"{path}/a", user="admin")).status == 204
        assert (await cloud.ask(method, f"{path}/c", user="admin")).status == 404
    assert (await cloud.ask("DELETE", f"{path}/a", user="admin")).status == 204
    assert (await cloud.ask("DELETE", f"{path}/a", user="admin")).status == 404
    replaced = await cloud.ask("PUT", path, {"tags": ["z", "y", "z"]}, user="admin")
    assert (replaced.status, replaced.body) == (200, {"tags": ["y", "z"]})
    assert (await cloud.ask("DELETE", path, user="admin")).status == 204
    assert (await cloud.get(path, user="admin")) == {"tags": []}
    assert (await cloud.ask("PUT", "/projects/none/tags/a", user="admin")).status == 404


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("tags=red", ["r", "rb"]),
        ("tags=red,blue", ["rb"]),
        ("tags-any=red,blue", ["b", "r", "rb"]),
        ("not-tags=red,blue", ["R", "b", "none", "odd", "r"]),
        ("not-tags-any=red,blue", ["R", "none", "odd"]),
        ("tags=red&not-tags-any=blue", ["r"]),
        ("tags=RED", ["R"]),
        ("tags=%E2%82%AC%22%5Bred", ["odd"]),
        ("tags=green", []),
    ],
)
async def test_projects_are_found_by_their_tags(
    cloud: IdentityCloud, query: str, names: list[str]
) -> None:
    domain = await cloud.make("/domains", {"domain": {"name": "tagged"}})
    marks = {"r": ["red"], "b": ["blue"], "rb": ["red", "blue"], "R": ["RED"], "none": []}
    for name, tags in {**marks, "odd": ['\u20ac"[red', '%red"']}.items():
        project = {"name": name, "domain_id": domain["id"], "tags": tags}
        await cloud.make("/projects", {"project": project})
    found = await cloud.get(f"/projects?domain_id={domain['id']}&{query}", user="admin")
    assert sorted(one["name"] for one in found["projects"]) == names


@pytest.mark.parametrize("name", ["tags", "tags-any", "not-tags", "not-tags-any"])
async def test_a_filter_of_too_many_tags_is_400(tmp_path: Path, database: str, name: str) -> None:
    async with IdentityCloud(tmp_path, database=database) as cloud:
        for count, status in ((limits.WEB_CONDITIONS, 200), (2000, 400)):
            tags = ",".join(f"t{number}" for number in range(count))
            answer = await cloud.ask("GET", f"/projects?{name}={tags}", user="admin")
            assert answer.status == status, answer
        assert f"The filter {name} names more than" in answer.body["error"]["message"]
        same = await cloud.ask("GET", f"/projects?{name}={'t,' * 2000}", user="admin")
        assert same.status == 200


async def test_all_filters_of_tags_together_are_answered(tmp_path: Path, database: str) -> None:
    tags = ",".join(f"t{number}" for number in range(limits.WEB_CONDITIONS))
    names = ("tags", "tags-any", "not-tags", "not-tags-any")
    query = "&".join(f"{name}={tags}" for name in names) + "&name__contains=a" * 150
    async with IdentityCloud(tmp_path, database=database) as cloud:
        assert (await cloud.ask("GET", f"/projects?{query}", user="admin")).status == 200


async def test_tags_have_bounds_and_are_an_administrator_s(cloud: IdentityCloud) -> None:
    project_id = await cloud.id_of("projects", "demo")
    path = f"/projects/{project_id}/tags"
    assert (await cloud.get(path, user="demo")) == {"tags": []}
    assert (await cloud.ask("PUT", f"{path}/a", user="demo")).status == 403
    for tag in ("a%2Cb", "a%2Fb", "x" * 256):
        assert (await cloud.ask("PUT", f"{path}/{tag}", user="admin")).status == 400
    many = {"tags": [f"t{number}" for number in range(80)]}
    assert (await cloud.ask("PUT", path, many, user="admin")).status == 200
    assert (await cloud.ask("PUT", f"{path}/more", user="admin")).status == 400
    assert (await cloud.ask("PUT", f"{path}/t0", user="admin")).status == 201


async def test_a_user_never_shows_its_password(cloud: IdentityCloud) -> None:
    user = {"name": "ann", "password": "secret", "email": "ann@cloud"}
    made = await cloud.make("/users", {"user": user})
    assert made["email"] == "ann@cloud"
    assert "secret" not in str(made)
    assert "password" not in made
    assert (await cloud.log_in("ann", "secret", project=None)).status == 201


async def test_a_user_without_a_password_cannot_log_in(cloud: IdentityCloud) -> None:
    await cloud.make("/users", {"user": {"name": "ann"}})
    assert (await cloud.log_in("ann", "None", project=None)).status == 401


async def test_an_administrator_changes_a_password(cloud: IdentityCloud) -> None:
    user_id = await cloud.add_user("ann", "secret", role="member", project="demo")
    body = {"user": {"password": "x" * 200}}
    assert (await cloud.ask("PATCH", f"/users/{user_id}", body, user="admin")).status == 200
    assert (await cloud.log_in("ann", "x" * 200, project="demo")).status == 201
    assert (await cloud.log_in("ann", "x" * 199, project="demo")).status == 401


@pytest.mark.parametrize("password", ["", "x" * 5000])
async def test_a_password_has_a_length(cloud: IdentityCloud, password: str) -> None:
    body = {"user": {"name": "ann", "password": password}}
    assert (await cloud.ask("POST", "/users", body, user="admin")).status == 400


async def test_a_user_that_is_deleted_leaves_nothing(cloud: IdentityCloud) -> None:
    user_id = await cloud.add_user("ann", "secret", role="member", project="demo")
    assert (await cloud.ask("DELETE", f"/users/{user_id}", user="admin")).status == 204
    rows = await cloud.get(f"/role_assignments?user.id={user_id}")
    assert rows["role_assignments"] == []
    assert (await cloud.log_in("ann", "secret", project="demo")).status == 401


async def test_immutable_roles_stay(cloud: IdentityCloud) -> None:
    role_id = await cloud.id_of("roles", "member")
    path = f"/roles/{role_id}"
    assert (await cloud.get(path))["role"]["options"] == {"immutable": True}
    assert (await cloud.ask("DELETE", path, user="admin")).status == 403
    body = {"role": {"name": "sailor"}}
    assert (await cloud.ask("PATCH", path, body, user="admin")).status == 403
    body = {"role": {"options": {"immutable": False}}}
    assert (await cloud.ask("PATCH", path, body, user="admin")).status == 200
    assert (await cloud.ask("DELETE", path, user="admin")).status == 204


async def test_a_grant_may_be_repeated_and_is_taken_once(cloud: IdentityCloud) -> None:
    user_id, role_id = await cloud.id_of("users", "demo"), await cloud.id_of("roles", "reader")
    for scope in (
        f"/projects/{await cloud.id_of('projects', 'admin')}",
        "/domains/default",
        "/system",
    ):
        path = f"{scope}/users/{user_id}/roles"
        assert (await cloud.get(path))["roles"] == []
        assert (await cloud.ask("HEAD", f"{path}/{role_id}", user="admin")).status == 404
        for _ in range(2):
            assert (await cloud.ask("PUT", f"{path}/{role_id}", user="admin")).status == 204
        assert (await cloud.ask("HEAD", f"{path}/{role_id}", user="admin")).status == 204
        assert [role["name"] for role in (await cloud.get(path))["roles"]] == ["reader"]
        assert (await cloud.ask("DELETE", f"{path}/{role_id}", user="admin")).status == 204
        assert (await cloud.ask("DELETE", f"{path}/{role_id}", user="admin")).status == 404


async def test_a_grant_for_something_unknown_is_404(cloud: IdentityCloud) -> None:
    user_id, role_id = await cloud.id_of("users", "demo"), await cloud.id_of("roles", "reader")
    project_id = await cloud.id_of("projects", "demo")
    for path in (
        f"/projects/{project_id}/users/x/roles/{role_id}",
        f"/projects/{project_id}/users/{user_id}/roles/x",
        f"/projects/x/users/{user_id}/roles/{role_id}",
        f"/domains/x/users/{user_id}/roles/{role_id}",
    ):
        assert (await cloud.ask("PUT", path, user="admin")).status == 404


async def test_assignments_are_listed_with_names_and_implied_roles(cloud: IdentityCloud) -> None:
    user_id = await cloud.id_of("users", "demo")
    path = f"/role_assignments?user.id={user_id}&include_names"
    [row] = (await cloud.get(path))["role_assignments"]
    assert row["role"]["name"] == "member"
    assert row["user"]["domain"] == {"id": "default", "name": "Default"}
    assert row["scope"]["project"]["name"] == "demo"
    assert f"/users/{user_id}/roles/{row['role']['id']}" in row["links"]["assignment"]
    rows = (await cloud.get(f"{path}&effective"))["role_assignments"]
    assert sorted(row["role"]["name"] for row in rows) == ["member", "reader"]
    assert [("prior_role" in row["links"]) for row in rows if row["role"]["name"] == "reader"] == [
        True
    ]


async def test_assignments_are_filtered_by_scope_and_role(cloud: IdentityCloud) -> None:
    admin, demo = await cloud.id_of("roles", "admin"), await cloud.id_of("projects", "demo")

    async def count(query: str) -> int:
        return len((await cloud.get(f"/role_assignments?{query}"))["role_assignments"])

    assert await count("scope.system=all") == 1
    assert await count(f"scope.project.id={demo}") == 1
    assert await count("scope.domain.id=default") == 0
    assert await count(f"role.id={admin}") == 7
    assert await count("group.id=x") == 0
    answer = await cloud.ask(
        "GET", f"/role_assignments?scope.system=all&scope.project.id={demo}", user="admin"
    )
    assert answer.status == 400


async def test_implications_are_shown(cloud: IdentityCloud) -> None:
    found = await cloud.get(f"/roles/{await cloud.id_of('roles', 'admin')}/implies")
    assert [role["name"] for role in found["role_inference"]["implies"]] == ["manager"]
    assert len((await cloud.get("/role_inferences"))["role_inferences"]) == 3


async def test_a_service_and_its_endpoints_are_made_and_vanish_together(
    cloud: IdentityCloud,
) -> None:
    service = await cloud.make("/services", {"service": {"type": "dns", "name": "names"}})
    endpoint = {"service_id": service["id"], "interface": "public", "url": "http://dns/v2"}
    made = await cloud.make("/endpoints", {"endpoint": {**endpoint, "region": "New"}})
    assert (made["region_id"], made["region"]) == ("New", "New")
    assert (await cloud.get("/regions/New"))["region"]["id"] == "New"
    assert (await cloud.ask("DELETE", "/regions/New", user="admin")).status == 403
    query = f"?service_id={service['id']}&interface=public"
    assert len((await cloud.get(f"/endpoints{query}"))["endpoints"]) == 1
    body = {"service": {"enabled": False}}
    await cloud.ask("PATCH", f"/services/{service['id']}", body, user="admin")
    kinds = [entry["type"] for entry in (await cloud.get("/auth/catalog"))["catalog"]]
    assert "dns" not in kinds
    assert (await cloud.ask("DELETE", f"/services/{service['id']}", user="admin")).status == 204
    assert (await cloud.ask("GET", f"/endpoints/{made['id']}", user="admin")).status == 404
    assert (await cloud.ask("DELETE", "/regions/New", user="admin")).status == 204


@pytest.mark.parametrize(
    "change",
    [{"region_id": "nowhere"}, {"service_id": "none"}, {"interface": "secret"}, {"url": "ftp://a"}],
)
async def test_an_endpoint_that_leads_nowhere_is_400(
    cloud: IdentityCloud, change: dict[str, str]
) -> None:
    [service] = (await cloud.get("/services?type=compute"))["services"]
    endpoint = {"service_id": service["id"], "interface": "public", "url": "http://a", **change}
    answer = await cloud.ask("POST", "/endpoints", {"endpoint": endpoint}, user="admin")
    assert answer.status == 400


async def test_a_region_of_a_given_id_is_put(cloud: IdentityCloud) -> None:
    answer = await cloud.ask(
        "PUT", "/regions/North", {"region": {"description": "ice"}}, user="admin"
    )
    assert (answer.status, answer.body["region"]["id"]) == (201, "North")
    child = await cloud.make("/regions", {"region": {"parent_region_id": "North"}})
    assert len(child["id"]) == 32
    assert (await cloud.ask("DELETE", "/regions/North", user="admin")).status == 403
    body = {"region": {"description": "snow"}}
    answer = await cloud.ask("PATCH", "/regions/North", body, user="admin")
    assert answer.body["region"]["description"] == "snow"
    nothing = {"region": {"description": None}}
    answer = await cloud.ask("PATCH", "/regions/North", nothing, user="admin")
    assert (answer.status, answer.body["region"]["description"]) == (200, "")
    assert (await cloud.make("/regions", nothing))["description"] == ""


@pytest.mark.parametrize(
    "path",
    ["/projects", "/users", "/roles", "/domains", "/services", "/endpoints", "/role_assignments"],
)
async def test_a_member_may_not_list(cloud: IdentityCloud, path: str) -> None:
    assert (await cloud.ask("GET", path, user="demo")).status == 403


async def test_a_member_sees_itself(cloud: IdentityCloud) -> None:
    user_id, project_id = await cloud.id_of("users", "demo"), await cloud.id_of("projects", "demo")
    assert (await cloud.get(f"/users/{user_id}", user="demo"))["user"]["name"] == "demo"
    assert (await cloud.get(f"/projects/{project_id}", user="demo"))["project"]["name"] == "demo"
    projects = await cloud.get(f"/users/{user_id}/projects", user="demo")
    assert [project["name"] for project in projects["projects"]] == ["demo"]
    assert (await cloud.get(f"/users/{user_id}/groups", user="demo"))["groups"] == []
    assert (await cloud.get("/domains/default", user="demo"))["domain"]["id"] == "default"
    assert (await cloud.get("/regions", user="demo"))["regions"]
    other = await cloud.id_of("users", "admin")
    assert (await cloud.ask("GET", f"/users/{other}", user="demo")).status == 403
    other = await cloud.id_of("projects", "admin")
    assert (await cloud.ask("GET", f"/projects/{other}", user="demo")).status == 403


async def test_a_member_may_not_change_anything(cloud: IdentityCloud) -> None:
    user_id = await cloud.id_of("users", "demo")
    body = {"user": {"enabled": False}}
    assert (await cloud.ask("PATCH", f"/users/{user_id}", body, user="demo")).status == 403
    assert (
        await cloud.ask("POST", "/projects", {"project": {"name": "a"}}, user="demo")
    ).status == 403


async def test_a_system_reader_reads_everything(cloud: IdentityCloud) -> None:
    user_id, role_id = await cloud.id_of("users", "demo"), await cloud.id_of("roles", "reader")
    await cloud.ask("PUT", f"/system/users/{user_id}/roles/{role_id}", user="admin")
    answer = await cloud.log_in("demo", project=None, scope={"system": {"all": True}})
    token = answer.headers["x-subject-token"]
    assert (await cloud.ask("GET", "/users", user=token)).status == 200
    assert (await cloud.ask("POST", "/roles", {"role": {"name": "a"}}, user=token)).status == 403
