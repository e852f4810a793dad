from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Delete, Update, delete, select, update

from mooring import access, admin_command
from mooring.clients.identity import Login, RemoteValidator, ServiceUser
from mooring.errors import Conflict, Invalid, Unauthenticated, Unavailable
from mooring.identity import bootstrap, own
from mooring.identity.tables import GrantRow, ProjectRow, RoleRow, UserRow
from mooring.state_dir import hold
from tests.identity.cloud import ROOT, URLS, IdentityCloud

pytestmark = pytest.mark.anyio
_IMAGE = select(UserRow.id).where(UserRow.name == "image")
_SERVICE = select(RoleRow.id).where(RoleRow.name == "service")


def service_user(cloud: IdentityCloud, name: str = "compute", password: str = "") -> ServiceUser:
    login = Login(
        user_name=name, password=password or cloud.passwords[name], project_name="service"
    )
    return ServiceUser(cloud.network, f"{ROOT}/v3", login, clock=cloud.clock)


def services(cloud: IdentityCloud) -> dict[str, str]:
    return {name: cloud.passwords[name] for name in own.SERVICE_USERS}


async def test_the_first_start_sets_every_password(cloud: IdentityCloud) -> None:
    assert set(cloud.passwords) == {"admin", "demo", *own.SERVICE_USERS}
    for name in cloud.passwords:
        assert (await cloud.log_in(name)).status == 201


async def test_a_second_start_changes_nothing(cloud: IdentityCloud) -> None:
    commits = cloud.identity.store.commits
    assert await bootstrap.ensure(cloud.identity, urls=URLS, known=services(cloud)) == {}
    assert cloud.identity.store.commits == commits


async def test_a_service_user_whose_password_is_lost_gets_another(cloud: IdentityCloud) -> None:
    known = services(cloud)
    del known["volume"]
    made = await bootstrap.ensure(cloud.identity, urls=URLS, known=known)
    assert set(made) == {"volume"}
    assert (await cloud.log_in("volume")).status == 401
    assert (await cloud.log_in("volume", made["volume"])).status == 201


async def test_a_service_user_gets_the_known_password_back(cloud: IdentityCloud) -> None:
    known = {**services(cloud), "volume": "restored from elsewhere"}
    await bootstrap.ensure(cloud.identity, urls=URLS, known=known)
    assert (await cloud.log_in("volume", "restored from elsewhere")).status == 201


async def test_peoples_passwords_and_grants_are_left_alone(cloud: IdentityCloud) -> None:
    user_id, role_id = await cloud.id_of("users", "demo"), await cloud.id_of("roles", "member")
    project_id = await cloud.id_of("projects", "demo")
    await cloud.ask(
        "DELETE", f"/projects/{project_id}/users/{user_id}/roles/{role_id}", user="admin"
    )
    made = await bootstrap.ensure(cloud.identity, urls=URLS)
    assert set(made) == set(own.SERVICE_USERS)
    assert (await cloud.log_in("demo", project=None)).status == 201
    assert (await cloud.log_in("demo")).status == 401


@pytest.mark.parametrize("name", ["admin", "demo"])
@pytest.mark.parametrize("how", [None, {"name": "ann"}])
async def test_a_person_who_was_sent_away_does_not_come_back(
    cloud: IdentityCloud, how: dict[str, Any] | None, name: str
) -> None:
    await cloud.add_user("heir", "secret", role="admin", project="admin")
    await send_away(cloud, name, how)
    await cloud.restart()
    # Nor when a start has something to mend.
    await bootstrap.ensure(cloud.identity, urls=URLS, known=cloud.passwords | {"volume": "other"})
    assert (await cloud.log_in(name, project=None)).status == 401
    assert (await cloud.get(f"/users?name={name}", user=await heir(cloud)))["users"] == []


@pytest.mark.parametrize("how", [None, {"name": "ann"}, {"enabled": False}, {"password": "lost"}])
async def test_whoever_has_the_machine_makes_an_administrator_anew(
    cloud: IdentityCloud, how: dict[str, Any] | None
) -> None:
    former = cloud.passwords["admin"]
    await send_away(cloud, "admin", how)
    await cloud.close()
    said: list[str] = []
    await admin_command.restore_admin(cloud.settings, said.append)
    assert str(cloud.settings.state_path / access.PASSWORDS) in said[0]
    await cloud.open()
    cloud.tokens.clear()
    assert cloud.passwords["admin"] != former
    assert (await cloud.log_in("admin")).status == 201
    assert (
        await cloud.log_in("admin", project=None, scope={"system": {"all": True}})
    ).status == 201
    assert (await cloud.log_in("admin", former)).status == 401
    _, login = access.read_login(cloud.settings.state_path)
    assert login.password == cloud.passwords["admin"]


async def test_no_administrator_is_made_where_no_cloud_is_or_one_runs(cloud: IdentityCloud) -> None:
    elsewhere = replace(cloud.settings, state_dir=f"{cloud.settings.state_dir}/elsewhere")
    with pytest.raises(Invalid, match="no cloud"):
        await admin_command.restore_admin(elsewhere, print)
    running = hold(cloud.settings.state_path)
    with pytest.raises(Conflict, match="in use"):
        await admin_command.restore_admin(cloud.settings, print)
    running.release()


async def send_away(cloud: IdentityCloud, name: str, how: dict[str, Any] | None) -> None:
    """Delete a user, or change it."""
    path = f"/users/{await cloud.id_of('users', name)}"
    body = {"user": how} if how else None
    answer = await cloud.ask("PATCH" if how else "DELETE", path, body, user="admin")
    assert answer.status in {200, 204}, answer


async def heir(cloud: IdentityCloud) -> str:
    """Log in as the administrator who was left, and return the token."""
    answer = await cloud.log_in("heir", "secret", project="admin")
    return answer.headers["x-subject-token"]


@pytest.mark.parametrize("name", own.SERVICE_USERS)
async def test_what_a_service_works_with_is_not_taken(cloud: IdentityCloud, name: str) -> None:
    user, project = (
        await cloud.id_of("users", name),
        await cloud.id_of("projects", own.SERVICE_PROJECT),
    )
    roles = [await cloud.id_of("roles", role) for role in own.SERVICE_ROLES]
    body = {"role": {"options": {"immutable": False}}}
    for role in roles:
        assert (await cloud.ask("PATCH", f"/roles/{role}", body, user="admin")).status == 200
    paths = {"user": f"/users/{user}", "project": f"/projects/{project}"}
    changes = [(kind, change) for kind in paths for change in ({"name": "x"}, {"enabled": False})]
    answers = [
        *[await cloud.ask("DELETE", path, user="admin") for path in paths.values()],
        *[
            await cloud.ask("PATCH", paths[kind], {kind: change}, user="admin")
            for kind, change in changes
        ],
        *[
            await cloud.ask("DELETE", f"{before}/roles/{role}", user="admin")
            for role in roles
            for before in ("", f"{paths['project']}{paths['user']}")
        ],
        *[
            await cloud.ask("PATCH", f"/roles/{role}", {"role": {"name": "x"}}, user="admin")
            for role in roles
        ],
    ]
    assert [answer.status for answer in answers] == [403] * len(answers)
    assert all("the cloud's own services" in answer.fault for answer in answers)
    assert (await remote(cloud, name).validate(await cloud.token("demo"))).user_name == "demo"


@pytest.mark.parametrize("name", own.SERVICE_USERS)
async def test_a_service_keeps_its_password(cloud: IdentityCloud, name: str) -> None:
    path = f"/users/{await cloud.id_of('users', name)}"
    both = {"password": "another one", "original_password": cloud.passwords[name]}
    given = {"password": "another one"}
    answers = [
        await cloud.ask("PATCH", path, {"user": given}, user="admin"),
        await cloud.ask("POST", f"{path}/password", {"user": both}, user=None),
    ]
    assert [answer.status for answer in answers] == [403, 403]
    assert all("the cloud's own services" in answer.fault for answer in answers)
    assert (await remote(cloud, name).validate(await cloud.token("demo"))).user_name == "demo"


async def test_what_no_service_works_with_may_go(cloud: IdentityCloud) -> None:
    user, project = await cloud.id_of("users", "compute"), await cloud.id_of("projects", "demo")
    role = await cloud.id_of("roles", "admin")
    path = f"/projects/{project}/users/{user}/roles/{role}"
    assert (await cloud.ask("PUT", path, user="admin")).status == 204
    assert (await cloud.ask("DELETE", path, user="admin")).status == 204
    body = {"user": {"email": "compute@example.com", "name": "compute", "enabled": True}}
    assert (await cloud.ask("PATCH", f"/users/{user}", body, user="admin")).status == 200
    domain = (await cloud.make("/domains", {"domain": {"name": "blue"}}))["id"]
    for kind, name in (("user", "compute"), ("project", own.SERVICE_PROJECT)):
        made = await cloud.make(f"/{kind}s", {kind: {"name": name, "domain_id": domain}})
        assert (await cloud.ask("DELETE", f"/{kind}s/{made['id']}", user="admin")).status == 204


@pytest.mark.parametrize(
    "damage",
    [
        update(ProjectRow).where(ProjectRow.name == own.SERVICE_PROJECT).values(enabled=False),
        update(ProjectRow).where(ProjectRow.name == own.SERVICE_PROJECT).values(name="x"),
        update(UserRow).where(UserRow.name == "image").values(enabled=False),
        update(UserRow).where(UserRow.name == "image").values(name="x"),
        update(RoleRow).where(RoleRow.name == "service").values(name="x"),
        delete(GrantRow).where(GrantRow.user_id.in_(_IMAGE)),
        delete(GrantRow).where(GrantRow.role_id.in_(_SERVICE), GrantRow.user_id.in_(_IMAGE)),
    ],
    ids=[
        "project-disabled",
        "project-renamed",
        "user-disabled",
        "user-renamed",
        "role-renamed",
        "roles-taken",
        "role-taken",
    ],
)
async def test_a_start_gives_back_what_a_service_works_with(
    tmp_path: Path, database: str, damage: Update | Delete
) -> None:
    """As earlier releases let anybody take it who rules the cloud."""
    async with IdentityCloud(tmp_path, database=database) as cloud:
        demo = await cloud.token("demo")
        await cloud.identity.store.write(lambda tx: tx.execute(damage))
        await cloud.restart()
        for name in own.SERVICE_USERS:
            answer = await cloud.log_in(name)
            assert {role["name"] for role in answer.body["token"]["roles"]} >= set(
                own.SERVICE_ROLES
            )
        assert (await remote(cloud, "image").validate(demo)).user_name == "demo"
        commits = cloud.identity.store.commits
        await bootstrap.ensure(cloud.identity, urls=URLS, known=services(cloud))
        assert cloud.identity.store.commits == commits


async def test_urls_follow_the_cloud_until_somebody_changes_them(cloud: IdentityCloud) -> None:
    [service] = (await cloud.get("/services?type=block-storage"))["services"]
    path = f"/endpoints?service_id={service['id']}&interface=internal"
    [endpoint] = (await cloud.get(path))["endpoints"]
    body = {"endpoint": {"url": "http://cinder:8776/v3"}}
    await cloud.ask("PATCH", f"/endpoints/{endpoint['id']}", body, user="admin")
    moved = {kind: url.replace("http://cloud", "http://city") for kind, url in URLS.items()}
    await bootstrap.ensure(cloud.identity, urls=moved, known=services(cloud))
    [endpoint] = (await cloud.get(path))["endpoints"]
    assert endpoint["url"] == "http://cinder:8776/v3"
    [endpoint] = (await cloud.get(path.replace("internal", "public")))["endpoints"]
    assert endpoint["url"] == "http://city/volume/v3"
    assert len((await cloud.get("/endpoints"))["endpoints"]) == 3 * len(URLS)


async def test_a_service_user_uses_one_token_for_most_of_its_life(cloud: IdentityCloud) -> None:
    user = service_user(cloud)
    token = await user.token()
    cloud.clock.advance(2800)
    assert await user.token() == token
    cloud.clock.advance(100)
    assert await user.token() != token


async def test_a_service_user_replaces_a_token_that_was_refused(cloud: IdentityCloud) -> None:
    user = service_user(cloud)
    token = await user.token()
    other = await user.token(instead_of=token)
    assert other != token
    assert await user.token(instead_of=token) == other


async def test_a_service_user_knows_the_catalogue(cloud: IdentityCloud) -> None:
    [image] = (await cloud.get("/services?type=image"))["services"]
    await cloud.ask("DELETE", f"/services/{image['id']}", user="admin")
    user = service_user(cloud)
    assert await user.url("volume") == URLS["block-storage"]
    with pytest.raises(Unavailable):
        await user.url("image")


async def test_a_service_user_that_is_not_accepted_is_unavailable(cloud: IdentityCloud) -> None:
    with pytest.raises(Unavailable, match="service user"):
        await service_user(cloud, password="wrong").token()


async def test_the_remote_validator_says_what_the_token_says(cloud: IdentityCloud) -> None:
    validator = remote(cloud)
    info = await validator.validate(await cloud.token("demo"))
    assert (info.user_name, info.project_name) == ("demo", "demo")
    assert info.roles == {"member", "reader"}


async def test_the_remote_validator_refuses_what_identity_refuses(cloud: IdentityCloud) -> None:
    with pytest.raises(Unauthenticated):
        await remote(cloud).validate("nonsense")


async def test_the_remote_validator_takes_expired_tokens_when_told(cloud: IdentityCloud) -> None:
    validator, token = remote(cloud), await cloud.token("demo")
    cloud.clock.advance(3601)
    with pytest.raises(Unauthenticated):
        await validator.validate(token)
    assert (await validator.validate(token, allow_expired=True)).user_name == "demo"


async def test_the_remote_validator_remembers_for_a_minute(cloud: IdentityCloud) -> None:
    validator, token = remote(cloud), await cloud.token("demo")
    await validator.validate(token)
    await cloud.ask("DELETE", "/auth/tokens", user="demo", headers={"X-Subject-Token": token})
    await validator.validate(token)
    cloud.clock.advance(61)
    with pytest.raises(Unauthenticated):
        await validator.validate(token)


async def test_the_remote_validator_renews_its_own_token(cloud: IdentityCloud) -> None:
    user = service_user(cloud)
    validator = RemoteValidator(cloud.network, f"{ROOT}/v3", user, clock=cloud.clock)
    own = await user.token()
    headers = {"X-Subject-Token": own}
    assert (await cloud.ask("DELETE", "/auth/tokens", user=own, headers=headers)).status == 204
    assert (await validator.validate(await cloud.token("demo"))).user_name == "demo"


def remote(cloud: IdentityCloud, name: str = "compute") -> RemoteValidator:
    user = service_user(cloud, name)
    return RemoteValidator(cloud.network, f"{ROOT}/v3", user, clock=cloud.clock)
