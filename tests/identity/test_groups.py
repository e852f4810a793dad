from __future__ import annotations

from typing import Any

import pytest

from tests.identity.cloud import DEFAULT, ROOT, IdentityCloud

pytestmark = pytest.mark.anyio


async def make_group(cloud: IdentityCloud, name: str = "crew") -> str:
    return (await cloud.make("/groups", {"group": {"name": name}}))["id"]


async def make_user(cloud: IdentityCloud, name: str = "ann") -> str:
    return (await cloud.make("/users", {"user": {"name": name, "password": "secret"}}))["id"]


async def write(cloud: IdentityCloud, method: str, path: str, body: Any = None) -> int:
    return (await cloud.ask(method, path, body, user="admin")).status


async def assignments(cloud: IdentityCloud, query: str) -> list[Any]:
    return (await cloud.get(f"/role_assignments?{query}"))["role_assignments"]


async def test_a_group_is_made_listed_changed_and_deleted(cloud: IdentityCloud) -> None:
    body = {"group": {"name": "crew", "description": "all hands", "colour": "blue"}}
    made = await cloud.make("/groups", body)
    path = f"/groups/{made['id']}"
    assert made == {
        **body["group"],
        "id": made["id"],
        "domain_id": "default",
        "links": {"self": f"{ROOT}/v3{path}"},
    }
    assert await write(cloud, "POST", "/groups", body) == 409
    assert (await cloud.get("/groups?name=crew"))["groups"] == [made]
    assert (await cloud.get("/groups?domain_id=other"))["groups"] == []
    change = {"group": {"name": "watch"}}
    changed = (await cloud.ask("PATCH", path, change, user="admin")).body["group"]
    assert changed == made | {"name": "watch"}
    assert await write(cloud, "DELETE", path) == 204
    assert await write(cloud, "GET", path) == 404


@pytest.mark.parametrize("group", [{}, {"name": ""}, {"name": "x" * 65}, {"name": 1}])
async def test_a_group_that_makes_no_sense_is_400(
    cloud: IdentityCloud, group: dict[str, Any]
) -> None:
    assert await write(cloud, "POST", "/groups", {"group": group}) == 400


async def test_a_group_of_an_unknown_domain_is_404(cloud: IdentityCloud) -> None:
    body = {"group": {"name": "crew", "domain_id": "other"}}
    assert await write(cloud, "POST", "/groups", body) == 404


async def test_users_are_put_into_a_group_and_taken_out(cloud: IdentityCloud) -> None:
    group_id, user_id = await make_group(cloud), await make_user(cloud)
    members = f"/groups/{group_id}/users"
    path = f"{members}/{user_id}"
    assert await write(cloud, "HEAD", path) == 404
    assert {await write(cloud, "PUT", path), await write(cloud, "PUT", path)} == {204}
    assert await write(cloud, "HEAD", path) == 204
    found = (await cloud.get(members))["users"]
    assert found == [(await cloud.get(f"/users/{user_id}"))["user"]]
    assert (await cloud.get(f"{members}?name=bob"))["users"] == []
    [group] = (await cloud.get(f"/users/{user_id}/groups"))["groups"]
    assert (group["id"], group["membership_expires_at"]) == (group_id, None)
    assert await write(cloud, "DELETE", path) == 204
    assert await write(cloud, "DELETE", path) == 404
    assert (await cloud.get(members))["users"] == []
    assert await write(cloud, "PUT", f"{members}/nobody") == 404
    assert await write(cloud, "GET", "/groups/none/users") == 404


async def test_the_roles_of_a_group_are_those_of_its_users_for_as_long_as_they_are_in_it(
    cloud: IdentityCloud,
) -> None:
    group_id, user_id = await make_group(cloud), await make_user(cloud)
    project_id = await cloud.id_of("projects", "demo")
    role_id = await cloud.id_of("roles", "member")
    grants = f"/projects/{project_id}/groups/{group_id}/roles"
    assert await write(cloud, "PUT", f"{grants}/{role_id}") == 204
    assert await write(cloud, "HEAD", f"{grants}/{role_id}") == 204
    assert [role["id"] for role in (await cloud.get(grants))["roles"]] == [role_id]
    assert (await cloud.log_in("ann", "secret", project="demo")).status == 401
    member = f"/groups/{group_id}/users/{user_id}"
    assert await write(cloud, "PUT", member) == 204
    answer = await cloud.log_in("ann", "secret", project="demo")
    assert {role["name"] for role in answer.body["token"]["roles"]} == {"member", "reader"}
    token = answer.headers["x-subject-token"]
    projects = (await cloud.get("/auth/projects", user=token))["projects"]
    assert [project["id"] for project in projects] == [project_id]
    assert await write(cloud, "DELETE", member) == 204
    assert (await cloud.show(token)).status == 404
    assert await write(cloud, "PUT", member) == 204
    token = (await cloud.log_in("ann", "secret", project="demo")).headers["x-subject-token"]
    assert (await cloud.show(token)).status == 200
    assert await write(cloud, "DELETE", f"{grants}/{role_id}") == 204
    assert await write(cloud, "DELETE", f"{grants}/{role_id}") == 404
    assert (await cloud.show(token)).status == 404


async def test_a_role_that_one_has_twice_is_kept_when_one_of_them_goes(
    cloud: IdentityCloud,
) -> None:
    group_id = await make_group(cloud)
    user_id = await cloud.add_user("ann", "secret", role="member", project="demo")
    project_id = await cloud.id_of("projects", "demo")
    role_id = await cloud.id_of("roles", "member")
    grant = f"/projects/{project_id}/groups/{group_id}/roles/{role_id}"
    assert await write(cloud, "PUT", grant) == 204
    assert await write(cloud, "PUT", f"/groups/{group_id}/users/{user_id}") == 204
    answer = await cloud.log_in("ann", project="demo")
    assert len(answer.body["token"]["roles"]) == 2
    token = answer.headers["x-subject-token"]
    assert await write(cloud, "DELETE", f"/groups/{group_id}") == 204
    assert (await cloud.show(token)).status == 200


@pytest.mark.parametrize("place", ["/domains/default", "/system"])
async def test_a_group_has_roles_on_domains_and_on_the_system(
    cloud: IdentityCloud, place: str
) -> None:
    group_id, user_id = await make_group(cloud), await make_user(cloud)
    role_id = await cloud.id_of("roles", "reader")
    path = f"{place}/groups/{group_id}/roles"
    assert await write(cloud, "PUT", f"{path}/{role_id}") == 204
    assert await write(cloud, "PUT", f"/groups/{group_id}/users/{user_id}") == 204
    assert [role["name"] for role in (await cloud.get(path))["roles"]] == ["reader"]
    scope = {"system": {"all": True}} if place == "/system" else {"domain": DEFAULT}
    answer = await cloud.log_in("ann", "secret", project=None, scope=scope)
    assert [role["name"] for role in answer.body["token"]["roles"]] == ["reader"]
    token = answer.headers["x-subject-token"]
    listed = "system" if place == "/system" else "domains"
    assert len((await cloud.get(f"/auth/{listed}", user=token))[listed]) == 1
    assert await write(cloud, "DELETE", f"{path}/{role_id}") == 204
    assert (await cloud.show(token)).status == 404


async def test_assignments_name_groups_and_effective_ones_their_users(
    cloud: IdentityCloud,
) -> None:
    group_id, user_id = await make_group(cloud), await make_user(cloud)
    project_id = await cloud.id_of("projects", "demo")
    role_id = await cloud.id_of("roles", "member")
    place = f"/projects/{project_id}/groups/{group_id}/roles/{role_id}"
    member = f"/groups/{group_id}/users/{user_id}"
    for path in (place, member):
        assert await write(cloud, "PUT", path) == 204
    [row] = await assignments(cloud, f"group.id={group_id}&include_names")
    assert row["group"] == {
        "id": group_id,
        "name": "crew",
        "domain": {"id": "default", "name": "Default"},
    }
    assert "user" not in row
    assert row["links"] == {"assignment": f"{ROOT}/v3{place}"}
    assert row in await assignments(cloud, f"scope.project.id={project_id}&include_names")
    assert await assignments(cloud, f"user.id={user_id}") == []
    first, second = sorted(
        await assignments(cloud, f"user.id={user_id}&effective"), key=lambda row: len(row["links"])
    )
    assert first["user"] == second["user"] == {"id": user_id}
    assert first["links"] == {
        "assignment": f"{ROOT}/v3{place}",
        "membership": f"{ROOT}/v3{member}",
    }
    assert second["links"]["prior_role"] == f"{ROOT}/v3/roles/{role_id}"
    assert await write(cloud, "GET", f"/role_assignments?group.id={group_id}&effective") == 400


@pytest.mark.parametrize("kind", ["users", "projects", "roles"])
async def test_what_is_deleted_leaves_its_groups(cloud: IdentityCloud, kind: str) -> None:
    group_id, user_id = await make_group(cloud), await make_user(cloud)
    project_id = (await cloud.make("/projects", {"project": {"name": "p"}}))["id"]
    role_id = (await cloud.make("/roles", {"role": {"name": "r"}}))["id"]
    for path in (
        f"/projects/{project_id}/groups/{group_id}/roles/{role_id}",
        f"/groups/{group_id}/users/{user_id}",
    ):
        assert await write(cloud, "PUT", path) == 204
    gone = {"users": user_id, "projects": project_id, "roles": role_id}[kind]
    assert await write(cloud, "DELETE", f"/{kind}/{gone}") == 204
    users = (await cloud.get(f"/groups/{group_id}/users"))["users"]
    rows = await assignments(cloud, f"group.id={group_id}")
    assert (len(users), len(rows)) == ((0, 1) if kind == "users" else (1, 0))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/groups"),
        ("POST", "/groups"),
        ("PUT", "/groups/g/users/u"),
        ("PUT", "/projects/p/groups/g/roles/r"),
        ("PUT", "/system/groups/g/roles/r"),
        ("POST", "/domains"),
        ("PUT", "/roles/a/implies/b"),
    ],
)
async def test_who_is_no_admin_is_refused(cloud: IdentityCloud, method: str, path: str) -> None:
    body = {path.strip("/")[:-1]: {"name": "a"}} if method == "POST" else None
    assert (await cloud.ask(method, path, body, user="demo")).status == 403


@pytest.mark.parametrize("taken", ["the role", "the membership"])
async def test_what_a_group_gives_again_comes_back_to_no_token_of_before(
    cloud: IdentityCloud, taken: str
) -> None:
    user_id = await cloud.add_user("ann", "secret", role="member", project="demo")
    group_id, project_id = await make_group(cloud), await cloud.id_of("projects", "demo")
    member = f"/groups/{group_id}/users/{user_id}"
    role = f"/projects/{project_id}/groups/{group_id}/roles/{await cloud.id_of('roles', 'service')}"
    again = role if taken == "the role" else member
    for path in (member, role):
        assert await write(cloud, "PUT", path) == 204
    tokens: list[str] = []
    for method in ("DELETE", "PUT"):
        answer = await cloud.log_in("ann", project="demo")
        tokens.append(answer.headers["x-subject-token"])
        assert await write(cloud, method, again) == 204
    assert [(await cloud.show(token)).status for token in tokens] == [404, 404]
    now = await cloud.log_in("ann", project="demo")
    assert "service" in {one["name"] for one in now.body["token"]["roles"]}
