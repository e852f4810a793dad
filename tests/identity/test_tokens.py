from __future__ import annotations

import asyncio
import errno
import os
from datetime import timedelta
from pathlib import Path

import pytest

from mooring import limits
from mooring.errors import Invalid, Unauthenticated
from mooring.identity import renewal
from mooring.identity.keys import KEPT, TOKEN_KEYS, TokenKeys, rotated
from mooring.identity.tokens import LocalValidator
from tests.identity.cloud import DEFAULT, IdentityCloud

pytestmark = pytest.mark.anyio


async def test_a_service_may_validate_any_token(cloud: IdentityCloud) -> None:
    answer = await cloud.show(await cloud.token("demo"))
    assert answer.status == 200
    assert answer.body["token"]["user"]["name"] == "demo"
    head = {"X-Subject-Token": await cloud.token("demo")}
    assert (await cloud.ask("HEAD", "/auth/tokens", user="compute", headers=head)).status == 200


async def test_a_member_may_validate_its_own_token_only(cloud: IdentityCloud) -> None:
    assert (await cloud.show(await cloud.token("demo"), user="demo")).status == 200
    assert (await cloud.show(await cloud.token("admin"), user="demo")).status == 403


async def test_what_is_no_token_is_404_and_a_caller_without_one_401(cloud: IdentityCloud) -> None:
    assert (await cloud.show("nonsense")).status == 404
    assert (await cloud.ask("GET", "/auth/tokens", user="compute")).status == 404
    assert (await cloud.show(await cloud.token("demo"), user="")).status == 401


async def test_a_revoked_token_ends_and_others_of_the_user_live_on(cloud: IdentityCloud) -> None:
    token, other = (
        await cloud.token("demo"),
        (await cloud.log_in("demo")).headers["x-subject-token"],
    )
    body = {"auth": {"identity": {"methods": ["token"], "token": {"id": token}}}}
    child = (await cloud.ask("POST", "/auth/tokens", body)).headers["x-subject-token"]
    headers = {"X-Subject-Token": token}
    assert (await cloud.ask("DELETE", "/auth/tokens", user="demo", headers=headers)).status == 204
    assert (await cloud.show(token)).status == 404
    assert (await cloud.show(child)).status == 404
    assert (await cloud.show(other)).status == 200
    assert (await cloud.ask("GET", "/auth/projects", user=token)).status == 401


async def test_a_member_may_not_revoke_anothers_token(cloud: IdentityCloud) -> None:
    headers = {"X-Subject-Token": await cloud.token("admin")}
    assert (await cloud.ask("DELETE", "/auth/tokens", user="demo", headers=headers)).status == 403


async def test_disabling_a_user_ends_its_tokens_for_good(cloud: IdentityCloud) -> None:
    token, user_id = await cloud.token("demo"), await cloud.id_of("users", "demo")
    cloud.clock.advance(1)
    await cloud.ask("PATCH", f"/users/{user_id}", {"user": {"enabled": False}}, user="admin")
    assert (await cloud.show(token)).status == 404
    assert (await cloud.log_in("demo")).status == 401
    await cloud.ask("PATCH", f"/users/{user_id}", {"user": {"enabled": True}}, user="admin")
    assert (await cloud.show(token)).status == 404
    assert (await cloud.log_in("demo")).status == 201


async def test_a_new_password_ends_the_tokens_of_before(cloud: IdentityCloud) -> None:
    token, user_id = await cloud.token("demo"), await cloud.id_of("users", "demo")
    cloud.clock.advance(1)
    body = {"user": {"original_password": cloud.passwords["demo"], "password": "another one"}}
    assert (await cloud.ask("POST", f"/users/{user_id}/password", body)).status == 204
    assert (await cloud.show(token)).status == 404
    assert (await cloud.log_in("demo", "another one")).status == 201
    assert (await cloud.ask("POST", f"/users/{user_id}/password", body)).status == 401


async def test_a_disabled_project_ends_its_tokens(cloud: IdentityCloud) -> None:
    token, project_id = await cloud.token("demo"), await cloud.id_of("projects", "demo")
    await cloud.ask(
        "PATCH", f"/projects/{project_id}", {"project": {"enabled": False}}, user="admin"
    )
    assert (await cloud.show(token)).status == 404


async def test_a_project_that_is_enabled_again_has_no_token_of_before(cloud: IdentityCloud) -> None:
    token, project_id = await cloud.token("demo"), await cloud.id_of("projects", "demo")
    other = await cloud.token("admin")
    for enabled in (False, True):
        body = {"project": {"enabled": enabled}}
        answer = await cloud.ask("PATCH", f"/projects/{project_id}", body, user="admin")
        assert answer.status == 200
    assert (await cloud.show(token)).status == 404
    assert (await cloud.show(other)).status == 200
    validator = LocalValidator(cloud.identity)
    with pytest.raises(Unauthenticated):
        await validator.validate(token)
    assert (await cloud.log_in("demo", project="demo")).status == 201


async def test_a_role_that_is_given_again_comes_back_to_no_token_of_before(
    cloud: IdentityCloud,
) -> None:
    user_id = await cloud.add_user("ann", "secret", role="member", project="demo")
    role_id = await cloud.id_of("roles", "service")
    path = f"/projects/{await cloud.id_of('projects', 'demo')}/users/{user_id}/roles/{role_id}"

    async def change(method: str) -> str:
        """Give or take the role; return a token of afterwards."""
        assert (await cloud.ask(method, path, user="admin")).status == 204
        answer = await cloud.log_in("ann", project="demo")
        return answer.headers["x-subject-token"]

    async def roles_of(token: str) -> set[str]:
        answer = await cloud.show(token)
        return {role["name"] for role in answer.body["token"]["roles"]}

    with_it = await change("PUT")
    without = await change("DELETE")
    assert "service" not in await roles_of(with_it)
    again = await change("PUT")
    assert "service" in await roles_of(again)
    assert [(await cloud.show(one)).status for one in (with_it, without)] == [404, 404]
    await change("PUT")
    assert "service" in await roles_of(again), "nothing was taken since"


async def test_a_role_that_is_taken_shrinks_the_token_and_the_last_one_ends_it(
    cloud: IdentityCloud,
) -> None:
    user_id = await cloud.add_user("ann", "secret", role="member", project="demo")
    project_id = await cloud.id_of("projects", "demo")
    grants = f"/projects/{project_id}/users/{user_id}/roles"
    service = await cloud.id_of("roles", "service")
    assert (await cloud.ask("PUT", f"{grants}/{service}", user="admin")).status == 204
    answer = await cloud.log_in("ann", project="demo")
    token = answer.headers["x-subject-token"]
    assert {role["name"] for role in answer.body["token"]["roles"]} == {
        "member",
        "reader",
        "service",
    }
    member = await cloud.id_of("roles", "member")
    assert (await cloud.ask("DELETE", f"{grants}/{member}", user="admin")).status == 204
    roles = (await cloud.show(token)).body["token"]["roles"]
    assert [role["name"] for role in roles] == ["service"]
    assert (await cloud.ask("DELETE", f"{grants}/{service}", user="admin")).status == 204
    assert (await cloud.show(token)).status == 404


async def test_an_expired_token_is_shown_for_two_days_to_who_asks_for_it(
    cloud: IdentityCloud,
) -> None:
    token = await cloud.token("demo")
    cloud.clock.advance(3601)
    cloud.tokens.clear()
    assert (await cloud.show(token)).status == 404
    assert (await cloud.show(token, query="?allow_expired=1")).status == 200
    cloud.clock.advance(limits.IDENTITY_EXPIRED_S)
    cloud.tokens.clear()
    assert (await cloud.show(token, query="?allow_expired=1")).status == 404


async def test_the_local_validator_says_what_the_api_says(cloud: IdentityCloud) -> None:
    validator = LocalValidator(cloud.identity)
    info = await validator.validate(await cloud.token("demo"))
    shown = (await cloud.show(await cloud.token("demo"))).body["token"]
    assert (info.user_id, info.project_id) == (shown["user"]["id"], shown["project"]["id"])
    assert info.roles == {role["name"] for role in shown["roles"]}
    assert info.expires_at - (info.issued_at or info.expires_at) == timedelta(hours=1)


async def test_the_local_validator_forgets_with_every_change(cloud: IdentityCloud) -> None:
    validator, token = LocalValidator(cloud.identity), await cloud.token("demo")
    await validator.validate(token)
    project_id = await cloud.id_of("projects", "demo")
    await cloud.ask(
        "PATCH", f"/projects/{project_id}", {"project": {"enabled": False}}, user="admin"
    )
    with pytest.raises(Unauthenticated):
        await validator.validate(token)


async def test_the_local_validator_takes_expired_tokens_when_told(cloud: IdentityCloud) -> None:
    validator, token = LocalValidator(cloud.identity), await cloud.token("demo")
    await validator.validate(token)
    cloud.clock.advance(3601)
    with pytest.raises(Unauthenticated):
        await validator.validate(token)
    assert (await validator.validate(token, allow_expired=True)).user_name == "demo"
    cloud.clock.advance(limits.IDENTITY_EXPIRED_S)
    with pytest.raises(Unauthenticated):
        await validator.validate(token, allow_expired=True)


async def test_tokens_outlive_two_rotations_of_the_keys(cloud: IdentityCloud) -> None:
    token = await cloud.token("demo")
    for _ in range(2):
        await renewal.rotate(cloud.identity)
        assert (await cloud.show(token)).status == 200
    for _ in range(KEPT):
        await renewal.rotate(cloud.identity)
    cloud.tokens.clear()
    assert (await cloud.show(token)).status == 404


def test_keys_are_their_owners_secret(tmp_path: Path) -> None:
    TokenKeys(tmp_path / "keys")
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600


def test_another_process_reads_rotated_keys(tmp_path: Path) -> None:
    ours, theirs = TokenKeys(tmp_path / "keys"), TokenKeys(tmp_path / "keys")
    ours.replace(rotated(ours.content()))
    assert theirs.decrypt(ours.encrypt(b"a")) == b"a"
    assert ours.decrypt(theirs.encrypt(b"b")) == b"b"


def test_processes_that_take_new_keys_at_once_both_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = TokenKeys(tmp_path / "keys"), TokenKeys(tmp_path / "keys")
    keys, into_place = rotated(ours.content()), Path.replace

    def overtaken(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "replace", into_place)
        theirs.replace(keys)
        return into_place(self, target)

    monkeypatch.setattr(Path, "replace", overtaken)
    ours.replace(keys)
    assert ours.content() == theirs.content() == keys
    assert theirs.decrypt(ours.encrypt(b"a")) == b"a"
    assert [left.name for left in tmp_path.iterdir()] == ["keys"]


async def test_a_process_takes_new_keys_when_its_disk_has_room_again(
    cloud: IdentityCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    file, token = cloud.settings.state_path / TOKEN_KEYS, await cloud.token("demo")
    kept, running = file.read_bytes(), asyncio.create_task(cloud.cloud.run())
    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        answer = await cloud.ask("POST", "/mooring/tokens/keys", user="admin")
        assert answer.status == 503
        assert "goes on with those of before: " in answer.fault
        await let_follow(cloud)
        assert not running.done()
        assert file.read_bytes() == kept
        assert (await cloud.show(token)).status == 200
    await let_follow(cloud)
    assert not running.done()
    assert file.read_bytes().split()[1:] == kept.split()
    assert [left.name for left in file.parent.glob("*.partial")] == []
    assert (await cloud.show(token)).status == 200
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def let_follow(cloud: IdentityCloud) -> None:
    """Let the loops of a cloud that runs begin again, and do what they do."""
    for _ in range(4):
        cloud.clock.advance(max(limits.LOOP_REST_S, limits.IDENTITY_CACHE_S))
        for _ in range(50):
            await asyncio.sleep(0)


@pytest.mark.parametrize("content", ["", "nonsense\nnonsense\n"])
def test_a_file_without_keys_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "keys").write_text(content)
    with pytest.raises(Invalid, match="keys"):
        TokenKeys(tmp_path / "keys")


async def test_a_domain_scope_is_a_scope(cloud: IdentityCloud) -> None:
    user_id, role_id = await cloud.id_of("users", "demo"), await cloud.id_of("roles", "reader")
    path = f"/domains/default/users/{user_id}/roles/{role_id}"
    assert (await cloud.ask("PUT", path, user="admin")).status == 204
    answer = await cloud.log_in("demo", project=None, scope={"domain": DEFAULT})
    assert answer.body["token"]["domain"] == {"id": "default", "name": "Default"}
    assert (await cloud.show(answer.headers["x-subject-token"])).status == 200
    domains = await cloud.get("/auth/domains", user="demo")
    assert [domain["id"] for domain in domains["domains"]] == ["default"]
