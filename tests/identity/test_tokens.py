from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from mooring import limits
from mooring.errors import Invalid, Unauthenticated
from mooring.identity.keys import KEPT, TokenKeys
from mooring.identity.tokens import LocalValidator
from tests.identity.town import DEFAULT, Town, turn

pytestmark = pytest.mark.anyio


async def test_a_service_may_validate_any_token(town: Town) -> None:
    answer = await town.show(await town.token("demo"))
    assert answer.status == 200
    assert answer.json["token"]["user"]["name"] == "demo"
    head = {"X-Subject-Token": await town.token("demo")}
    assert (await town.ask("HEAD", "/auth/tokens", by="compute", headers=head)).status == 200


async def test_a_member_may_validate_its_own_token_only(town: Town) -> None:
    assert (await town.show(await town.token("demo"), by="demo")).status == 200
    assert (await town.show(await town.token("admin"), by="demo")).status == 403


async def test_what_is_no_token_is_404_and_a_caller_without_one_401(town: Town) -> None:
    assert (await town.show("nonsense")).status == 404
    assert (await town.ask("GET", "/auth/tokens", by="compute")).status == 404
    assert (await town.show(await town.token("demo"), by="")).status == 401


async def test_a_revoked_token_ends_and_others_of_the_user_live_on(town: Town) -> None:
    token, other = await town.token("demo"), (await town.log_in("demo")).headers["x-subject-token"]
    body = {"auth": {"identity": {"methods": ["token"], "token": {"id": token}}}}
    child = (await town.ask("POST", "/auth/tokens", body)).headers["x-subject-token"]
    headers = {"X-Subject-Token": token}
    assert (await town.ask("DELETE", "/auth/tokens", by="demo", headers=headers)).status == 204
    assert (await town.show(token)).status == 404
    assert (await town.show(child)).status == 404
    assert (await town.show(other)).status == 200
    assert (await town.ask("GET", "/auth/projects", by=token)).status == 401


async def test_a_member_may_not_revoke_anothers_token(town: Town) -> None:
    headers = {"X-Subject-Token": await town.token("admin")}
    assert (await town.ask("DELETE", "/auth/tokens", by="demo", headers=headers)).status == 403


async def test_disabling_a_user_ends_its_tokens_for_good(town: Town) -> None:
    token, user_id = await town.token("demo"), await town.id_of("users", "demo")
    turn(town, 1)
    await town.ask("PATCH", f"/users/{user_id}", {"user": {"enabled": False}}, by="admin")
    assert (await town.show(token)).status == 404
    assert (await town.log_in("demo")).status == 401
    await town.ask("PATCH", f"/users/{user_id}", {"user": {"enabled": True}}, by="admin")
    assert (await town.show(token)).status == 404
    assert (await town.log_in("demo")).status == 201


async def test_a_new_password_ends_the_tokens_of_before(town: Town) -> None:
    token, user_id = await town.token("demo"), await town.id_of("users", "demo")
    turn(town, 1)
    body = {"user": {"original_password": town.passwords["demo"], "password": "another one"}}
    assert (await town.ask("POST", f"/users/{user_id}/password", body)).status == 204
    assert (await town.show(token)).status == 404
    assert (await town.log_in("demo", "another one")).status == 201
    assert (await town.ask("POST", f"/users/{user_id}/password", body)).status == 401


async def test_a_disabled_project_ends_its_tokens(town: Town) -> None:
    token, project_id = await town.token("demo"), await town.id_of("projects", "demo")
    await town.ask("PATCH", f"/projects/{project_id}", {"project": {"enabled": False}}, by="admin")
    assert (await town.show(token)).status == 404


async def test_a_role_that_is_taken_shrinks_the_token_and_the_last_one_ends_it(town: Town) -> None:
    user_id = await town.add_user("ann", "secret", role="member", project="demo")
    project_id = await town.id_of("projects", "demo")
    grants = f"/projects/{project_id}/users/{user_id}/roles"
    service = await town.id_of("roles", "service")
    assert (await town.ask("PUT", f"{grants}/{service}", by="admin")).status == 204
    answer = await town.log_in("ann", project="demo")
    token = answer.headers["x-subject-token"]
    assert {role["name"] for role in answer.json["token"]["roles"]} == {
        "member",
        "reader",
        "service",
    }
    member = await town.id_of("roles", "member")
    assert (await town.ask("DELETE", f"{grants}/{member}", by="admin")).status == 204
    roles = (await town.show(token)).json["token"]["roles"]
    assert [role["name"] for role in roles] == ["service"]
    assert (await town.ask("DELETE", f"{grants}/{service}", by="admin")).status == 204
    assert (await town.show(token)).status == 404


async def test_an_expired_token_is_shown_for_two_days_to_who_asks_for_it(town: Town) -> None:
    token = await town.token("demo")
    turn(town, 3601)
    town.tokens.clear()
    assert (await town.show(token)).status == 404
    assert (await town.show(token, query="?allow_expired=1")).status == 200
    turn(town, limits.IDENTITY_EXPIRED_S)
    town.tokens.clear()
    assert (await town.show(token, query="?allow_expired=1")).status == 404


async def test_the_local_validator_says_what_the_api_says(town: Town) -> None:
    validator = LocalValidator(town.identity)
    info = await validator.validate(await town.token("demo"))
    shown = (await town.show(await town.token("demo"))).json["token"]
    assert (info.user_id, info.project_id) == (shown["user"]["id"], shown["project"]["id"])
    assert info.roles == {role["name"] for role in shown["roles"]}
    assert info.expires_at - (info.issued_at or info.expires_at) == timedelta(hours=1)


async def test_the_local_validator_forgets_with_every_change(town: Town) -> None:
    validator, token = LocalValidator(town.identity), await town.token("demo")
    await validator.validate(token)
    project_id = await town.id_of("projects", "demo")
    await town.ask("PATCH", f"/projects/{project_id}", {"project": {"enabled": False}}, by="admin")
    with pytest.raises(Unauthenticated):
        await validator.validate(token)


async def test_the_local_validator_takes_expired_tokens_when_told(town: Town) -> None:
    validator, token = LocalValidator(town.identity), await town.token("demo")
    await validator.validate(token)
    turn(town, 3601)
    with pytest.raises(Unauthenticated):
        await validator.validate(token)
    assert (await validator.validate(token, allow_expired=True)).user_name == "demo"
    turn(town, limits.IDENTITY_EXPIRED_S)
    with pytest.raises(Unauthenticated):
        await validator.validate(token, allow_expired=True)


async def test_tokens_outlive_two_rotations_of_the_keys(town: Town) -> None:
    token = await town.token("demo")
    keys = town.identity.keys
    for _ in range(2):
        keys.rotate()
        assert (await town.show(token)).status == 200
    for _ in range(KEPT):
        keys.rotate()
    town.tokens.clear()
    assert (await town.show(token)).status == 404


def test_keys_are_their_owners_secret(tmp_path: Path) -> None:
    TokenKeys(tmp_path / "keys")
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600


def test_another_process_reads_rotated_keys(tmp_path: Path) -> None:
    ours, theirs = TokenKeys(tmp_path / "keys"), TokenKeys(tmp_path / "keys")
    ours.rotate()
    assert theirs.decrypt(ours.encrypt(b"a")) == b"a"
    assert ours.decrypt(theirs.encrypt(b"b")) == b"b"


@pytest.mark.parametrize("content", ["", "nonsense\nnonsense\n"])
def test_a_file_without_keys_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "keys").write_text(content)
    with pytest.raises(Invalid, match="keys"):
        TokenKeys(tmp_path / "keys")


async def test_a_domain_scope_is_a_scope(town: Town) -> None:
    user_id, role_id = await town.id_of("users", "demo"), await town.id_of("roles", "reader")
    path = f"/domains/default/users/{user_id}/roles/{role_id}"
    assert (await town.ask("PUT", path, by="admin")).status == 204
    answer = await town.log_in("demo", project=None, scope={"domain": DEFAULT})
    assert answer.json["token"]["domain"] == {"id": "default", "name": "Default"}
    assert (await town.show(answer.headers["x-subject-token"])).status == 200
    domains = await town.get("/auth/domains", by="demo")
    assert [domain["id"] for domain in domains["domains"]] == ["default"]
