from __future__ import annotations

from typing import Any

import pytest

from mooring.identity.standing import INVALID
from tests.identity.cloud import DEFAULT, ROOT, URLS, IdentityCloud

pytestmark = pytest.mark.anyio


def scope(name: str) -> dict[str, Any]:
    return {"project": {"name": name, "domain": DEFAULT}}


async def exchange(cloud: IdentityCloud, token: str, **auth: Any) -> Any:
    identity = {"methods": ["token"], "token": {"id": token}}
    return await cloud.ask("POST", "/auth/tokens", {"auth": {"identity": identity, **auth}})


async def test_a_login_answers_with_a_short_token_and_the_catalogue(cloud: IdentityCloud) -> None:
    answer = await cloud.log_in("admin")
    token, text = answer.body["token"], answer.headers["x-subject-token"]
    assert answer.status == 201
    assert len(text) <= 255
    assert token["user"]["name"] == "admin"
    assert token["user"]["domain"] == {"id": "default", "name": "Default"}
    assert token["project"]["name"] == "admin"
    assert {role["name"] for role in token["roles"]} == {"admin", "manager", "member", "reader"}
    assert token["methods"] == ["password"]
    assert token["expires_at"] == "2026-01-01T01:00:00.000000Z"
    assert len(token["audit_ids"][0]) == 22
    kinds = {entry["type"]: entry["endpoints"] for entry in token["catalog"]}
    assert set(kinds) == set(URLS)
    assert {point["interface"] for point in kinds["compute"]} == {"public", "internal", "admin"}
    assert kinds["compute"][0]["region_id"] == kinds["compute"][0]["region"] == "RegionOne"


async def test_the_longest_token_is_short_enough(cloud: IdentityCloud) -> None:
    first = (await cloud.log_in("admin", project=None)).headers["x-subject-token"]
    again = await exchange(cloud, first, scope=scope("admin"))
    assert len(again.headers["x-subject-token"]) <= 255


@pytest.mark.parametrize(
    "user",
    [
        {"name": "admin", "domain": DEFAULT, "password": "wrong"},
        {"name": "nobody", "domain": DEFAULT, "password": "wrong"},
        {"name": "admin", "domain": {"name": "Elsewhere"}, "password": "wrong"},
        {"id": "f" * 32, "password": "wrong"},
        {"id": "not-an-id", "password": "x" * 5000},
    ],
)
async def test_every_failed_login_is_the_same_401(
    cloud: IdentityCloud, user: dict[str, Any]
) -> None:
    identity = {"methods": ["password"], "password": {"user": user}}
    answer = await cloud.ask("POST", "/auth/tokens", {"auth": {"identity": identity}})
    assert answer.status == 401
    assert answer.body["error"] == {"code": 401, "title": "Unauthorized", "message": INVALID}
    assert answer.headers["www-authenticate"] == f'Keystone uri="{ROOT}/v3"'


@pytest.mark.parametrize(
    "where",
    [
        scope("service"),
        scope("nowhere"),
        {"project": {"id": "f" * 32}},
        {"domain": DEFAULT},
        {"domain": {"id": "nowhere"}},
        {"system": {"all": True}},
    ],
)
async def test_a_scope_without_a_role_is_the_same_401(
    cloud: IdentityCloud, where: dict[str, Any]
) -> None:
    answer = await cloud.log_in("demo", project=None, scope=where)
    assert (answer.status, answer.body["error"]["message"]) == (401, INVALID)


@pytest.mark.parametrize(
    ("auth", "named"),
    [
        ({}, "identity"),
        ({"identity": {"methods": ["password"]}}, "password"),
        ({"identity": {"methods": ["password"], "password": {"user": {"name": "a"}}}}, "password"),
        (
            {
                "identity": {
                    "methods": ["password"],
                    "password": {"user": {"name": "a", "password": "b"}},
                }
            },
            "domain",
        ),
        (
            {
                "identity": {
                    "methods": ["password"],
                    "password": {"user": {"domain": DEFAULT, "password": "b"}},
                }
            },
            "name",
        ),
    ],
)
async def test_a_login_that_lacks_something_is_400_and_names_it(
    cloud: IdentityCloud, auth: dict[str, Any], named: str
) -> None:
    answer = await cloud.ask("POST", "/auth/tokens", {"auth": auth})
    assert answer.status == 400
    assert named in answer.body["error"]["message"]


async def test_an_unknown_method_is_401_and_names_the_known_ones(cloud: IdentityCloud) -> None:
    identity = {"methods": ["magic"]}
    answer = await cloud.ask("POST", "/auth/tokens", {"auth": {"identity": identity}})
    assert answer.status == 401
    assert "password" in answer.body["error"]["identity"]["methods"]


@pytest.mark.parametrize(
    "other", [{"domain": DEFAULT}, {"system": {"all": True}}, {"unscoped": dict[str, Any]()}]
)
async def test_a_token_is_for_one_scope(cloud: IdentityCloud, other: dict[str, Any]) -> None:
    answer = await cloud.log_in("admin", project=None, scope=scope("admin") | other)
    assert (answer.status, "one scope" in answer.body["error"]["message"]) == (400, True)


async def test_without_a_scope_a_token_has_no_roles_and_no_catalogue(cloud: IdentityCloud) -> None:
    answer = await cloud.log_in("admin", project=None)
    assert not {"project", "roles", "catalog"} & set(answer.body["token"])
    projects = await cloud.get("/auth/projects", user=answer.headers["x-subject-token"])
    assert [project["name"] for project in projects["projects"]] == ["admin"]


@pytest.mark.parametrize("unscoped", ["unscoped", {"unscoped": {}}])
async def test_the_default_project_is_the_scope_unless_none_is_wanted(
    cloud: IdentityCloud, unscoped: Any
) -> None:
    user_id = await cloud.id_of("users", "demo")
    body = {"user": {"default_project_id": await cloud.id_of("projects", "demo")}}
    assert (await cloud.ask("PATCH", f"/users/{user_id}", body, user="admin")).status == 200
    answer = await cloud.log_in("demo", project=None)
    assert answer.body["token"]["project"]["name"] == "demo"
    answer = await cloud.log_in("demo", project=None, scope=unscoped)
    assert "project" not in answer.body["token"]


async def test_a_default_project_without_a_role_is_left_out(cloud: IdentityCloud) -> None:
    user_id = await cloud.id_of("users", "demo")
    body = {"user": {"default_project_id": await cloud.id_of("projects", "admin")}}
    await cloud.ask("PATCH", f"/users/{user_id}", body, user="admin")
    assert "project" not in (await cloud.log_in("demo", project=None)).body["token"]


async def test_the_admin_reaches_the_system(cloud: IdentityCloud) -> None:
    answer = await cloud.log_in("admin", project=None, scope={"system": {"all": True}})
    assert answer.body["token"]["system"] == {"all": True}
    assert (await cloud.get("/auth/system", user="admin"))["system"] == [{"all": True}]
    assert (await cloud.get("/auth/system", user="demo"))["system"] == []


async def test_an_exchange_keeps_the_end_and_the_root_of_the_chain(cloud: IdentityCloud) -> None:
    first = await cloud.log_in("admin", project=None)
    cloud.clock.advance(600)
    second = await exchange(cloud, first.headers["x-subject-token"], scope=scope("admin"))
    token = second.body["token"]
    assert token["methods"] == ["token", "password"]
    assert token["expires_at"] == first.body["token"]["expires_at"]
    assert token["audit_ids"][1] == first.body["token"]["audit_ids"][0]
    third = await exchange(cloud, second.headers["x-subject-token"], scope=scope("admin"))
    assert third.body["token"]["methods"] == ["token", "password"]
    assert third.body["token"]["audit_ids"][1] == first.body["token"]["audit_ids"][0]


async def test_an_exchange_of_nonsense_is_401(cloud: IdentityCloud) -> None:
    for text in ("nonsense", "", "gAAAAA" * 20, "ü"):
        assert (await exchange(cloud, text)).status == 401


async def test_nocatalog_leaves_the_catalogue_out(cloud: IdentityCloud) -> None:
    answer = await cloud.show(await cloud.token("demo"), query="?nocatalog")
    assert "catalog" not in answer.body["token"]
    assert answer.body["token"]["project"]["name"] == "demo"


async def test_a_service_user_holds_admin_and_service(cloud: IdentityCloud) -> None:
    roles = {role["name"] for role in (await cloud.log_in("volume")).body["token"]["roles"]}
    assert roles >= {"admin", "service"}


async def test_the_catalogue_is_shown_to_whoever_has_a_scope(cloud: IdentityCloud) -> None:
    found = await cloud.get("/auth/catalog", user="demo")
    assert {entry["type"] for entry in found["catalog"]} == set(URLS)
    unscoped = (await cloud.log_in("demo", project=None)).headers["x-subject-token"]
    assert (await cloud.ask("GET", "/auth/catalog", user=unscoped)).status == 404
