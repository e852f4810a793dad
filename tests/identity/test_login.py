from __future__ import annotations

from typing import Any

import pytest

from mooring.identity.standing import INVALID
from tests.identity.town import DEFAULT, Town, turn

pytestmark = pytest.mark.anyio


def scope(name: str) -> dict[str, Any]:
    return {"project": {"name": name, "domain": DEFAULT}}


async def exchange(town: Town, token: str, **auth: Any) -> Any:
    identity = {"methods": ["token"], "token": {"id": token}}
    return await town.ask("POST", "/auth/tokens", {"auth": {"identity": identity, **auth}})


async def test_a_login_answers_with_a_short_token_and_the_catalogue(town: Town) -> None:
    answer = await town.log_in("admin")
    token, text = answer.json["token"], answer.headers["x-subject-token"]
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
    assert set(kinds) == {"identity", "compute", "block-storage"}
    assert {point["interface"] for point in kinds["compute"]} == {"public", "internal", "admin"}
    assert kinds["compute"][0]["region_id"] == kinds["compute"][0]["region"] == "RegionOne"


async def test_the_longest_token_is_short_enough(town: Town) -> None:
    first = (await town.log_in("admin", project=None)).headers["x-subject-token"]
    again = await exchange(town, first, scope=scope("admin"))
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
async def test_every_failed_login_is_the_same_401(town: Town, user: dict[str, Any]) -> None:
    identity = {"methods": ["password"], "password": {"user": user}}
    answer = await town.ask("POST", "/auth/tokens", {"auth": {"identity": identity}})
    assert answer.status == 401
    assert answer.json["error"] == {"code": 401, "title": "Unauthorized", "message": INVALID}
    assert answer.headers["www-authenticate"] == 'Keystone uri="http://town/identity/v3"'


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
async def test_a_scope_without_a_role_is_the_same_401(town: Town, where: dict[str, Any]) -> None:
    answer = await town.log_in("demo", project=None, scope=where)
    assert (answer.status, answer.json["error"]["message"]) == (401, INVALID)


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
    town: Town, auth: dict[str, Any], named: str
) -> None:
    answer = await town.ask("POST", "/auth/tokens", {"auth": auth})
    assert answer.status == 400
    assert named in answer.json["error"]["message"]


async def test_an_unknown_method_is_401_and_names_the_known_ones(town: Town) -> None:
    identity = {"methods": ["magic"]}
    answer = await town.ask("POST", "/auth/tokens", {"auth": {"identity": identity}})
    assert answer.status == 401
    assert "password" in answer.json["error"]["identity"]["methods"]


async def test_without_a_scope_a_token_has_no_roles_and_no_catalogue(town: Town) -> None:
    answer = await town.log_in("admin", project=None)
    assert not {"project", "roles", "catalog"} & set(answer.json["token"])
    projects = await town.get("/auth/projects", by=answer.headers["x-subject-token"])
    assert [project["name"] for project in projects["projects"]] == ["admin"]


@pytest.mark.parametrize("unscoped", ["unscoped", {"unscoped": {}}])
async def test_the_default_project_is_the_scope_unless_none_is_wanted(
    town: Town, unscoped: Any
) -> None:
    user_id = await town.id_of("users", "demo")
    body = {"user": {"default_project_id": await town.id_of("projects", "demo")}}
    assert (await town.ask("PATCH", f"/users/{user_id}", body, by="admin")).status == 200
    answer = await town.log_in("demo", project=None)
    assert answer.json["token"]["project"]["name"] == "demo"
    answer = await town.log_in("demo", project=None, scope=unscoped)
    assert "project" not in answer.json["token"]


async def test_a_default_project_without_a_role_is_left_out(town: Town) -> None:
    user_id = await town.id_of("users", "demo")
    body = {"user": {"default_project_id": await town.id_of("projects", "admin")}}
    await town.ask("PATCH", f"/users/{user_id}", body, by="admin")
    assert "project" not in (await town.log_in("demo", project=None)).json["token"]


async def test_the_admin_reaches_the_system(town: Town) -> None:
    answer = await town.log_in("admin", project=None, scope={"system": {"all": True}})
    assert answer.json["token"]["system"] == {"all": True}
    assert (await town.get("/auth/system", by="admin"))["system"] == [{"all": True}]
    assert (await town.get("/auth/system", by="demo"))["system"] == []


async def test_an_exchange_keeps_the_end_and_the_root_of_the_chain(town: Town) -> None:
    first = await town.log_in("admin", project=None)
    turn(town, 600)
    second = await exchange(town, first.headers["x-subject-token"], scope=scope("admin"))
    token = second.json["token"]
    assert token["methods"] == ["token", "password"]
    assert token["expires_at"] == first.json["token"]["expires_at"]
    assert token["audit_ids"][1] == first.json["token"]["audit_ids"][0]
    third = await exchange(town, second.headers["x-subject-token"], scope=scope("admin"))
    assert third.json["token"]["methods"] == ["token", "password"]
    assert third.json["token"]["audit_ids"][1] == first.json["token"]["audit_ids"][0]


async def test_an_exchange_of_nonsense_is_401(town: Town) -> None:
    for text in ("nonsense", "", "gAAAAA" * 20, "ü"):
        assert (await exchange(town, text)).status == 401


async def test_nocatalog_leaves_the_catalogue_out(town: Town) -> None:
    answer = await town.show(await town.token("demo"), query="?nocatalog")
    assert "catalog" not in answer.json["token"]
    assert answer.json["token"]["project"]["name"] == "demo"


async def test_a_service_user_holds_admin_and_service(town: Town) -> None:
    roles = {role["name"] for role in (await town.log_in("volume")).json["token"]["roles"]}
    assert roles >= {"admin", "service"}


async def test_the_catalogue_is_shown_to_whoever_has_a_scope(town: Town) -> None:
    found = await town.get("/auth/catalog", by="demo")
    assert {entry["type"] for entry in found["catalog"]} == {"identity", "compute", "block-storage"}
    unscoped = (await town.log_in("demo", project=None)).headers["x-subject-token"]
    assert (await town.ask("GET", "/auth/catalog", by=unscoped)).status == 404
