from __future__ import annotations

from typing import Any

import pytest

from tests.identity.town import DEFAULT, Answer, Town, turn

pytestmark = pytest.mark.anyio


async def make(town: Town, by: str = "demo", **values: Any) -> Answer:
    user_id = await town.id_of("users", "demo")
    new: dict[str, Any] = {"name": "key", "access_rules": [], **values}
    body = {"application_credential": new}
    return await town.ask("POST", f"/users/{user_id}/application_credentials", body, by=by)


async def log_in(town: Town, shown: dict[str, Any], **auth: Any) -> Answer:
    identity = {"methods": ["application_credential"], "application_credential": shown}
    return await town.ask("POST", "/auth/tokens", {"auth": {"identity": identity, **auth}})


async def key_token(town: Town, **values: Any) -> str:
    made = (await make(town, **values)).json["application_credential"]
    answer = await log_in(town, {"id": made["id"], "secret": made["secret"]})
    assert answer.status == 201, answer
    return answer.headers["x-subject-token"]


async def test_a_credential_stands_for_the_roles_of_the_token(town: Town) -> None:
    made = (await make(town)).json["application_credential"]
    assert len(made["secret"]) == 86
    assert sorted(role["name"] for role in made["roles"]) == ["member", "reader"]
    answer = await log_in(town, {"id": made["id"], "secret": made["secret"]})
    token = answer.json["token"]
    assert token["project"]["name"] == "demo"
    assert token["methods"] == ["application_credential"]
    assert token["application_credential"] == {
        "id": made["id"],
        "name": "key",
        "restricted": True,
    }
    assert len(answer.headers["x-subject-token"]) <= 255


async def test_the_secret_is_shown_once(town: Town) -> None:
    made = (await make(town)).json["application_credential"]
    user_id = await town.id_of("users", "demo")
    path = f"/users/{user_id}/application_credentials"
    [listed] = (await town.get(path, by="demo"))["application_credentials"]
    shown = (await town.get(f"{path}/{made['id']}", by="demo"))["application_credential"]
    assert listed == shown == {key: value for key, value in made.items() if key != "secret"}
    assert (await town.get(f"{path}?name=other", by="demo"))["application_credentials"] == []
    assert (await town.ask("GET", f"{path}/key", by="demo")).status == 404


async def test_a_secret_of_ones_own_and_a_name_will_do(town: Town) -> None:
    await make(town, secret="my own", roles=[{"name": "reader"}])
    user = {"name": "demo", "domain": DEFAULT}
    answer = await log_in(town, {"name": "key", "secret": "my own", "user": user})
    assert [role["name"] for role in answer.json["token"]["roles"]] == ["reader"]


@pytest.mark.parametrize(
    "shown",
    [
        {"id": "f" * 32, "secret": "x"},
        {"name": "key", "secret": "wrong", "user": {"name": "demo", "domain": DEFAULT}},
        {"name": "key", "secret": "wrong", "user": {"name": "nobody", "domain": DEFAULT}},
    ],
)
async def test_a_wrong_secret_is_401(town: Town, shown: dict[str, Any]) -> None:
    await make(town)
    assert (await log_in(town, shown)).status == 401


async def test_a_name_without_a_user_is_400(town: Town) -> None:
    assert (await log_in(town, {"name": "key", "secret": "x"})).status == 400


async def test_a_credential_takes_no_scope(town: Town) -> None:
    made = (await make(town)).json["application_credential"]
    answer = await log_in(
        town,
        {"id": made["id"], "secret": made["secret"]},
        scope={"project": {"name": "demo", "domain": DEFAULT}},
    )
    assert answer.status == 401
    assert answer.json["error"]["identity"] == {}


async def test_its_token_cannot_be_exchanged(town: Town) -> None:
    token = await key_token(town)
    identity = {"methods": ["token"], "token": {"id": token}}
    answer = await town.ask("POST", "/auth/tokens", {"auth": {"identity": identity}})
    assert answer.status == 403
    assert "delegated token" in answer.json["error"]["message"]


async def test_only_an_unrestricted_one_makes_and_deletes_others(town: Town) -> None:
    user_id = await town.id_of("users", "demo")
    restricted = await key_token(town)
    assert (await make(town, by=restricted, name="b")).status == 403
    free = await key_token(town, name="free", unrestricted=True)
    made = await make(town, by=free, name="b")
    assert made.status == 201
    path = f"/users/{user_id}/application_credentials/{made.json['application_credential']['id']}"
    assert (await town.ask("DELETE", path, by=restricted)).status == 403
    assert (await town.ask("DELETE", path, by=free)).status == 204


async def test_its_tokens_end_with_it(town: Town) -> None:
    made = (await make(town)).json["application_credential"]
    answer = await log_in(town, {"id": made["id"], "secret": made["secret"]})
    token = answer.headers["x-subject-token"]
    user_id = await town.id_of("users", "demo")
    path = f"/users/{user_id}/application_credentials/{made['id']}"
    assert (await town.ask("DELETE", path, by="demo")).status == 204
    assert (await town.show(token)).status == 404
    assert (await town.ask("DELETE", path, by="demo")).status == 404


async def test_its_tokens_end_with_a_role_of_its_user(town: Town) -> None:
    token = await key_token(town, roles=[{"name": "reader"}])
    user_id, role_id = await town.id_of("users", "demo"), await town.id_of("roles", "member")
    project_id = await town.id_of("projects", "demo")
    path = f"/projects/{project_id}/users/{user_id}/roles/{role_id}"
    assert (await town.ask("DELETE", path, by="admin")).status == 204
    assert (await town.show(token)).status == 404


async def test_its_tokens_end_at_its_own_end(town: Town) -> None:
    token = await key_token(town, expires_at="2026-01-01T00:10:00.000000Z")
    turn(town, 601)
    assert (await town.show(token)).status == 404


@pytest.mark.parametrize(
    "values",
    [
        {"roles": [{"name": "admin"}]},
        {"roles": [{"id": "none"}]},
        {"expires_at": "tomorrow"},
        {"expires_at": "2025-01-01T00:00:00Z"},
        {"access_rules": [{"service": "compute", "method": "GET", "path": "/"}]},
        {"name": ""},
    ],
)
async def test_a_credential_that_cannot_be_is_400(town: Town, values: dict[str, Any]) -> None:
    assert (await make(town, **values)).status == 400


async def test_a_name_is_taken_once_per_user(town: Town) -> None:
    assert (await make(town)).status == 201
    assert (await make(town)).status == 409


async def test_it_needs_a_token_for_a_project(town: Town) -> None:
    unscoped = (await town.log_in("demo", project=None)).headers["x-subject-token"]
    assert (await make(town, by=unscoped)).status == 400


async def test_nobody_makes_one_for_another(town: Town) -> None:
    assert (await make(town, by="admin")).status == 403
    user_id = await town.id_of("users", "admin")
    path = f"/users/{user_id}/application_credentials"
    assert (await town.ask("GET", path, by="demo")).status == 403
