from __future__ import annotations

from typing import Any

import pytest

from mooring.identity import credentials
from tests.identity.cloud import DEFAULT, Answer, IdentityCloud

pytestmark = pytest.mark.anyio


async def make(cloud: IdentityCloud, user: str = "demo", **values: Any) -> Answer:
    user_id = await cloud.id_of("users", "demo")
    new: dict[str, Any] = {"name": "key", "access_rules": [], **values}
    body = {"application_credential": new}
    return await cloud.ask("POST", f"/users/{user_id}/application_credentials", body, user=user)


async def log_in(cloud: IdentityCloud, shown: dict[str, Any], **auth: Any) -> Answer:
    identity = {"methods": ["application_credential"], "application_credential": shown}
    return await cloud.ask("POST", "/auth/tokens", {"auth": {"identity": identity, **auth}})


async def key_token(cloud: IdentityCloud, **values: Any) -> str:
    made = (await make(cloud, **values)).body["application_credential"]
    answer = await log_in(cloud, {"id": made["id"], "secret": made["secret"]})
    assert answer.status == 201, answer
    return answer.headers["x-subject-token"]


async def test_a_credential_stands_for_the_roles_of_the_token(cloud: IdentityCloud) -> None:
    made = (await make(cloud)).body["application_credential"]
    assert len(made["secret"]) == 86
    assert sorted(role["name"] for role in made["roles"]) == ["member", "reader"]
    answer = await log_in(cloud, {"id": made["id"], "secret": made["secret"]})
    token = answer.body["token"]
    assert token["project"]["name"] == "demo"
    assert token["methods"] == ["application_credential"]
    assert token["application_credential"] == {
        "id": made["id"],
        "name": "key",
        "restricted": True,
    }
    assert len(answer.headers["x-subject-token"]) <= 255


async def test_the_secret_is_shown_once(cloud: IdentityCloud) -> None:
    made = (await make(cloud)).body["application_credential"]
    user_id = await cloud.id_of("users", "demo")
    path = f"/users/{user_id}/application_credentials"
    [listed] = (await cloud.get(path, user="demo"))["application_credentials"]
    shown = (await cloud.get(f"{path}/{made['id']}", user="demo"))["application_credential"]
    assert listed == shown == {key: value for key, value in made.items() if key != "secret"}
    assert (await cloud.get(f"{path}?name=other", user="demo"))["application_credentials"] == []
    assert (await cloud.ask("GET", f"{path}/key", user="demo")).status == 404


async def test_a_secret_of_ones_own_and_a_name_will_do(cloud: IdentityCloud) -> None:
    await make(cloud, secret="my own", roles=[{"name": "reader"}])
    user = {"name": "demo", "domain": DEFAULT}
    answer = await log_in(cloud, {"name": "key", "secret": "my own", "user": user})
    assert [role["name"] for role in answer.body["token"]["roles"]] == ["reader"]


@pytest.mark.parametrize(
    "shown",
    [
        {"id": "f" * 32, "secret": "x"},
        {"name": "key", "secret": "wrong", "user": {"name": "demo", "domain": DEFAULT}},
        {"name": "key", "secret": "wrong", "user": {"name": "nobody", "domain": DEFAULT}},
    ],
)
async def test_a_wrong_secret_is_401(cloud: IdentityCloud, shown: dict[str, Any]) -> None:
    await make(cloud)
    assert (await log_in(cloud, shown)).status == 401


async def test_a_name_without_a_user_is_400(cloud: IdentityCloud) -> None:
    assert (await log_in(cloud, {"name": "key", "secret": "x"})).status == 400


async def test_a_credential_takes_no_scope(cloud: IdentityCloud) -> None:
    made = (await make(cloud)).body["application_credential"]
    answer = await log_in(
        cloud,
        {"id": made["id"], "secret": made["secret"]},
        scope={"project": {"name": "demo", "domain": DEFAULT}},
    )
    assert answer.status == 401
    assert answer.body["error"]["identity"] == {}


async def test_its_token_cannot_be_exchanged(cloud: IdentityCloud) -> None:
    token = await key_token(cloud)
    identity = {"methods": ["token"], "token": {"id": token}}
    answer = await cloud.ask("POST", "/auth/tokens", {"auth": {"identity": identity}})
    assert answer.status == 403
    assert "delegated token" in answer.body["error"]["message"]


async def test_only_an_unrestricted_one_makes_and_deletes_others(cloud: IdentityCloud) -> None:
    user_id = await cloud.id_of("users", "demo")
    restricted = await key_token(cloud)
    assert (await make(cloud, user=restricted, name="b")).status == 403
    free = await key_token(cloud, name="free", unrestricted=True)
    made = await make(cloud, user=free, name="b")
    assert made.status == 201
    path = f"/users/{user_id}/application_credentials/{made.body['application_credential']['id']}"
    assert (await cloud.ask("DELETE", path, user=restricted)).status == 403
    assert (await cloud.ask("DELETE", path, user=free)).status == 204


async def test_its_tokens_end_with_it(cloud: IdentityCloud) -> None:
    made = (await make(cloud)).body["application_credential"]
    answer = await log_in(cloud, {"id": made["id"], "secret": made["secret"]})
    token = answer.headers["x-subject-token"]
    user_id = await cloud.id_of("users", "demo")
    path = f"/users/{user_id}/application_credentials/{made['id']}"
    assert (await cloud.ask("DELETE", path, user="demo")).status == 204
    assert (await cloud.show(token)).status == 404
    assert (await cloud.ask("DELETE", path, user="demo")).status == 404


async def test_its_tokens_end_with_a_role_of_its_user(cloud: IdentityCloud) -> None:
    token = await key_token(cloud, roles=[{"name": "reader"}])
    user_id, role_id = await cloud.id_of("users", "demo"), await cloud.id_of("roles", "member")
    project_id = await cloud.id_of("projects", "demo")
    path = f"/projects/{project_id}/users/{user_id}/roles/{role_id}"
    assert (await cloud.ask("DELETE", path, user="admin")).status == 204
    assert (await cloud.show(token)).status == 404


async def test_its_end_is_shown_without_a_zone(cloud: IdentityCloud) -> None:
    made = (await make(cloud, expires_at="2026-01-01T02:10:00+01:00")).body
    assert made["application_credential"]["expires_at"] == "2026-01-01T01:10:00.000000"


async def test_its_tokens_end_at_its_own_end(cloud: IdentityCloud) -> None:
    token = await key_token(cloud, expires_at="2026-01-01T00:10:00.000000Z")
    cloud.clock.advance(601)
    assert (await cloud.show(token)).status == 404


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
async def test_a_credential_that_cannot_be_is_400(
    cloud: IdentityCloud, values: dict[str, Any]
) -> None:
    assert (await make(cloud, **values)).status == 400


async def test_a_name_is_taken_once_per_user(cloud: IdentityCloud) -> None:
    assert (await make(cloud)).status == 201
    assert (await make(cloud)).status == 409


async def test_it_needs_a_token_for_a_project(cloud: IdentityCloud) -> None:
    unscoped = (await cloud.log_in("demo", project=None)).headers["x-subject-token"]
    assert (await make(cloud, user=unscoped)).status == 400


async def test_nobody_makes_one_for_another(cloud: IdentityCloud) -> None:
    assert (await make(cloud, user="admin")).status == 403
    user_id = await cloud.id_of("users", "admin")
    path = f"/users/{user_id}/application_credentials"
    assert (await cloud.ask("GET", path, user="demo")).status == 403


async def test_a_user_has_so_many_credentials_and_no_more(
    cloud: IdentityCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "IDENTITY_CREDENTIALS", 2)
    user_id = await cloud.id_of("users", "demo")
    path, statuses = f"/users/{user_id}/application_credentials", list[int]()
    for name in ("a", "b", "c"):
        body = {"application_credential": {"name": name}}
        statuses.append((await cloud.ask("POST", path, body, user="demo")).status)
    assert statuses == [201, 201, 403]
    long = {"application_credential": {"name": "d", "description": "x" * 65536}}
    assert (await cloud.ask("POST", path, long, user="demo")).status == 400
