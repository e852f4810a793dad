from __future__ import annotations

import pytest

from mooring.clients.identity import Login, RemoteValidator, ServiceUser
from mooring.errors import Unauthenticated, Unavailable
from mooring.identity import bootstrap
from tests.identity.town import ROOT, URLS, Town, turn

pytestmark = pytest.mark.anyio


def service_user(town: Town, name: str = "compute", password: str = "") -> ServiceUser:
    login = Login(user_name=name, password=password or town.passwords[name], project_name="service")
    return ServiceUser(town.network, f"{ROOT}/v3", login, clock=town.identity.clock)


def services(town: Town) -> dict[str, str]:
    return {name: town.passwords[name] for name in bootstrap.SERVICE_USERS}


async def test_the_first_start_sets_every_password(town: Town) -> None:
    assert set(town.passwords) == {"admin", "demo", *bootstrap.SERVICE_USERS}
    for name in town.passwords:
        assert (await town.log_in(name)).status == 201


async def test_a_second_start_changes_nothing(town: Town) -> None:
    commits = town.identity.store.commits
    assert await bootstrap.ensure(town.identity, urls=URLS, known=services(town)) == {}
    assert town.identity.store.commits == commits


async def test_a_service_user_whose_password_is_lost_gets_another(town: Town) -> None:
    known = services(town)
    del known["volume"]
    made = await bootstrap.ensure(town.identity, urls=URLS, known=known)
    assert set(made) == {"volume"}
    assert (await town.log_in("volume")).status == 401
    assert (await town.log_in("volume", made["volume"])).status == 201


async def test_a_service_user_gets_the_known_password_back(town: Town) -> None:
    known = {**services(town), "volume": "restored from elsewhere"}
    await bootstrap.ensure(town.identity, urls=URLS, known=known)
    assert (await town.log_in("volume", "restored from elsewhere")).status == 201


async def test_peoples_passwords_and_grants_are_left_alone(town: Town) -> None:
    user_id, role_id = await town.id_of("users", "demo"), await town.id_of("roles", "member")
    project_id = await town.id_of("projects", "demo")
    await town.ask("DELETE", f"/projects/{project_id}/users/{user_id}/roles/{role_id}", by="admin")
    made = await bootstrap.ensure(town.identity, urls=URLS)
    assert set(made) == set(bootstrap.SERVICE_USERS)
    assert (await town.log_in("demo", project=None)).status == 201
    assert (await town.log_in("demo")).status == 401


async def test_urls_follow_the_cloud_until_somebody_changes_them(town: Town) -> None:
    [service] = (await town.get("/services?type=block-storage"))["services"]
    path = f"/endpoints?service_id={service['id']}&interface=internal"
    [endpoint] = (await town.get(path))["endpoints"]
    body = {"endpoint": {"url": "http://cinder:8776/v3"}}
    await town.ask("PATCH", f"/endpoints/{endpoint['id']}", body, by="admin")
    moved = {kind: url.replace("town", "city") for kind, url in URLS.items()}
    await bootstrap.ensure(town.identity, urls=moved, known=services(town))
    [endpoint] = (await town.get(path))["endpoints"]
    assert endpoint["url"] == "http://cinder:8776/v3"
    [endpoint] = (await town.get(path.replace("internal", "public")))["endpoints"]
    assert endpoint["url"] == "http://city/volume/v3"
    assert len((await town.get("/endpoints"))["endpoints"]) == 9


async def test_a_service_user_uses_one_token_for_most_of_its_life(town: Town) -> None:
    user = service_user(town)
    token = await user.token()
    turn(town, 2800)
    assert await user.token() == token
    turn(town, 100)
    assert await user.token() != token


async def test_a_service_user_replaces_a_token_that_was_refused(town: Town) -> None:
    user = service_user(town)
    token = await user.token()
    other = await user.token(instead_of=token)
    assert other != token
    assert await user.token(instead_of=token) == other


async def test_a_service_user_knows_the_catalogue(town: Town) -> None:
    user = service_user(town)
    assert await user.url("volume") == "http://town/volume/v3"
    with pytest.raises(Unavailable):
        await user.url("image")


async def test_a_service_user_that_is_not_accepted_is_unavailable(town: Town) -> None:
    with pytest.raises(Unavailable, match="service user"):
        await service_user(town, password="wrong").token()


async def test_the_remote_validator_says_what_the_token_says(town: Town) -> None:
    validator = remote(town)
    info = await validator.validate(await town.token("demo"))
    assert (info.user_name, info.project_name) == ("demo", "demo")
    assert info.roles == {"member", "reader"}


async def test_the_remote_validator_refuses_what_identity_refuses(town: Town) -> None:
    with pytest.raises(Unauthenticated):
        await remote(town).validate("nonsense")


async def test_the_remote_validator_takes_expired_tokens_when_told(town: Town) -> None:
    validator, token = remote(town), await town.token("demo")
    turn(town, 3601)
    with pytest.raises(Unauthenticated):
        await validator.validate(token)
    assert (await validator.validate(token, allow_expired=True)).user_name == "demo"


async def test_the_remote_validator_remembers_for_a_minute(town: Town) -> None:
    validator, token = remote(town), await town.token("demo")
    await validator.validate(token)
    await town.ask("DELETE", "/auth/tokens", by="demo", headers={"X-Subject-Token": token})
    await validator.validate(token)
    turn(town, 61)
    with pytest.raises(Unauthenticated):
        await validator.validate(token)


async def test_the_remote_validator_renews_its_own_token(town: Town) -> None:
    user = service_user(town)
    validator = RemoteValidator(town.network, f"{ROOT}/v3", user, clock=town.identity.clock)
    own = await user.token()
    headers = {"X-Subject-Token": own}
    assert (await town.ask("DELETE", "/auth/tokens", by=own, headers=headers)).status == 204
    assert (await validator.validate(await town.token("demo"))).user_name == "demo"


def remote(town: Town) -> RemoteValidator:
    return RemoteValidator(
        town.network, f"{ROOT}/v3", service_user(town), clock=town.identity.clock
    )
